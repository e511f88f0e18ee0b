"""ONNX nodes of calibrators with a temperature per sample: HTS, PTS, DAC, DAC-PTS and MD-TS."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.export_maps.sample_temperatures import (
    Neighbours,
    SampleTemperatures,
    ScaledByDistance,
    ScaledByEntropy,
    ScaledByNetwork,
    ScaledByRegression,
)
from driftcal.calibrators.samplewise.hts import LEAST_ARGUMENT, LEAST_LOG_ENTROPY
from driftcal.calibrators.samplewise.neighbours import half_squares
from driftcal.calibrators.samplewise.network import MAX_LOG_FACTOR
from driftcal.core.numerics import MASKED
from driftcal.export.onnx.maps.layer_pooling import add_split
from driftcal.export.onnx.nodes import DOUBLE, Nodes, affine, number, sum_over_classes


def add_sample_scaling(nodes: Nodes, scores: SampleTemperatures, z: str, features: str, name: str | None) -> str:
    """softmax(z / T) with the temperature T of each sample."""
    # differences from the largest logit first: logits times a large 1/T would lose the digits of the differences
    top = nodes.reduce("ReduceMax", z)  # (n, 1)
    relative = nodes("Sub", z, top)  # (n, C), at most 0
    match scores:
        case ScaledByEntropy():
            scaled = nodes("Div", relative, _by_entropy(nodes, scores, z, top, relative))
        case ScaledByNetwork():
            scaled = nodes("Mul", relative, _by_network(nodes, scores, relative, features))
        case ScaledByDistance():
            distances = _distances(nodes, scores.neighbours, features)
            scaled = nodes("Div", relative, affine(nodes, distances, scores.slopes[:, None], scores.constant))
        case ScaledByRegression():
            minus_log_t = affine(nodes, features, -scores.slopes[:, None], -scores.constant)
            clipped = nodes("Clip", minus_log_t, number(-scores.high), number(-scores.low))
            scaled = nodes("Mul", relative, nodes("Exp", clipped))
    return nodes("Softmax", scaled, axis=1, name=name)


def _by_entropy(nodes: Nodes, scores: ScaledByEntropy, z: str, top: str, relative: str) -> str:
    """T of each sample, (n, 1): softplus(slope·log H + intercept).

    H = log(1 + r) − Σ e^d·d / (1 + r) with d = z − max z and r = Σ e^d over all classes but the top one. All terms of
    each sum have the same sign, so a confident sample loses no digits.
    """
    finite = nodes("Max", relative, number(MASKED))  # finite for masked classes: its product with 0 is 0
    powers = nodes("Exp", finite)
    best = nodes("ArgMax", z, axis=1, keepdims=1)
    rest = sum_over_classes(nodes, nodes("ScatterElements", powers, best, nodes("Sub", top, top), axis=1))
    total = nodes("Add", rest, number(1))
    mean = nodes("Div", sum_over_classes(nodes, nodes("Mul", powers, finite)), total)
    lost = nodes("Sub", rest, nodes("Sub", total, number(1)))  # the digits that 1 + r has lost
    entropy = nodes("Sub", nodes("Add", nodes("Log", total), lost), mean)
    log_entropy = nodes("Log", nodes("Max", entropy, number(np.exp(LEAST_LOG_ENTROPY))))
    # softplus(a) = log(e^a + e^0); it loses digits only if T is so small that the softmax is 0 or 1
    line = affine(nodes, log_entropy, np.array([[scores.slope, 0.0]]), np.array([scores.intercept, 0.0]))
    return nodes("Max", nodes.reduce("ReduceLogSumExp", line), number(np.exp(LEAST_ARGUMENT)))


def _by_network(nodes: Nodes, scores: ScaledByNetwork, relative: str, features: str) -> str:
    """1/T of each sample, scale·exp(−g), (n, 1)."""
    largest, _ = nodes.several("TopK", 2, relative, np.array([scores.n_margins + 1]), axis=1)
    margins = nodes("Slice", largest, np.array([1]), np.array([scores.n_margins + 1]), np.array([1]))
    # log(1 + margin/unit) for margin = −largest
    x = nodes("Log", nodes("Sub", number(1), nodes("Div", margins, number(scores.margin_unit))))
    if scores.neighbours.references:
        x = nodes("Concat", x, _distances(nodes, scores.neighbours, features), axis=1)
    x = nodes("Min", nodes("Max", x, scores.low), scores.high)
    x = nodes("Div", nodes("Sub", x, scores.mean), scores.std)
    *hidden, (last, constant) = scores.layers
    for weights, constants in hidden:
        x = nodes("Tanh", affine(nodes, x, weights, constants))
    minus_g = nodes("Clip", affine(nodes, x, -last, -constant), number(-MAX_LOG_FACTOR), number(MAX_LOG_FACTOR))
    return nodes("Mul", nodes("Exp", minus_g), number(scores.scale))


def _distances(nodes: Nodes, neighbours: Neighbours, features: str) -> str:
    """The distance to the k-th nearest training sample in each layer, (n, layers)."""
    distances = []
    layers = add_split(nodes, features, [reference.shape[1] for reference in neighbours.references])
    for samples, reference in zip(layers, neighbours.references, strict=True):
        training = nodes("Cast", reference, to=DOUBLE)  # the file is half as large, and a runtime casts only once
        nearness = nodes("Gemm", samples, training, -half_squares(reference), transB=1)
        # ties between neighbours are broken arbitrarily
        _, nearest = nodes.several("TopK", 2, nearness, np.array([neighbours.k]), axis=1)
        kth = nodes("Gather", nearest, np.array(neighbours.k - 1), axis=1)
        distances.append(nodes.reduce("ReduceL2", nodes("Sub", samples, nodes("Gather", training, kth, axis=0))))
    return nodes("Concat", *distances, axis=1)
