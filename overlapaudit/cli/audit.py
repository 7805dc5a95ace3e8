"""`overlapaudit audit`: what the GPUs did, what overlapped, and what cannot be said."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from overlapaudit.cli.arguments import Force, Rules, Traces
from overlapaudit.cli.inputs import input_files, opened
from overlapaudit.cli.output import STDOUT, check_target, write
from overlapaudit.model.errors import UsageError


class Format(str, Enum):
    """What is printed."""

    TEXT = "text"
    JSON = "json"


def command(
    traces: Traces,
    window: Annotated[
        str,
        typer.Option(
            metavar="trace|iteration|A..B",
            help="What to look at: the whole trace; its marked steps, by which findings are then "
            "judged; or a span of it with units, counted from the session start (12ms..24ms). "
            "What crosses its edges is clipped.",
        ),
    ] = "trace",
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE|-", help="Write the audit as JSON.", show_default=False),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a report for a browser: one file, needs no network.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="What is printed.")] = Format.TEXT,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML: select, ignore and thresholds of findings, and the ranges in which waits "
            "are meant (allow_waits).",
            show_default=False,
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODES", help="Report only these findings (OA005, OA0).", show_default=False
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="CODES", help="Do not report these findings.", show_default=False),
    ] = None,
    rules: Rules = None,
    force: Force = False,
) -> None:
    """Audit a trace: lanes, overlap and idle time of every GPU, ranges, waits, ranks, findings."""
    from overlapaudit.audit import audit
    from overlapaudit.model.window import parse_window
    from overlapaudit.rules.policy import DEFAULT_POLICY, load_policy
    from overlapaudit_reports.text import audit_text

    chosen = parse_window(window)
    judged_by = DEFAULT_POLICY if policy is None else load_policy(policy)
    judged_by = judged_by.narrowed(select or (), ignore or ())
    _check_targets(json, html, traces, force=force)
    page = None
    with opened(traces, rules) as several:
        result = audit(several, window=chosen, policy=judged_by)
        if html is not None:
            # Here, because it loads plotly.
            from overlapaudit_reports.html.page import html_text

            page = html_text(result, several)
    if json is not None:
        write(json, result.to_json())
    if html is not None and page is not None:
        write(html, page)
    if json == STDOUT:
        return
    if output is Format.JSON:
        write(STDOUT, result.to_json())
    else:
        write(STDOUT, audit_text(result.document))


def _check_targets(
    json: Path | None, html: Path | None, traces: list[Path], *, force: bool
) -> None:
    targets = [target for target in (json, html) if target is not None]
    if html == STDOUT:
        raise UsageError("--html -: a report for a browser needs a file")
    if json not in (None, STDOUT) and html is not None and json.resolve() == html.resolve():
        raise UsageError(f"--json and --html: both name {html}; name two files")
    inputs = input_files(traces) if targets else []
    for target in targets:
        check_target(target, inputs, force=force)
