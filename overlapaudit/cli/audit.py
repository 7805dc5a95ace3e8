"""`overlapaudit audit`: what the GPUs did, what overlapped, and what cannot be said."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from overlapaudit.cli.arguments import Force, Rules, Traces
from overlapaudit.cli.inputs import input_files, opened
from overlapaudit.cli.output import STDOUT, check_target, write


class Format(str, Enum):
    """What is printed."""

    TEXT = "text"
    JSON = "json"


def command(
    traces: Traces,
    window: Annotated[
        str,
        typer.Option(
            metavar="trace|A..B",
            help="What to look at: the whole trace, or a span of it with units, counted from the "
            "session start (12ms..24ms). What crosses its edges is clipped.",
        ),
    ] = "trace",
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE|-", help="Write the audit as JSON.", show_default=False),
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="What is printed.")] = Format.TEXT,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML: select, ignore and thresholds of findings.",
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
    """Audit a trace: lanes, overlap, idle time, coverage and findings of every GPU."""
    from overlapaudit.audit import audit
    from overlapaudit.model.window import parse_window
    from overlapaudit.rules.policy import DEFAULT_POLICY, load_policy
    from overlapaudit_reports.text import audit_text

    chosen = parse_window(window)
    judged_by = DEFAULT_POLICY if policy is None else load_policy(policy)
    judged_by = judged_by.narrowed(select or (), ignore or ())
    if json is not None:
        check_target(json, input_files(traces), force=force)
    with opened(traces, rules) as several:
        result = audit(several, window=chosen, policy=judged_by)
    if json is not None:
        write(json, result.to_json())
    if json == STDOUT:
        return
    if output is Format.JSON:
        write(STDOUT, result.to_json())
    else:
        write(STDOUT, audit_text(result.document))
