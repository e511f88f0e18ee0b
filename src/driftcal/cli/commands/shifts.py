"""driftcal shifts"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftcal.cli import options
from driftcal.cli.console import Console
from driftcal.core.messages import counted


def shifts(
    contact_sheet: Annotated[
        Path | None,
        typer.Option(help="Draw all shifts × levels for this image instead of listing them.", metavar="IMAGE"),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file of the contact sheet.")] = Path("shifts.png"),
    suite: Annotated[str | None, typer.Option(help="Only this suite: {suites}.")] = None,
    random_state: options.RandomState = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
) -> None:
    """List the shifts and suites, or draw them all for one image.

    \b
      driftcal shifts
      driftcal shifts --suite affine --json
    \b
    What would they do to this photograph?
      driftcal shifts --contact-sheet photo.png -o shifts.png
    """
    from driftcal import shifts
    from driftcal.report.contact_sheet import VARIANCES, save_contact_sheet
    from driftcal.shifts import catalogue

    console = Console(as_json, quiet)
    drawn = list(shifts.get_suite(suite).shifts) if suite else shifts.image_shifts()
    if contact_sheet is None:
        listed = {shift.name: shift for shift in drawn} if suite else shifts.SHIFTS
        console.output(catalogue.catalogue(listed), *catalogue.catalogue_text(listed).splitlines())
    else:
        options.output_file(output)
        path = output if dry_run else save_contact_sheet(contact_sheet, output, drawn, seed=random_state)
        n_images = sum(len(VARIANCES if shift.levels is None else shift.levels) for shift in drawn)
        verb = "would draw" if dry_run else "drew"
        console.message(f"{verb} {counted(len(drawn), 'shift')}, {counted(n_images, 'image')}")
        console.output({"contact_sheet": str(path)}, str(path))
