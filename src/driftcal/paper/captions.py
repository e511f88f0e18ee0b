"""Sentences for captions, so that a figure can be understood without the page around it."""

from __future__ import annotations

from collections.abc import Iterable

from driftcal.paper.calibrator_names import label

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
#: Metric -> its meaning.
METRIC_CAPTIONS = {
    "ece": "ECE, the expected calibration error, is the mean absolute difference between confidence and accuracy over bins of confidence.",
    "debiased_ece": "The debiased ECE subtracts what chance adds to squared errors of 15 bins with equally many samples.",
    "nll": "NLL is the negative log-likelihood: small probabilities of the true class cost most.",
    "brier": "The Brier score is the squared distance between the probabilities and the true class, summed over the classes.",
}
ECE_CAPTION = METRIC_CAPTIONS["ece"]
#: The meaning of hatches, lines and markers.
BARS_CAPTION = "Hatched: tuned on clean images; filled: tuned on noise (-P)"
LINES_CAPTION = "Dashed and hollow: tuned on clean images; solid and filled: tuned on noise (-P)."
INTERVALS_CAPTION = "thin lines: 95 % intervals over images"
_AFFINE = "rot: rotation, shift: translation, zoom: enlargement; x is the vertical direction, y the horizontal one."


def method_legend(names: Iterable[str]) -> str:
    """The meaning of the abbreviations of these calibrators, each method once.

    >>> print(method_legend(["base", "ts", "ir", "ts-p", "ir-p"]))
    Base: uncalibrated; TS: temperature scaling; IR: isotonic regression per class.
    """
    methods = dict.fromkeys(name if name in _METHODS else name[:-2] for name in names)
    return "; ".join(f"{label(method)}: {_METHODS[method]}" for method in methods) + "."


def shift_legend(suite: str) -> str:
    """The meaning of the names of a suite's shifts, after a space; "" if the names are clear."""
    return f" {_AFFINE}" if suite == "affine" else ""
