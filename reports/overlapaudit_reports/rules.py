"""What `rules` prints: the catalogue of finding codes."""

from __future__ import annotations

from collections.abc import Iterable

from overlapaudit.rules.catalogue import Rule
from overlapaudit_reports.terminal import Terminal


def rules_text(rules: Iterable[Rule], terminal: Terminal | None = None) -> str:
    """List the codes with their thresholds, ending in a newline."""
    shown = terminal or Terminal.of_stdout()
    lines = []
    for rule in rules:
        lines.append(f"{shown.styled(rule.code, '1')}  {rule.slug:<26}{rule.title}")
        lines += [
            f"         {name} = {threshold.default:g}  {threshold.meaning}"
            for name, threshold in rule.thresholds.items()
        ]
    lines.append("")
    lines.append("'overlapaudit explain CODE' explains one; a policy file changes thresholds.")
    return "\n".join(lines) + "\n"
