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
    """Write a report as one HTML file that works offline; return its path. The same results give the same bytes.

    Parameters
    ----------
    results
        What :func:`driftcal.evaluate` returned, or the folder that it was saved in.
    path
        The file to write; its folders are made.
    title
        The title of the page. None: that of the results, or the name of the suite.

    >>> import driftcal
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(1500, n_informative=4, n_redundant=10, n_classes=3, random_state=0)
    >>> model = GaussianNB().fit(X[:500], y[:500])
    >>> calibrated = driftcal.tune(model, X[500:1000], y[500:1000], method="ts", shift=None)
    >>> results = driftcal.evaluate(calibrated, X[1000:], y[1000:], n_resamples=0)
    >>> driftcal.write_report(results, "report.html", title="Naive Bayes under shift").name
    'report.html'
    """
    if not isinstance(results, Results | str | os.PathLike):
        raise InputError(
            f"results must be Results or the folder they were saved in; it is a {type(results).__name__}. "
            "driftcal.evaluate(calibrated, X, y) gives them."
        )
    loaded = results if isinstance(results, Results) else Results.load(results)
    return write_html(loaded, path, title=title)


__all__ = ["FORMATS", "result_table", "write_figures", "write_html", "write_report"]
