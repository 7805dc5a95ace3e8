"""Where the host waited for the GPU without need, dearest first."""

from __future__ import annotations

from overlapaudit.model.document import HiddenSync
from overlapaudit_reports.figures import count, duration
from overlapaudit_reports.html.markup import Section, note, table, tag
from overlapaudit_reports.html.report import Report
from overlapaudit_reports.wording import process_id

_MOST = 200
_HEAD = (
    "code", "call", "span", "pid", "thread", "calls", "host waited", "GPU idle after", "saving",
)  # fmt: skip


def section(report: Report) -> Section | None:
    """List the call sites by the idle time that follows from them; unknown cost last."""
    waits = report.document.hidden_syncs
    if waits is None:
        reason = report.why_absent("hidden_syncs")
        return Section("hidden-waits", "Hidden waits", note(f"Unknown: {reason}."))
    if not waits:
        return Section("hidden-waits", "Hidden waits", tag("p", "None found."))
    rows = [
        (
            wait.code,
            wait.api,
            wait.span or "outside ranges",
            str(process_id(wait.process)),
            str(wait.thread & 0xFFFFFF),
            count(wait.count),
            duration(wait.host_wait_ns),
            duration(wait.gpu_idle_ns),
            duration(wait.saving_ns),
        )
        for wait in sorted(waits, key=_dearest_first)
    ]
    return Section("hidden-waits", "Hidden waits", table(_HEAD, rows, texts=3, most=_MOST))


def _dearest_first(wait: HiddenSync) -> tuple[bool, int, int, str, str]:
    cost = wait.gpu_idle_ns
    return (cost is None, -(cost or 0), -wait.host_wait_ns, wait.code, wait.api)
