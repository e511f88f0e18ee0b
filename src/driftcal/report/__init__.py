"""Results as one HTML file, as tables and as figures. Everything is drawn from recorded results."""

from __future__ import annotations

import os
from pathlib import Path

from driftcal.errors import InputError
from driftcal.pipeline.evaluating.results import Results
from driftcal.report.html import write_html
from driftcal.report.result_figures import write_figures
from driftcal.report.result_tables import result_table
from driftcal.report.table import FORMATS


def write_report(
    results: Results | str | os.PathLike[str], path: str | os.PathLike[str], *, title: str | None = None
) -> Path:
    """Write a report as one HTML file; return its path. `results` may be the folder of saved results."""
    if not isinstance(results, Results | str | os.PathLike):
        raise InputError(
            f"results must be Results or the folder they were saved in; it is a {type(results).__name__}. "
            "driftcal.evaluate(calibrated, X, y) gives them."
        )
    loaded = results if isinstance(results, Results) else Results.load(results)
    return write_html(loaded, path, title=title)


__all__ = ["FORMATS", "result_table", "write_figures", "write_html", "write_report"]
