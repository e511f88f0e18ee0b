"""ONNX nodes of Platt scaling and beta calibration: a sigmoid per class against the rest."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.export_maps.export_map import BetaCurves, Sigmoids
from driftcal.calibrators.normalise import LEAST_VALUE
from driftcal.core.numerics import MASKED
from driftcal.export.onnx.maps.top_and_others import add_top_and_others
from driftcal.export.onnx.nodes import Nodes, number


def add_sigmoids(nodes: Nodes, scores: Sigmoids, z: str) -> str:
    """σ(slope·log-odds + intercept), class by class."""
    log_odds = _log_odds(nodes, z)
    return _sigmoid(nodes, nodes("Add", nodes("Mul", log_odds, scores.slopes), scores.intercepts))


def add_beta_curves(nodes: Nodes, scores: BetaCurves, z: str) -> str:
    """σ(a·log p − b·log(1 − p) + c), class by class."""
    log_odds = _log_odds(nodes, z)
    # log p = min(log-odds, 0) − small, and −log(1 − p) = max(log-odds, 0) + small
    e = nodes("Exp", nodes("Neg", nodes("Abs", log_odds)))
    small = nodes("Log", nodes("Add", e, number(1)))
    log_p = nodes("Sub", nodes("Min", log_odds, number(0)), small)
    minus_log_rest = nodes("Add", nodes("Max", log_odds, number(0)), small)
    curves = nodes("Add", nodes("Mul", log_p, scores.a), nodes("Mul", minus_log_rest, scores.b))
    return _sigmoid(nodes, nodes("Add", curves, scores.c))


def _log_odds(nodes: Nodes, z: str) -> str:
    """log p_c − log Σ_{k≠c} p_k without cancellation or underflow, between MASKED and −MASKED."""
    parts = add_top_and_others(nodes, z)
    of_top = nodes("Sub", nodes("Sub", parts.top, parts.second), nodes("Log", parts.total))
    share = nodes("Exp", nodes("Sub", parts.second, parts.top))
    # the sum of the other classes, relative to the top
    of_others = nodes("Mul", share, nodes("Sub", parts.total, parts.powers))
    rest = nodes("Add", nodes("Max", of_others, number(0)), number(1))
    log_odds = nodes("Sub", nodes("Max", nodes("Sub", z, parts.top), number(MASKED)), nodes("Log", rest))
    return nodes("ScatterElements", log_odds, parts.best, nodes("Min", of_top, number(-MASKED)), axis=1)


def _sigmoid(nodes: Nodes, m: str) -> str:
    """e^m / (1 + e^m), exact in its lower tail down to LEAST_VALUE, where the operator Sigmoid loses digits."""
    e = nodes("Exp", nodes("Clip", m, number(np.log(LEAST_VALUE)), number(-np.log(LEAST_VALUE))))
    return nodes("Div", e, nodes("Add", e, number(1)))
