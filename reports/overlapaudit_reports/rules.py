"""What `rules` prints: the catalogue of finding codes."""

from __future__ import annotations

from collections.abc import Iterable

from overlapaudit.rules.catalogue import Rule
from overlapaudit_reports.terminal import Terminal
from overlapaudit_reports.text import wrapped


def rules_text(rules: Iterable[Rule], terminal: Terminal | None = None) -> str:
    """List the codes with their thresholds, ending in a newline."""
    shown = terminal or Terminal.of_stdout()
    lines = []
    for rule in rules:
        head = f"{shown.styled(rule.code, '1')}  {rule.slug}"
        lines += [head, *wrapped("       ", rule.title, shown)]
        for name, threshold in rule.thresholds.items():
            text = f"{name} = {threshold.default:g}  {threshold.meaning}"
            lines += wrapped("         ", text, shown)
    lines.append("")
    lines.append("'overlapaudit explain CODE' explains one; a policy file changes thresholds.")
    return "\n".join(lines) + "\n"
