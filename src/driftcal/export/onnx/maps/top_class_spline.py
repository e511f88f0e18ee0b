"""ONNX nodes of the spline of the top class."""

from __future__ import annotations

from driftcal.calibrators.export_maps.export_map import TopCurve
from driftcal.calibrators.nonparametric.spline import MIN_LEAD
from driftcal.core.numerics import MASKED
from driftcal.export.onnx.maps.isotonic_and_bins import add_look_up
from driftcal.export.onnx.maps.top_and_others import add_top_and_others
from driftcal.export.onnx.nodes import Nodes, number


def add_top_curve(nodes: Nodes, scores: TopCurve, z: str, name: str | None) -> str:
    """The value of the curve for the top class; the other classes share the rest in proportion to their softmax.

    `z` and the result are (n, C); tensors of one number per sample are (n, 1).
    """
    parts = add_top_and_others(nodes, z)
    # the exponential of the second class is 1, so the sum is below 1 only if all other classes are masked
    total = nodes("Max", parts.total, number(1))
    log_odds = nodes("Min", nodes("Sub", nodes("Sub", parts.top, parts.second), nodes("Log", total)), number(-MASKED))
    # false for a sample of −inf only: its log-odds are −inf, and the curve gives NaN
    only_class = nodes("Greater", log_odds, number(-MASKED / 10))
    # the smallest confidence with which the top class stays ahead of the second
    least = nodes("Div", number(1 + MIN_LEAD), nodes("Add", total, number(1 + MIN_LEAD)))
    confidence = nodes("Max", add_look_up(nodes, scores.curve, log_odds), least)
    confidence = nodes("Where", only_class, number(1), confidence)
    per_power = nodes("Div", nodes("Sub", number(1), confidence), total)
    of_others = nodes("Min", nodes("Mul", parts.powers, per_power), confidence)
    return nodes("ScatterElements", of_others, parts.best, confidence, axis=1, name=name)
