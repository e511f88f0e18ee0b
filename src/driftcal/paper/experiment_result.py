"""An experiment's outcome on disk: tables as CSV, LaTeX and Markdown, and the figures."""

from __future__ import annotations

import json
from pathlib import Path

from driftcal.io.atomic import write_atomic
from driftcal.paper.outcome import Outcome
from driftcal.paper.output.figures import figure_bytes
from driftcal.report.table import to_csv, to_latex, to_markdown

#: What figures are written as: pixels for web pages, lines for papers.
FIGURE_FORMATS = ("png", "pdf")


def write_outcome(outcome: Outcome, folder: Path, *, formats: tuple[str, ...] = FIGURE_FORMATS) -> list[Path]:
    """Write ``NAME.csv`` and ``NAME.tex`` of each table, every figure, and ``EXPERIMENT.md`` that shows them all."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for table in outcome.tables:
        written.append(write_atomic(folder / f"{table.name}.csv", to_csv(table).encode()))
        written.append(write_atomic(folder / f"{table.name}.tex", to_latex(table).encode()))
    for figure in outcome.figures:
        files = zip(formats, figure_bytes(figure, formats), strict=True)
        written += [write_atomic(folder / f"{figure.name}.{ending}", data) for ending, data in files]
    written.append(write_atomic(folder / f"{outcome.experiment}.md", _page(outcome).encode()))
    about = json.dumps(dict(outcome.about), indent=1, sort_keys=True, default=str) + "\n"
    written.append(write_atomic(folder / f"{outcome.experiment}.json", about.encode()))
    return written


def _page(outcome: Outcome) -> str:
    """The tables, then the figures with their captions."""
    parts = [f"# {outcome.title}\n"]
    for table in outcome.tables:
        parts.append(f"## {table.title}\n\n{to_markdown(table)}")
    parts += [f"{note}\n" for note in outcome.notes]
    for figure in outcome.figures:
        parts.append(f"![{figure.title}]({figure.name}.png)\n\n{figure.caption}\n")
    return "\n".join(parts)


__all__ = ["FIGURE_FORMATS", "figure_bytes", "write_outcome"]
