"""The catalogue of finding codes: what each is called, who decides it, what can be tuned.

Every code has a page in `pages/CODE.md`, printed by `overlapaudit explain CODE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from overlapaudit.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number of a rule that a policy can change."""

    default: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A finding code.

    Attributes:
        code: "OA001"; never reused.
        slug: a name for people and for searching.
        title: one line.
        layer: who decides it (gateway, scheduler, runtime, executor); None: the recording itself.
        tuning_step: its place in the order of advice; 0 comes before all tuning.
        thresholds: by name.
    """

    code: str
    slug: str
    title: str
    layer: str | None = None
    tuning_step: int = 0
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)


RULES: Mapping[str, Rule] = {
    rule.code: rule
    for rule in (
        Rule("OA001", "no-gpu-work", "No GPU work in the trace"),
        Rule(
            "OA002",
            "graph-work-opaque",
            "What ran inside CUDA graphs was not recorded",
            thresholds={
                "warning_share": Threshold(0.005, "opaque share of a device's window to warn from")
            },
        ),
        Rule(
            "OA003",
            "events-unresolved",
            "Waits whose event record is not known for certain",
            thresholds={
                "warning_share": Threshold(0.05, "unresolved share of the waits to warn from")
            },
        ),
        Rule(
            "OA004",
            "clock-violation",
            "GPU work that starts before its own launch",
            thresholds={
                "error_share": Threshold(0.01, "share of the operations that makes it an error")
            },
        ),
        Rule(
            "OA005",
            "truncated-window",
            "The trace was cut: work without its launch, or launches without their work",
            thresholds={
                "warning_share": Threshold(
                    0.05, "share of the operations without launch to warn from"
                )
            },
        ),
        Rule(
            "OA006",
            "profiler-perturbs",
            "The profiler itself changed what it measured",
            thresholds={
                "info_share": Threshold(
                    0.005, "share of a window in profiler overhead to report from"
                )
            },
        ),
        Rule("OA007", "process-without-gpu-work", "A process called CUDA but has no GPU work"),
        Rule(
            "OA008",
            "unclassified-kernels",
            "Kernels whose name no rule knows",
            thresholds={
                "warning_share": Threshold(0.05, "share of a device's kernel time to warn from")
            },
        ),
        Rule("OA009", "clocks-not-comparable", "Clocks of ranks cannot be compared"),
        Rule(
            "OA201",
            "same-stream",
            "Copies or communication queue on the kernels' own stream",
            layer="executor",
            tuning_step=3,
        ),
        Rule(
            "OA202",
            "same-copy-engine",
            "Copies queue behind copies of another stream on one engine",
            layer="executor",
            tuning_step=3,
        ),
        Rule("OA501", "scalar-read-back", "The host waits to read a value", "runtime", 1),
        Rule(
            "OA502",
            "explicit-wait",
            "The host waits for a stream, a device or an event",
            "runtime",
            1,
        ),
        Rule(
            "OA503", "pageable-copy", "A copy of pageable memory makes the host wait", "runtime", 1
        ),
        Rule(
            "OA504",
            "default-stream-barrier",
            "The legacy default stream keeps streams apart",
            "executor",
            1,
        ),
        Rule(
            "OA505",
            "allocator-sync",
            "Allocating or freeing memory holds up the host",
            "runtime",
            1,
        ),
        Rule(
            "OA506",
            "communication-host-wait",
            "The host waits for communication to end",
            "runtime",
            1,
        ),
        Rule(
            "OA507",
            "load-while-serving",
            "Loading, compiling or capturing while serving",
            "runtime",
            1,
        ),
        Rule("OA508", "launch-queue-full", "Launches wait for room in the queue", "runtime", 1),
        Rule("OA509", "polling", "The host asks again and again whether work ended", "runtime", 1),
        Rule("OA510", "blocking-copy", "A synchronous copy makes the host wait", "runtime", 1),
        Rule(
            "OA511",
            "host-hole",
            "The GPU waits for a host that does something else",
            "scheduler",
            1,
        ),
        Rule(
            "OA703",
            "peer-skew",
            "A rank enters collectives later than its peers",
            layer="scheduler",
            tuning_step=3,
            thresholds={
                "lateness_share": Threshold(
                    0.1, "how late, of the time since the ranks last met, is more than work varies"
                )
            },
        ),
    )
}


def rule(code: str) -> Rule:
    """Give the rule of a code, in whatever case it is written.

    Raises:
        UsageError: there is no such code.
    """
    found = RULES.get(code.upper())
    if found is None:
        raise UsageError(f"{code}: no such finding code; 'overlapaudit rules' lists them")
    return found


def page(code: str) -> str:
    """Give the explanation of a code as Markdown.

    Raises:
        UsageError: there is no such code.
    """
    name = f"{rule(code).code}.md"
    return (resources.files("overlapaudit.rules") / "pages" / name).read_text(encoding="utf-8")
