"""`overlapaudit doctor`: what was recorded, what cannot be judged, how to capture it."""

from __future__ import annotations

from overlapaudit.cli.arguments import Rules, Traces
from overlapaudit.cli.inputs import opened
from overlapaudit.cli.output import STDOUT, write


def command(traces: Traces, rules: Rules = None) -> None:
    """Say what a trace holds, what it cannot answer, and how to record what is missing."""
    from overlapaudit.audit import audit, recordings
    from overlapaudit_reports.doctor import doctor_text

    with opened(traces, rules) as several:
        document = audit(several).document
        recorded = recordings(several)
    write(STDOUT, doctor_text(document, recorded))
