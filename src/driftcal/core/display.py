"""Notebook displays and figures of objects in lower folders. `report/` is the only place that draws, and lies above them.

So it is imported by name when a notebook asks: the one import that goes upwards.
"""

from __future__ import annotations

import importlib
from typing import Any

_NOTEBOOK, _PLOTS = "driftcal.report.notebook", "driftcal.report.plots"


class Displayed:
    """An object that notebooks show as a table, perhaps with a small figure."""

    def _repr_html_(self) -> str:
        html: str = importlib.import_module(_NOTEBOOK).html_of(self)
        return html


def plot(function: str, value: Any, **options: Any) -> Any:
    """The axes of a figure that `function` of ``report/plots.py`` draws."""
    return getattr(importlib.import_module(_PLOTS), function)(value, **options)
