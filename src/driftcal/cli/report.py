"""driftcal report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftcal.cli import options
from driftcal.cli.console import Talk


def report(
    run: Annotated[Path, typer.Argument(help="The folder that evaluate or demo wrote.", metavar="RUN")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where it goes.", show_default="report.html; tables go to stdout"),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="html, or a table as csv, json, latex or markdown.")] = "html",
    table: Annotated[
        str, typer.Option(help="Tables: summary, a line per calibrator, or rows, one per calibrator, shift and level.")
    ] = "summary",
    figures: Annotated[
        Path | None, typer.Option(help="Also draw every figure as PDF, SVG and PNG into this folder.", metavar="DIR")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the HTML report.")] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
) -> None:
    """Turn results into a report to show, tables or figures.

    The HTML report is one file that needs no network. Nothing is computed anew: the same results give the same report.

    \b
      driftcal report run -o report.html
    \b
    A table for a paper, and the figures to go with it:
      driftcal report run --format latex -o table.tex --figures figures/
    \b
    Every number with its interval, for pandas or a spreadsheet:
      driftcal report run --format csv --table rows > rows.csv
    """
    from driftcal.io.atomic import write_atomic
    from driftcal.pipeline.results import Results
    from driftcal.report import FORMATS, result_table, write_report
    from driftcal.report.figures import write_figures

    talk = Talk(as_json, quiet)
    if form != "html" and form not in FORMATS:
        raise typer.BadParameter(f"must be html, {', '.join(FORMATS)}; it is {form!r}.", param_hint="--format")
    results = Results.load(run)
    target = Path("report.html") if output is None and form == "html" else output
    if dry_run:
        places = [str(place) for place in (target, figures) if place is not None]
        talk.give({"would_write": places}, *(f"would write {place}" for place in places))
        return
    drawn = write_figures(results, figures) if figures is not None else []
    for path in drawn:
        talk.say(path)
    if target is None:
        print(FORMATS["json" if as_json else form](result_table(results, table)), end="")
        return
    if form == "html":
        written = write_report(results, target, title=title)
    else:
        written = write_atomic(target, FORMATS[form](result_table(results, table)).encode())
    talk.give({"report": str(written), "figures": [str(path) for path in drawn]}, str(written))
