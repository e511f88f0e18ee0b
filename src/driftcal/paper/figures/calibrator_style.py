"""The style of a calibrator in figures: colour and marker by method, line and fill by its suffix."""

from __future__ import annotations

from typing import Any

from driftcal.calibrators import CALIBRATORS
from driftcal.paper.calibrator_names import label, split_label
from driftcal.report.plot_style import DASHED, method_style

#: Labels of all methods, the paper's first.
METHODS = tuple(label(name) for name in CALIBRATORS if name != "base")
#: Suffix -> line style of matplotlib.
_LINES: dict[str, Any] = {"": DASHED, "P": "-", "H": (0, (6, 1.5, 1, 1.5)), "C": (0, (8, 1)), "V": (0, (2, 1))}


def calibrator_style(label: str) -> dict[str, Any]:
    """matplotlib's options for a calibrator: dashed and hollow if it was tuned on clean images."""
    method, suffix = split_label(label)
    number = METHODS.index(method) if method in METHODS else None
    return method_style(number, _LINES[suffix], filled=bool(suffix))
