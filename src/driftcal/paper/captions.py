"""Words for captions: a figure must be understood where nothing else stands beside it."""

from __future__ import annotations

from collections.abc import Iterable

from driftcal.paper.experiments.experiment import label

#: What the letters stand for.
_METHODS = {
    "base": "uncalibrated",
    "ts": "temperature scaling",
    "ets": "ensemble temperature scaling",
    "ts-ir": "temperature scaling, then isotonic regression per class",
    "ir": "isotonic regression per class",
    "irm": "isotonic regression, one curve for all classes",
    "ps": "Platt scaling per class",
    "hb": "histogram binning per class",
    "pbmc": "Platt scaling, then binning, per class",
}
ECE = "ECE, the expected calibration error, is how far stated confidence misses the share of right answers on average."
AFFINE = "rot: rotation, shift: translation, zoom: enlargement; x is the vertical direction, y the horizontal one."


def who_is_who(names: Iterable[str]) -> str:
    """The methods behind calibrators' names, each once.

    >>> print(who_is_who(["base", "ts", "ir", "ts-p", "ir-p"]))
    Base: uncalibrated; TS: temperature scaling; IR: isotonic regression per class.
    """
    methods = dict.fromkeys(name if name in _METHODS else name[:-2] for name in names)
    return "; ".join(f"{label(method)}: {_METHODS[method]}" for method in methods) + "."


def about_shifts(suite: str) -> str:
    """What the names of a suite's shifts mean, with a space before it, where they do not say it themselves."""
    return f" {AFFINE}" if suite == "affine" else ""
