"""driftcal inspect"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftcal.cli import options
from driftcal.cli.console import Console


def inspect(
    path: Annotated[
        Path, typer.Argument(help="A calibrator file, a run folder, or a cache of logits.", metavar="PATH")
    ],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
) -> None:
    """Show what a calibrator file, a run or a cache holds.

    Everything is checked first. Nothing is written, and no code from the file is run. With --dry-run only the kind of
    file is printed.

    \b
      driftcal inspect cal.safetensors
      driftcal inspect run
      driftcal inspect run/cache --json
    """
    from driftcal.cli.tables import levels_table
    from driftcal.pipeline.describe_file import describe, lines_of

    console = Console(as_json, quiet)
    description = describe(path)
    if dry_run:
        console.output({"kind": description["kind"], "path": str(path)}, f"{path}: {description['kind']}")
        return
    perturbation = description.get("perturbation")
    levels = [levels_table(perturbation)] if perturbation else []
    console.output(description, *lines_of(description), *levels)
