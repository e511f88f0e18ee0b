"""ONNX nodes of Platt scaling and beta calibration: a sigmoid per class against the rest."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.export_maps.export_map import BetaCurves, Sigmoids
from driftcal.calibrators.normalise import LEAST_VALUE
from driftcal.core.numerics import MASKED
from driftcal.export.onnx.nodes import Nodes, number


def add_sigmoids(nodes: Nodes, scores: Sigmoids, z: str) -> str:
    """σ(slope·log-odds + intercept), class by class."""
    log_p, log_rest = _log_probabilities(nodes, z)
    log_odds = nodes("Sub", log_p, log_rest)
    return _sigmoid(nodes, nodes("Add", nodes("Mul", log_odds, scores.slopes), scores.intercepts))


def add_beta_curves(nodes: Nodes, scores: BetaCurves, z: str) -> str:
    """σ(a·log p − b·log(1 − p) + c), class by class."""
    log_p, log_rest = _log_probabilities(nodes, z)
    curves = nodes("Sub", nodes("Mul", log_p, scores.a), nodes("Mul", log_rest, scores.b))
    return _sigmoid(nodes, nodes("Add", curves, scores.c))


def _log_probabilities(nodes: Nodes, z: str) -> tuple[str, str]:
    """log p_c and log Σ_{k≠c} p_k without cancellation or underflow, at least MASKED.

    All numbers are finite, because onnxruntime's ReduceLogSumExp uses 0 as the maximum of a sample that begins with
    −inf.
    """
    log_p = nodes("Max", nodes("LogSoftmax", z, axis=1), number(MASKED))
    p = nodes("Exp", log_p)
    # 1 − p loses digits only for a class with most of the probability. There is at most one: for it, sum the others
    dominates = nodes("Greater", p, number(0.6))
    others = nodes.reduce("ReduceLogSumExp", nodes("Where", dominates, number(MASKED), log_p))
    return log_p, nodes("Where", dominates, others, nodes("Log", nodes("Sub", number(1), p)))


def _sigmoid(nodes: Nodes, m: str) -> str:
    """e^m / (1 + e^m), exact in its lower tail down to LEAST_VALUE, where the operator Sigmoid loses digits."""
    e = nodes("Exp", nodes("Clip", m, number(np.log(LEAST_VALUE)), number(-np.log(LEAST_VALUE))))
    return nodes("Div", e, nodes("Add", e, number(1)))
