"""Fitted calibrators and hard rows for the tests of exports."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from driftcal.calibrators import CALIBRATORS, make_calibrator

#: They look inside the model, where an exported map of logits cannot.
NEED_FEATURES = ("dac", "dac-pts", "md-ts")
NAMES = [name for name in CALIBRATORS if name not in NEED_FEATURES]
#: Adaptive ones export another one's map, so that most tests need not repeat it.
ADAPTIVE = [name for name in NAMES if CALIBRATORS[name].adaptive]
STATIC = [name for name in NAMES if name not in ADAPTIVE]
SIZED = [(name, n) for name in NAMES for n in (2, 10, 1000)]


@functools.cache
def fitted(name, n_classes, **params):
    """A calibrator tuned on overconfident logits; the last class of many has no labels. Adaptive ones see three rungs."""
    rng = np.random.default_rng(n_classes)
    if (name, n_classes) == ("dirichlet", 1000):  # a million numbers: exported as any others, but minutes to tune
        calibrator = make_calibrator(name, **params)
        calibrator.matrix_ = 0.6 * np.eye(n_classes) + 1e-3 * rng.normal(size=(n_classes, n_classes))
        calibrator.intercepts_ = rng.normal(size=n_classes)
        calibrator.classes_, calibrator.n_features_in_ = np.arange(n_classes), n_classes
        return calibrator
    logits = 2 * rng.normal(size=(500 if n_classes == 1000 else 2_000, n_classes)).astype(np.float32)
    levels = np.arange(len(logits)) % 3 * CALIBRATORS[name].needs_levels
    labels = np.argmax(0.6 / (1 + levels[:, None]) * logits + rng.gumbel(size=logits.shape), axis=1)
    if n_classes > 2:
        labels[labels == n_classes - 1] = 0
    return make_calibrator(name, **params).fit(logits, labels, levels=levels)


@functools.cache
def rows(n_classes, random, extreme):
    """Random rows; rows to ±1e4, with ties, with scores that underflow, with masked classes, and of one class only."""
    rng = np.random.default_rng(1)
    usual = 3 * rng.normal(size=(random, n_classes))
    hard = rng.uniform(-1e4, 1e4, size=(extreme, n_classes))
    hard[0::4] = np.round(hard[0::4] / 5e3) * 5e3
    hard[1::4] = rng.uniform(-800, 0, size=hard[1::4].shape)
    masked = rng.random((len(hard[2::4]), n_classes)) < 0.5
    masked[np.arange(len(masked)), rng.integers(n_classes, size=len(masked))] = False
    hard[2::4] = np.where(masked, -np.inf, hard[2::4] / 1e3)
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


def echo(path, n_classes, **options):
    return write_model(path, [("Identity", ["x"], ["logits"])], ["n", n_classes], ["n", n_classes], **options)
