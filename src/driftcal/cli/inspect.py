"""driftcal inspect"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftcal.cli import options
from driftcal.cli.console import Talk


def inspect(
    path: Annotated[
        Path, typer.Argument(help="A calibrator file, a run folder, or a store of logits.", metavar="PATH")
    ],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
) -> None:
    """Say what is in a calibrator file, a run or a store.

    Everything is checked to be intact first. Nothing is written and no code from the file is run. With --dry-run only the kind of file is said.

    \b
      driftcal inspect cal.safetensors
      driftcal inspect run
      driftcal inspect run/store --json
    """
    from driftcal.cli.tables import levels_table
    from driftcal.pipeline.inspect_file import describe, lines_of

    talk = Talk(as_json, quiet)
    found = describe(path)
    if dry_run:
        talk.give({"kind": found["kind"], "path": str(path)}, f"{path}: {found['kind']}")
        return
    ladder = found.get("ladder")
    talk.give(found, *lines_of(found), *([levels_table(ladder)] if ladder else []))
