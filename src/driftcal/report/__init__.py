"""Results to ink: one self-contained page, tables, figures. Draws what was recorded and measures nothing."""

from __future__ import annotations

import os
from pathlib import Path

from driftcal.pipeline.results import Results
from driftcal.report.figures import write_figures
from driftcal.report.html import write_html
from driftcal.report.result_tables import result_table
from driftcal.report.table import FORMATS


def write_report(
    results: Results | str | os.PathLike[str], path: str | os.PathLike[str], *, title: str | None = None
) -> Path:
    """Write a report of `results`, or of the run folder they were saved in, as one HTML file; returns its path."""
    found = results if isinstance(results, Results) else Results.load(results)
    return write_html(found, path, title=title)


__all__ = ["FORMATS", "result_table", "write_figures", "write_html", "write_report"]
