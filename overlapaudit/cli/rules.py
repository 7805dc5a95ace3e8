"""`overlapaudit rules`: the catalogue of finding codes."""

from __future__ import annotations

from overlapaudit.cli.output import STDOUT, write


def command() -> None:
    """List the finding codes with their thresholds."""
    from overlapaudit.rules.catalogue import RULES
    from overlapaudit_reports.rules import rules_text

    write(STDOUT, rules_text(RULES.values()))
