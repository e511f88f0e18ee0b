"""The first step of a calibrator's ONNX graph, from float64 logits to scores."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.base import FLOOR
from driftcal.calibrators.nonparametric.spline import AHEAD
from driftcal.core.numerics import MASKED
from driftcal.export.maps import (
    BetaCurves,
    Blended,
    Mixed,
    Scaled,
    Scores,
    Sigmoids,
    Stretched,
    TopCurve,
)
from driftcal.export.onnx.matrix_product import add_product
from driftcal.export.onnx.nodes import Nodes, look_up, number, row_sum
from driftcal.export.onnx.samplewise import scale_by_row
from driftcal.export.samplewise_maps import ScaledByDistance, ScaledByEntropy, ScaledByNetwork, ScaledByRegression
from driftcal.types import Float64

#: Slopes below this are those of classes without rows: flat, but for rounding.
_FLAT_SLOPE = 1e-30
#: Log-odds that exponentials can say before they underflow; a class is certain if what lacks is e^-25, next to nothing if it has e^-60.
_LARGEST_ODDS, _CERTAIN, _NOTHING = 700.0, 25.0, 60.0
#: By how much the operator Tanh may be off, and what all classes' share of that may cost a probability.
_TANH_OFF, _LOST = 2.0**-50, 1e-7
#: Times this, all logits that are not masked have the same exponential.
_FLAT = 1e-300


def add_scores(
    nodes: Nodes, scores: Scores, z: str, features: str, name: str | None, *, to_be_normalised: bool = False
) -> str:
    """Add the nodes from float64 logits to scores; `name` is theirs where they are the probabilities already.

    `features` are the layers that the scores depend on beside the logits, side by side, rows of length 1.
    """
    match scores:
        case Scaled():
            return _softmax(nodes, scores.scale, z, name)
        case ScaledByEntropy() | ScaledByNetwork() | ScaledByDistance() | ScaledByRegression():
            return scale_by_row(nodes, scores, z, features, name)
        case Blended():
            # side by side, (3, n, classes): the third makes all that is not masked equal
            scales = np.array([scores.scale, 1.0, _FLAT]).reshape(3, 1, 1)
            parts = nodes("Softmax", nodes("Mul", z, scales), axis=2)
            weighted = nodes("Mul", parts, np.array(scores.weights).reshape(3, 1, 1))
            return nodes("ReduceSum", weighted, np.array([0]), keepdims=0, name=name)
        case Stretched():
            x, rising = _log_softmax(nodes, scores.scale, z), bool((scores.slopes > 0).all())
            if not rising:  # finite for masked classes too: times 0 it must be a number
                x = nodes("Max", x, number(MASKED))
            stretched = nodes("Add", nodes("Mul", x, scores.slopes), scores.intercepts)
            if rising:  # masked classes stay at −inf by themselves
                return nodes("Softmax", stretched, axis=1, name=name)
            return _softmax_of_open(nodes, stretched, z, name)
        case Mixed():
            x = nodes("Max", _log_softmax(nodes, 1.0, z), number(scores.least))
            mixed = nodes("Add", add_product(nodes, x, scores.matrix, scores.least), scores.intercepts)
            return _softmax_of_open(nodes, mixed, z, name)
        case Sigmoids():
            short = to_be_normalised and keeps_mass(scores)
            flat, slopes, part = np.abs(scores.slopes) < _FLAT_SLOPE, scores.slopes, _part(short)
            if short:  # a positive slope takes masked classes, at −inf, to 0
                slopes = np.where(flat, _FLAT, slopes)
            if short and (flat | (_LARGEST_ODDS * slopes + scores.intercepts > _CERTAIN)).all():
                odds = _log_odds(nodes, z, finite=bool(flat.any()))
            else:
                odds = nodes("Sub", *_logs(nodes, z, finite=not short and bool(flat.any())))
            m = nodes("Add", nodes("Mul", odds, part * slopes), part * scores.intercepts)
            return _sigmoid(nodes, m, short)
        case BetaCurves():
            short = to_be_normalised and keeps_mass(scores)
            # where the rest underflows, the top class is certain, or takes all because the others are next to nothing
            certain = (_LARGEST_ODDS * scores.b + scores.c > _CERTAIN).all()
            nothing = (_LARGEST_ODDS * scores.a - scores.c > _NOTHING).all()
            underflows = short and bool(certain or nothing)
            log_p, log_rest = _logs(nodes, z, finite=False, underflows=underflows)
            # next to nothing instead of 0, times which an infinite logarithm would be no number
            a, b, part = np.maximum(scores.a, _FLAT), np.maximum(scores.b, _FLAT), _part(short)
            bent = nodes("Sub", nodes("Mul", log_p, part * a), nodes("Mul", log_rest, part * b))
            return _sigmoid(nodes, nodes("Add", bent, part * scores.c), short)
        case TopCurve():
            return _top_curve(nodes, scores, z, name)


def _softmax(nodes: Nodes, scale: float, z: str, name: str | None = None) -> str:
    return nodes("Softmax", nodes("Mul", z, number(scale)) if scale != 1 else z, axis=1, name=name)


def _log_softmax(nodes: Nodes, scale: float, z: str) -> str:
    return nodes("LogSoftmax", nodes("Mul", z, number(scale)) if scale != 1 else z, axis=1)


def _softmax_of_open(nodes: Nodes, values: str, z: str, name: str | None) -> str:
    """The softmax of `values` where z is not masked."""
    return nodes("Softmax", nodes("Where", are_masked(nodes, z), number(-np.inf), values), axis=1, name=name)


def are_masked(nodes: Nodes, z: str) -> str:
    """Which classes are masked; NaN is not, so that the row of one stays NaN."""
    return nodes("Equal", z, number(-np.inf))


def _log_odds(nodes: Nodes, z: str, *, finite: bool) -> str:
    """log p_c − log Σ_{k≠c} p_k; beyond `_LARGEST_ODDS`, where the others underflow, it is +inf, or that if it must be `finite`."""
    below = nodes("Sub", z, nodes.reduce("ReduceMax", z))
    others = nodes("Log", _others(nodes, nodes("Exp", below)))
    return nodes("Sub", below, nodes("Max", others, number(-_LARGEST_ODDS)) if finite else others)


def _others(nodes: Nodes, p: str) -> str:
    """Σ_{k≠c} p_k as what comes before and what comes after: unlike 1 − p it has its digits for a class that takes almost all."""
    return nodes("Add", *(nodes("CumSum", p, np.array(1), exclusive=1, reverse=end) for end in (0, 1)))


def _logs(nodes: Nodes, z: str, *, finite: bool, underflows: bool = False) -> tuple[str, str]:
    """log p_c and log Σ_{k≠c} p_k without cancellation; MASKED for masked classes, and where all others are.

    One operator less if they may be −inf: then nothing may multiply them by 0. Less work if what comes from probabilities may be
    −inf, or lack digits, where it `underflows`: beyond `_LARGEST_ODDS`.
    """
    if underflows:
        # in less time than the operator LogSoftmax takes
        log_p = nodes("Sub", z, nodes.reduce("ReduceLogSumExp", z))
        return log_p, nodes("Log", _others(nodes, nodes("Exp", log_p)))
    log_p = nodes("LogSoftmax", z, axis=1)
    if finite:
        log_p = nodes("Max", log_p, number(MASKED))
    p = nodes("Exp", log_p)
    # one class at most, also when 1/2 is rounded up, and the only one for which 1 − p loses digits
    leads = nodes("Greater", p, number(0.6))
    rest = nodes.reduce("ReduceLogSumExp", nodes("Where", leads, number(MASKED), log_p))
    return log_p, nodes("Where", leads, rest, nodes("Log", nodes("Sub", number(1), p)))


def _top_curve(nodes: Nodes, scores: TopCurve, z: str, name: str | None) -> str:
    """The curve's answer for the top class, and the others' shares of what it leaves."""
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
    ahead = nodes("Div", number(1 + AHEAD), nodes("Add", total, number(1 + AHEAD)))
    sure = nodes("Max", look_up(nodes, scores.curve, odds, buckets=False), ahead)
    sure = nodes("Where", alone, number(1), sure)
    share = nodes("Div", nodes("Sub", number(1), sure), total)
    shared = nodes("Min", nodes("Mul", powers, share), sure)
    return nodes("ScatterElements", shared, best, sure, axis=1, name=name)


def keeps_mass(scores: Scores) -> bool:
    """Whether sigmoids give masked classes 0 and no row so little in all that `_TANH_OFF` matters."""
    match scores:
        case Sigmoids():
            powers, constants = scores.slopes, scores.intercepts
        case BetaCurves():
            powers, constants = scores.a, scores.c
        case _:
            return False
    if (powers < -_FLAT_SLOPE).any() or (constants < -30).any():
        return False
    return _least_mass(powers, constants) > len(powers) * _TANH_OFF / (2 * _LOST)


def _least_mass(powers: Float64, constants: Float64) -> float:
    """No more than what sigmoids of any row sum to: σ(power·log-odds + constant) is at least σ(constant)·p^max(power, 1).

    The least sum of these over all p that sum to 1 is, by duality, no less than λ + Σ min over p of (term − λ·p) for any λ.
    """
    power, weight = np.maximum(powers, 1.0), 1 / (1 + np.exp(-constants))
    price = np.geomspace(weight.min() / len(power), weight.max() * power.max(), 400)[:, None]
    p = np.exp(np.minimum(0, np.log(price / (weight * power)) / np.maximum(power - 1, 1e-12)))
    return float((price[:, 0] + (weight * p**power - price * p).sum(axis=1)).max())


def _part(short: bool) -> float:
    """What `_sigmoid` is to be given of its argument."""
    return 0.5 if short else 1.0


def _sigmoid(nodes: Nodes, m: str, short: bool) -> str:
    """e^m / (1 + e^m), whose lower tail has its digits down to FLOOR.

    Where mass is kept anyway, twice that from half of m, 1 + tanh(m/2), in less time than the operator Sigmoid takes.
    """
    if short:
        return nodes("Add", nodes("Tanh", m), number(1))
    e = nodes("Exp", nodes("Clip", m, number(np.log(FLOOR)), number(-np.log(FLOOR))))
    return nodes("Div", e, nodes("Add", e, number(1)))
