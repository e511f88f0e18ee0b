"""Fitted calibrators and extreme logits for the tests of exports."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from driftcal.calibrators import CALIBRATORS, make_calibrator

#: Their exports need layer features beside logits.
NEED_FEATURES = ("dac", "dac-pts", "md-ts")
WINDOWED = [name for name, kind in CALIBRATORS.items() if kind.needs_window]
#: Calibrators that can be exported and need logits only.
NAMES = [name for name in CALIBRATORS if name not in (*NEED_FEATURES, *WINDOWED)]
SIZED = [(name, n) for name in NAMES for n in (2, 10, 1000)]


@functools.cache
def fitted(name, n_classes, **params):
    """A calibrator tuned on over-confident logits of three levels; the last of several classes has no labels."""
    rng = np.random.default_rng(n_classes)
    if (name, n_classes, *params) == ("dirichlet", 1000, "penalty"):  # a million numbers: minutes to tune
        calibrator = make_calibrator(name, **params)
        calibrator.matrix_ = 0.6 * np.eye(n_classes) + 1e-3 * rng.normal(size=(n_classes, n_classes))
        calibrator.intercepts_ = rng.normal(size=n_classes)
        calibrator.classes_, calibrator.n_features_in_ = np.arange(n_classes), n_classes
        calibrator.score_type_ = "logits"
        return calibrator
    logits = 2 * rng.normal(size=(500 if n_classes == 1000 else 2_000, n_classes)).astype(np.float32)
    levels = np.arange(len(logits)) % 3 * CALIBRATORS[name].needs_levels
    labels = np.argmax(0.6 / (1 + levels[:, None]) * logits + rng.gumbel(size=logits.shape), axis=1)
    if n_classes > 2:
        labels[labels == n_classes - 1] = 0
    return make_calibrator(name, **params).fit(logits, labels, levels=levels)


#: Widths of the two layers that calibrators read here; the second has maps of 2 × 2 positions.
WIDTHS = (8, 5)


@functools.cache
def fitted_on_features(name, n_classes):
    """A calibrator that reads two layers, tuned on over-confident logits that are worse far from 200 training samples."""
    rng = np.random.default_rng(n_classes)
    n = 500
    levels = np.arange(n) % 3
    logits = 2 * rng.normal(size=(n, n_classes)).astype(np.float32)
    labels = np.argmax(0.6 / (1 + levels[:, None]) * logits + rng.gumbel(size=logits.shape), axis=1)
    features = [rng.normal(size=(n, width)) + (levels[:, None] == np.arange(width)) for width in WIDTHS]
    options = {"k": 5} if CALIBRATORS[name].needs_reference else {}
    extra = {"reference": list(training_features())} if CALIBRATORS[name].needs_reference else {}
    return make_calibrator(name, **options).fit(logits, labels, features=features, levels=levels, **extra)


@functools.cache
def training_features():
    """Features of training samples in each layer; some are equal and some are all 0."""
    rng = np.random.default_rng(7)
    layers = [np.maximum(rng.normal(size=(200, width)) + np.eye(width)[0], 0) for width in WIDTHS]
    for layer in layers:
        layer[:10] = layer[10:20]
        layer[20:24] = 0
    return tuple(layer.astype(np.float32) for layer in layers)


@functools.cache
def layer_values(n):
    """Values of the two layers for n samples, (n, 8) and (n, 5, 2, 2): usual, long, short, all 0, and those of training samples."""
    rng = np.random.default_rng(3)
    layers = []
    for width, positions, training in zip(WIDTHS, ((), (2, 2)), training_features(), strict=True):
        values = rng.normal(size=(n, width, *positions))
        values[0::5] = np.maximum(values[0::5], 0)
        repeated = training[rng.integers(len(training), size=len(values[1::5]))]
        values[1::5] = repeated.reshape(*repeated.shape, *(1 for _ in positions))
        values[2::50], values[3::50], values[4::50] = 0, 1e30 * values[3::50], 1e-30 * values[4::50]
        layers.append(values.astype(np.float32))
    return layers


@functools.cache
def probes(n_classes, random, extreme):
    """Random logits; then extreme ones: to ±1e4, ties, scores that underflow, masked classes, one class only."""
    rng = np.random.default_rng(1)
    usual = 3 * rng.normal(size=(random, n_classes))
    hard = rng.uniform(-1e4, 1e4, size=(extreme, n_classes))
    hard[0::4] = np.round(hard[0::4] / 5e3) * 5e3
    hard[1::4] = rng.uniform(-800, 0, size=hard[1::4].shape)
    masked = rng.random((len(hard[2::4]), n_classes)) < 0.5
    masked[np.arange(len(masked)), rng.integers(n_classes, size=len(masked))] = False
    hard[2::8] /= 1e3
    hard[2::4] = np.where(masked, -np.inf, hard[2::4])
    hard[0], hard[4] = 0, 1e4
    hard[8], hard[8, -1] = -np.inf, -7
    return np.concatenate([usual, hard]).astype(np.float32)


def write_model(path, nodes, shape, out_shape, weights=(), *, kind=1, out_kind=1, opset=17, out="logits", **save):
    """An ONNX model from `x` to one output; types are TensorProto's numbers, 1 is float32."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node(*node[:3], **(node[3] if len(node) > 3 else {})) for node in nodes],
        "net",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(out, out_kind, out_shape)],
        [onnx.numpy_helper.from_array(value, name) for name, value in dict(weights).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, path, **save)
    return path


def echo_with_layers(path, n_classes, **options):
    """A model that gives parts of its input as logits and as layers `flat`, (n, 8), and `maps`, (n, 5, 2, 2)."""
    ends = np.cumsum([0, n_classes, 8, 20])
    weights = {f"at{k}": np.array([end]) for k, end in enumerate(ends)} | {"one": np.array([1])}
    nodes = [("Slice", ["x", f"at{k}", f"at{k + 1}", "one"], [name]) for k, name in enumerate(("logits", "flat", "m"))]
    nodes.append(("Reshape", ["m", "shape"], ["maps"]))
    weights["shape"] = np.array([-1, 5, 2, 2])
    return write_model(path, nodes, ["n", n_classes + 28], ["n", n_classes], weights, **options)


def echo(path, n_classes, **options):
    return write_model(path, [("Identity", ["x"], ["logits"])], ["n", n_classes], ["n", n_classes], **options)
