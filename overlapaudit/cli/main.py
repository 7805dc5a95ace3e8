"""The entry point: one program, one file a command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from overlapaudit.cli import audit, doctor, explain, rules, scrub
from overlapaudit.model.errors import OverlapAuditError, UsageError
from overlapaudit.version import __version__

try:
    from typer import TyperException as _CommandLineError
except ImportError:  # typer before it carried click inside
    from click import ClickException as _CommandLineError  # type: ignore[assignment]

# What the allocator of polars is told before polars is imported: give freed memory back after a
# tenth of a second, not half of one. An audit's steps are about as long, and each would add to
# what the one before had freed.
_GIVE_BACK_SOON = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:100,muzzy_decay_ms:0"}

app = typer.Typer(
    name="overlapaudit",
    help="Prove, pair by pair, whether GPU work in an Nsight Systems trace overlapped, "
    "and whether it paid.",
    no_args_is_help=False,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("audit")(audit.command)
app.command("doctor")(doctor.command)
app.command("explain")(explain.command)
app.command("rules")(rules.command)
app.command("scrub")(scrub.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"overlapaudit {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> NoReturn:
    """Run the program and exit at once: giving back large tables piece by piece takes long."""
    for name, value in _GIVE_BACK_SOON.items():
        os.environ.setdefault(name, value)
    status = run()
    if sys.stderr is not None:
        sys.stderr.flush()
    os._exit(status)


def run() -> int:
    """Run the program: 0 ok, 1 gate failed, 2 usage, 3 input unusable."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed by whoever started the program
            # What a terminal cannot show must not end the program.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    try:
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except OverlapAuditError as error:
        _complain(str(error))
        return error.exit_code
    except _CommandLineError as error:
        _complain(f"{error.format_message()} ('overlapaudit --help' shows how)")
        return error.exit_code if error.exit_code in (2, 3) else 2
    except BrokenPipeError:
        # The reader of our output has left. Python would complain once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        _complain(f"cannot write the output ({error.strerror})")
        return UsageError.exit_code
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted")
        return 130
    return status if isinstance(status, int) else 0


def _complain(message: str) -> None:
    from overlapaudit_reports.escape import printable

    if sys.stderr is not None:
        typer.echo(f"overlapaudit: {printable(' '.join(message.split()))}", err=True)
