"""How to record a trace that an audit can judge, in the words of the nsys at hand."""

from __future__ import annotations

from dataclasses import dataclass

from overlapaudit.analysis.gaps import gpu_metrics_option, version_of
from overlapaudit.model.trace import Recording


@dataclass(frozen=True, slots=True)
class CaptureStep:
    """A command to run, and what it is for."""

    purpose: str
    command: str


def recipe(recording: Recording) -> list[CaptureStep]:
    """Give the commands that record everything an audit uses, one perturbation a run."""
    version = version_of(recording)
    base = "nsys profile --trace=cuda,nvtx --cuda-graph-trace=node --sample=none"
    steps = [
        CaptureStep(
            "times and overlap (nodes of graphs cost time each: compare step times with an "
            "unprofiled run, and use --cuda-graph-trace=graph if the program fails)",
            f"{base} --cpuctxsw=none -o timing CMD",
        ),
        CaptureStep(
            "what the GPU was short of (its own run: needs permission for GPU counters)",
            f"{base} --cpuctxsw=none {gpu_metrics_option(version)} -o metrics CMD",
        ),
    ]
    if not version or version >= (2025,):
        steps.append(
            CaptureStep(
                "event records (its own run: it can delay streams; CUDA 12.8 or later)",
                f"{base} --cpuctxsw=none --cuda-event-trace=true -o events CMD",
            )
        )
    steps.append(
        CaptureStep(
            "device memory (its own run: it slows the program down)",
            f"{base} --cpuctxsw=none --cuda-memory-usage=true -o memory CMD",
        )
    )
    steps.append(
        CaptureStep("export", "nsys export --type sqlite -o timing.sqlite timing.nsys-rep")
    )
    return steps
