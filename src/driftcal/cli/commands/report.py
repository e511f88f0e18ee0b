"""driftcal report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftcal.cli import options
from driftcal.cli.console import Console


def report(
    run: Annotated[Path, typer.Argument(help="The folder that evaluate or demo wrote.", metavar="RUN")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write.",
            show_default="report.html; tables go to stdout",
            callback=options.output_file,
        ),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="html, or a table: {formats}.")] = "html",
    table: Annotated[
        str,
        typer.Option(
            help="Content of a table: summary (a row per calibrator), rows (per calibrator, shift and level) or decisions."
        ),
    ] = "summary",
    figures: Annotated[
        Path | None,
        typer.Option(
            help="Also write all figures as PDF, SVG and PNG to this folder.",
            metavar="DIR",
            callback=options.output_folder,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the HTML report.")] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
) -> None:
    """Turn results into an HTML report, tables or figures.

    The HTML report is one file that needs no network. The same results always give the same report.

    \b
      driftcal report run -o report.html
    \b
    A table and figures for a paper:
      driftcal report run --format latex -o table.tex --figures figures/
    \b
    All numbers with their intervals, for pandas or a spreadsheet:
      driftcal report run --format csv --table rows > rows.csv
    """
    from driftcal.io.atomic import write_atomic
    from driftcal.pipeline.evaluating.results import Results
    from driftcal.report import FORMATS, result_table, write_figures, write_report

    console = Console(as_json, quiet)
    if form != "html" and form not in FORMATS:
        raise typer.BadParameter(f"must be html, {', '.join(FORMATS)}; it is {form!r}.", param_hint="--format")
    results = Results.load(run)
    target = Path("report.html") if output is None and form == "html" else output
    if dry_run:
        outputs = [str(path) for path in (target, figures) if path is not None]
        console.output({"would_write": outputs}, *(f"would write {path}" for path in outputs))
        return
    figure_paths = write_figures(results, figures) if figures is not None else []
    for path in figure_paths:
        console.message(path)
    if target is None:
        print(FORMATS["json" if as_json else form](result_table(results, table)), end="")
        return
    if form == "html":
        written = write_report(results, target, title=title)
    else:
        written = write_atomic(target, FORMATS[form](result_table(results, table)).encode(errors="backslashreplace"))
    console.output({"report": str(written), "figures": [str(path) for path in figure_paths]}, str(written))
