"""How a run is recorded: which tables, by which version of nsys, on which clocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capture:
    """What is recorded, and how well.

    Attributes:
        schema: "2023.4" (3.7.2) or "2025.5" (3.24.0).
        api: CUDA API calls.
        gpu: kernels, copies, memsets.
        syncs: synchronisation rows.
        events: rows of event records.
        nvtx: ranges and marks.
        graph_nodes: nodes of replayed graphs one by one, else a replay as a whole.
        memory_usage: device memory given out and taken back.
        gpu_metrics_hz: samples of GPU metrics a second, None for none.
        nic_metrics: samples of the NIC.
        quantum_ns: what GPU times are multiples of.
        offset_ns: how far the GPU's clock is ahead of the host's at the start, at most.
        drift_ppm: by how much it runs fast, at most.
        epoch_ns: the calendar time at which the session starts, in ns since 1970.
        began_ns: how long before the simulation's zero the session began.
    """

    schema: str = "2023.4"
    api: bool = True
    gpu: bool = True
    syncs: bool = True
    events: bool = True
    nvtx: bool = True
    graph_nodes: bool = True
    memory_usage: bool = False
    gpu_metrics_hz: int | None = None
    nic_metrics: bool = False
    quantum_ns: int = 32
    offset_ns: int = 500
    drift_ppm: float = 0.0
    epoch_ns: int = 1_767_225_600_000_000_000
    began_ns: int = 500_000_000
