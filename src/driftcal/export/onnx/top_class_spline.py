"""ONNX nodes of the spline of the top class."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.export_maps.export_map import TopCurve
from driftcal.calibrators.nonparametric.spline import MIN_LEAD
from driftcal.core.numerics import MASKED
from driftcal.export.onnx.isotonic_and_bins import add_look_up
from driftcal.export.onnx.nodes import Nodes, number, row_sum


def add_top_curve(nodes: Nodes, scores: TopCurve, z: str, name: str | None) -> str:
    """The curve's value for the top class, and for the others their shares of the rest."""
    best = nodes("ArgMax", z, axis=1, keepdims=1)
    top = nodes("GatherElements", z, best, axis=1)
    others = nodes("ScatterElements", z, best, nodes("Add", top, number(-np.inf)), axis=1)
    runner_up = nodes("GatherElements", others, nodes("ArgMax", others, axis=1, keepdims=1), axis=1)
    second = nodes("Max", runner_up, number(MASKED))
    powers = nodes("Exp", nodes("Sub", others, second))
    total = nodes("Max", row_sum(nodes, powers), number(1))  # the second counts 1, if there is one
    odds = nodes("Min", nodes("Sub", nodes("Sub", top, second), nodes("Log", total)), number(-MASKED))
    # a row of −inf alone is not: its odds are −inf too, for which the curve has NaN
    alone = nodes("Greater", odds, number(-MASKED / 10))
    ahead = nodes("Div", number(1 + MIN_LEAD), nodes("Add", total, number(1 + MIN_LEAD)))
    confidence = nodes("Max", add_look_up(nodes, scores.curve, odds), ahead)
    confidence = nodes("Where", alone, number(1), confidence)
    share = nodes("Div", nodes("Sub", number(1), confidence), total)
    shared = nodes("Min", nodes("Mul", powers, share), confidence)
    return nodes("ScatterElements", shared, best, confidence, axis=1, name=name)
