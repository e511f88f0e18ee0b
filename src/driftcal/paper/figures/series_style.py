"""How calibrators look in the paper's figures: colour and marker by method, line and fill by what they were tuned on."""

from __future__ import annotations

from typing import Any

from driftcal.report.plot_style import COLOURS, MARKERS, UNCALIBRATED_COLOUR

#: Methods in the order of the paper, each with its own colour and marker everywhere.
_ORDER = ("TS", "ETS", "TS-IR", "IR", "IRM", "PS", "HB", "PBMC")
#: Those beyond it, which share the colours with other markers.
_BEYOND = (
    "PTS", "HTS", "LADDER-TS", "LADDER-EC", "LADDER-IRM", "LADDER-PTS", "ATC-EC", "DOC-EC", "SVS", "SPLINE", "VS",
    "DIRICHLET", "DAC", "BETA", "DAC-PTS", "MD-TS",
)  # fmt: skip
METHODS = (*_ORDER, *_BEYOND)


def look(label: str) -> dict[str, Any]:
    """Colour and marker by method; solid and filled when tuned on noise, dashed and hollow when on clean images."""
    method, tuning = split_label(label)
    if method not in METHODS:
        return {
            "color": UNCALIBRATED_COLOUR,
            "marker": "o",
            "linestyle": (0, (1, 1.2)),
            "markerfacecolor": UNCALIBRATED_COLOUR,
        }
    place = METHODS.index(method)
    colour = COLOURS[place % len(COLOURS)]
    style = {"": (0, (4, 2)), "P": "-", "H": (0, (6, 1.5, 1, 1.5)), "C": (0, (8, 1)), "V": (0, (2, 1))}[tuning]
    return {
        "color": colour,
        "marker": MARKERS[(place + 3 * (place // len(COLOURS))) % len(MARKERS)],
        "linestyle": style,
        "markerfacecolor": colour if tuning else "white",
    }


def split_label(label: str) -> tuple[str, str]:
    """``TS-IR-P`` as (``TS-IR``, ``P``)."""
    return (label[:-2], label[-1]) if label[-2:] in ("-P", "-H", "-C", "-V") else (label, "")
