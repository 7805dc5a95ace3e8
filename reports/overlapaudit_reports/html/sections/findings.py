"""What is worth knowing: evidence, next step, and the page that explains each code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from overlapaudit.model.findings import EvidenceValue, Finding, Where
from overlapaudit.rules.catalogue import RULES, page
from overlapaudit_reports.escape import shortened
from overlapaudit_reports.figures import duration
from overlapaudit_reports.html.markup import Child, Html, Section, joined, lines, note, tag
from overlapaudit_reports.html.report import Report
from overlapaudit_reports.wording import evidence_name, evidence_value, process_id, windows

_MOST = 200
_MOST_ITEMS = 20
_WIDTH = 160


def section(report: Report) -> Section | None:
    """Give each finding a block, heaviest first as in the audit, and each code its page once."""
    findings = report.document.findings
    if not findings:
        return Section("findings", "Findings", tag("p", "None."))
    shown = findings[:_MOST]
    parts: list[Html] = []
    explained: set[str] = set()
    for finding in shown:
        parts.append(_finding(finding, explain=finding.code not in explained))
        explained.add(finding.code)
    if len(findings) > len(shown):
        left = len(findings) - len(shown)
        parts.append(note(f"{left:,} more findings are in the JSON of the audit."))
    return Section("findings", "Findings", joined(parts))


def _finding(finding: Finding, *, explain: bool) -> Html:
    severity = finding.severity.value
    parts = [
        tag(
            "h3",
            tag("span", severity, class_=f"severity {severity}"),
            f" {finding.code} {finding.slug}",
            tag("small", f" {_title(finding.code)}"),
        ),
        tag("dl", _facts(finding)),
        tag("p", tag("b", "Next: "), finding.next_step) if finding.next_step else Html(""),
    ]
    if explain and finding.code in RULES:
        summary = tag("summary", f"What {finding.code} means")
        parts.append(tag("details", summary, tag("pre", lines(page(finding.code).splitlines()))))
    return tag("article", parts)


def _title(code: str) -> str:
    return RULES[code].title if code in RULES else ""


def _facts(finding: Finding) -> Iterator[Html]:
    where = _where(finding.where)
    facts: dict[str, Child] = {"where": where} if where else {}
    facts |= {evidence_name(key): _value(key, value) for key, value in finding.evidence.items()}
    if finding.cost_ns is not None:
        facts["cost"] = duration(finding.cost_ns)
    if finding.saving_ns is not None:
        facts["saving"] = duration(finding.saving_ns)
    facts["confidence"] = finding.confidence.value
    for name, value in facts.items():
        yield tag("div", tag("dt", name), tag("dd", value))


def _where(where: Where) -> str:
    named = {
        "rank": where.rank,
        "device": where.device,
        "pid": None if where.process is None else process_id(where.process),
        "thread": None if where.thread is None else where.thread & 0xFFFFFF,
        "stream": where.stream,
        "range": None if where.range is None else shortened(where.range, _WIDTH),
    }
    parts = [f"{name} {value}" for name, value in named.items() if value is not None]
    parts += [windows(where.windows)] if where.windows else []
    if where.start_ns is not None and where.end_ns is not None:
        parts.append(f"{duration(where.start_ns)} to {duration(where.end_ns)}")
    return ", ".join(parts)


def _value(key: str, value: EvidenceValue) -> Child:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _listed(value)
    return shortened(evidence_value(key, value), _WIDTH)


def _listed(values: Sequence[int] | Sequence[str]) -> Html:
    shown = [shortened(str(value), _WIDTH) for value in values[:_MOST_ITEMS]]
    if len(values) > len(shown):
        shown.append(f"and {len(values) - len(shown):,} more")
    return lines(shown or ["none"])
