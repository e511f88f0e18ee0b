"""The command line: parse, one library call, print. Data goes to stdout, talk to stderr."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from driftcal import __version__
from driftcal.errors import DriftcalError

app = typer.Typer(
    help="Honest classifier confidence, in domain and while the data drifts.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def shifts(
    contact_sheet: Annotated[
        Path | None,
        typer.Option(help="Draw all shifts × levels for this image instead of listing them.", metavar="IMAGE"),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the contact sheet goes.")] = Path("shifts.png"),
    suite: Annotated[
        str | None, typer.Option(help="Only this suite: affine, imagenet-c, cifar10-c, h-tuning or all.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random shifts.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written, write nothing.")] = False,
) -> None:
    """List the shifts and suites, or draw them all for one image."""
    from driftcal import perturb
    from driftcal.perturb import catalogue
    from driftcal.perturb.contact_sheet import save_contact_sheet

    chosen = list(perturb.get_suite(suite).shifts) if suite else perturb.drawable()
    if contact_sheet is None:
        listed = {shift.name: shift for shift in chosen} if suite else perturb.SHIFTS
        data = catalogue.catalogue(listed)
        print(json.dumps(data, ensure_ascii=False) if as_json else catalogue.catalogue_text(listed))
    else:
        path = output if dry_run else save_contact_sheet(contact_sheet, output, chosen, seed=seed)
        cells = sum(10 if shift.levels is None else len(shift.levels) for shift in chosen)
        verb = "would draw" if dry_run else "drew"
        print(f"{verb} {len(chosen)} shifts, {cells} images", file=sys.stderr)
        print(json.dumps({"contact_sheet": str(path)}) if as_json else path)


def main() -> None:
    """The console entry point: a driftcal error is one line and exit 1, misuse exits 2."""
    try:
        app()
    except DriftcalError as error:
        print(f"driftcal: {error}", file=sys.stderr)
        sys.exit(1)
