"""The style of a calibrator in figures: colour and marker by method, line and fill by what it was tuned on."""

from __future__ import annotations

from typing import Any

from driftcal.calibrators import CALIBRATORS
from driftcal.paper.calibrator_names import label, split_label
from driftcal.report.plot_style import COLOURS, MARKERS, UNCALIBRATED_COLOUR

#: Labels of all methods; the first ones are the paper's, the others share their colours and have other markers.
METHODS = tuple(label(name) for name in CALIBRATORS if name != "base")
#: Suffix -> line.
_LINES = {"": (0, (4, 2)), "P": "-", "H": (0, (6, 1.5, 1, 1.5)), "C": (0, (8, 1)), "V": (0, (2, 1))}


def calibrator_style(label: str) -> dict[str, Any]:
    """matplotlib's options for a calibrator: dashed and hollow if it was tuned on clean images."""
    method, suffix = split_label(label)
    if method not in METHODS:
        return {
            "color": UNCALIBRATED_COLOUR,
            "marker": "o",
            "linestyle": (0, (1, 1.2)),
            "markerfacecolor": UNCALIBRATED_COLOUR,
        }
    number = METHODS.index(method)
    colour = COLOURS[number % len(COLOURS)]
    return {
        "color": colour,
        "marker": MARKERS[(number + 3 * (number // len(COLOURS))) % len(MARKERS)],
        "linestyle": _LINES[suffix],
        "markerfacecolor": colour if suffix else "white",
    }
