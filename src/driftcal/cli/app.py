"""All commands in pipeline order, and the exit codes: 0 done, 1 failed, 2 misused, 130 interrupted."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from driftcal import __version__
from driftcal.cli.commands.demo import demo
from driftcal.cli.commands.evaluate import evaluate
from driftcal.cli.commands.export import export
from driftcal.cli.commands.fit import fit
from driftcal.cli.commands.inspect import inspect
from driftcal.cli.commands.monitor import monitor
from driftcal.cli.commands.paper import paper
from driftcal.cli.commands.plan import plan
from driftcal.cli.commands.recalibrate import recalibrate
from driftcal.cli.commands.report import report
from driftcal.cli.commands.shifts import shifts
from driftcal.cli.commands.threshold import threshold
from driftcal.cli.commands.tune import tune
from driftcal.cli.plugins import register_plugins
from driftcal.cli.registry_help import RegistryHelpCommand
from driftcal.core.messages import printable
from driftcal.errors import DriftcalError, UnknownName

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)


def _print_version(requested: bool) -> None:
    if requested:
        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Calibrate a classifier in domain and under data shift.

    \b
    Try it on bundled data, in about a minute:
      driftcal demo
    \b
    Your own model, from validation data to a report:
      driftcal tune model.onnx val.npz -o cal.safetensors
      driftcal evaluate model.onnx cal.safetensors test.npz -o run
      driftcal report run -o report.html

    Every command has --json (data on stdout), --quiet (only errors on stderr) and --dry-run (print what would be done).
    Exit code: 0 done, 1 failed, 2 misused, 130 interrupted.
    """


for _command in (demo, tune, fit, threshold, evaluate, report, export, monitor, recalibrate, plan, shifts, inspect):
    app.command(cls=RegistryHelpCommand)(_command)
app.add_typer(paper, name="paper")


#: The exit code of typer after Ctrl-C.
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """The console entry point: a driftcal error is one line on stderr."""
    register_plugins()
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot show must not stop the run
            stream.reconfigure(errors="backslashreplace")
    try:
        app(command_line, prog_name="driftcal", obj=shlex.join(["driftcal", *command_line]))
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print(
                "driftcal: interrupted. Cached logits are kept: the same command continues from them.",
                file=sys.stderr,
            )
        raise
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        with contextlib.suppress(OSError):
            sys.stdout.close()
        sys.exit(1)
    except (DriftcalError, OSError) as error:
        print(f"driftcal: {printable(str(error))}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UnknownName) else 1)
