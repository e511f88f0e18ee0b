"""A large matrix of Dirichlet calibration lies on a grid and is exported as a product of integers: the same numbers."""

import copy

import hypothesis.strategies as st
import numpy as np
import pytest
from export_cases import echo, fitted, rows
from hypothesis import given
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax

from driftcal.calibrators import make_calibrator
from driftcal.calibrators.scaling import dirichlet
from driftcal.calibrators.scaling.dirichlet import GRID, LEAST_LOG, grid_step, to_grid
from driftcal.export import append_to_onnx, to_onnx
from driftcal.export.onnx.file import open_session
from driftcal.export.onnx.matrix_product import matrix_digits

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


def operators(export):
    return {node.op_type for node in export.model.graph.node}


def with_matrix(matrix):
    calibrator = make_calibrator("dirichlet")
    calibrator.matrix_, calibrator.intercepts_ = matrix, np.linspace(-1, 1, len(matrix))
    calibrator.classes_, calibrator.n_features_in_ = np.arange(len(matrix)), len(matrix)
    return calibrator


def largest_difference(export, calibrator, logits):
    found = open_session(export.model.SerializeToString()).run(["probabilities"], {"logits": logits})[0]
    wanted = calibrator.predict_proba(logits)
    assert found.shape == wanted.shape
    assert (found[np.isneginf(logits)] == 0).all()
    return np.abs(found - wanted).max(initial=0.0)


@st.composite
def matrices(draw):
    n, size = draw(st.integers(2, 12)), draw(st.sampled_from([1e-300, 1e-9, 1e-3, 1.0, 1e6]))
    parts = st.floats(-1, 1) | st.sampled_from([-1.0, 0.0, 1.0, GRID / 2**20, -GRID / 2**20])
    return size * draw(arrays(np.float64, (n, n), elements=parts))


@given(matrices())
def test_digits_add_up_to_any_matrix_on_the_grid(matrix):
    near, step, off = to_grid(matrix), grid_step(matrix), ~np.eye(len(matrix), dtype=bool)
    np.testing.assert_array_equal(np.diag(near), np.diag(matrix))
    assert np.abs(near - matrix)[off].max() <= step / 2
    assert step <= 2e-6 * np.abs(matrix)[off].max() or np.abs(near[off]).max() == 0
    np.testing.assert_array_equal(to_grid(near), near)
    planes, unit = matrix_digits(near), grid_step(near)
    assert all(plane.dtype == np.int8 and -64 <= plane.min() <= plane.max() <= 63 for plane in planes)
    whole = sum(128**k * plane.astype(np.int64) for k, plane in enumerate(planes))
    np.testing.assert_array_equal((whole * unit)[off], near[off])
    assert (np.diag(whole) == 0).all()


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_a_large_matrix_is_multiplied_in_integers(kind):
    calibrator = fitted("dirichlet", 1000, penalty=0.1)
    export = to_onnx(calibrator, logits=kind)
    onnx.checker.check_model(export.model, full_check=True)
    assert [(entry.domain, entry.version) for entry in export.model.opset_import] == [("", 17)]
    assert "MatMulInteger" in operators(export)
    # random ones, ±1e4 with ties, scores that underflow, masked classes
    logits = rows(1000, 500, 100).astype(kind)
    assert largest_difference(export, calibrator, logits) < 1e-9
    for n in (0, 1, 64):
        assert largest_difference(export, calibrator, logits[-n:] if n else logits[:0]) < 1e-9


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
def test_no_optimisation_of_the_graph_loses_digits(level):
    matrix = to_grid(np.random.default_rng(0).normal(size=(300, 300)))
    calibrator, logits, options = with_matrix(matrix), rows(300, 100, 50), runtime.SessionOptions()
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    session = runtime.InferenceSession(to_onnx(calibrator).model.SerializeToString(), options)
    found = session.run(["probabilities"], {"logits": logits})[0]
    assert np.abs(found - calibrator.predict_proba(logits)).max() < 1e-9


@pytest.mark.parametrize(("size", "digits"), [(0.0, 1), (1e-9, 3), (1e-3, 5), (0.3, 6), (1e4, 7)])
def test_the_larger_the_matrix_the_more_digits_of_a_row(size, digits):
    rng = np.random.default_rng(5)
    calibrator = with_matrix(to_grid(np.eye(300) + size * rng.normal(size=(300, 300))))
    export = to_onnx(calibrator)
    shifts = [node.input[1] for node in export.model.graph.node if node.op_type == "BitShift"]
    assert [list(part.dims) for part in export.model.graph.initializer if part.name in shifts] == [[digits, 1, 1]]
    assert largest_difference(export, calibrator, rows(300, 200, 100)) < 1e-9


def test_a_matrix_off_the_grid_and_a_small_one_are_multiplied_as_they_are():
    calibrator = copy.deepcopy(fitted("dirichlet", 1000, penalty=0.1))
    calibrator.matrix_[3, 5] *= 1 + 1e-12
    export = to_onnx(calibrator)
    assert "MatMul" in operators(export)
    assert "MatMulInteger" not in operators(export)
    assert largest_difference(export, calibrator, rows(1000, 500, 100)) < 1e-9
    small = with_matrix(to_grid(np.eye(255) + 1e-3))
    assert "MatMulInteger" not in operators(to_onnx(small))


@pytest.mark.parametrize("opset", [13, 18])
def test_at_the_end_of_older_and_newer_models(opset, tmp_path):
    calibrator, logits = fitted("dirichlet", 1000, penalty=0.1), rows(1000, 500, 100)
    path = append_to_onnx(echo(tmp_path / "net.onnx", 1000, opset=opset), calibrator, tmp_path / "out.onnx").path
    session = open_session(path.read_bytes())
    for part in (logits[:0], logits[:1], logits):
        found = session.run(["probabilities"], {"x": part})[0]
        assert np.abs(found - calibrator.predict_proba(part)).max(initial=0.0) < 1e-9


def test_rounding_to_the_grid_costs_a_fit_next_to_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    logits, off = 2 * rng.normal(size=(3_000, 60)), ~np.eye(60, dtype=bool)
    mixing = 0.6 * np.eye(60) + 0.02 * rng.normal(size=(60, 60))
    y = np.argmax(logits @ mixing + rng.gumbel(size=logits.shape), axis=1)
    x = np.maximum(log_softmax(logits, axis=1), LEAST_LOG)

    def fit():
        found = make_calibrator("dirichlet", penalty=0.1).fit(logits, y)
        w, b = found.matrix_, found.intercepts_
        nll = -log_softmax(x @ w.T + b, axis=1)[np.arange(len(y)), y].mean()
        assert found.fit_report_.after == pytest.approx(nll, rel=1e-13)
        return w, nll + 0.1 * ((w[off] ** 2).mean() + (b**2).mean() + 0.01 * ((np.diag(w) - 1) ** 2).mean())

    rounded, loss = fit()
    np.testing.assert_array_equal(to_grid(rounded), rounded)
    monkeypatch.setattr(dirichlet, "to_grid", np.copy)
    exact, least = fit()
    np.testing.assert_array_equal(to_grid(exact), rounded)
    assert (exact != rounded)[off].any()
    assert abs(loss - least) < 1e-11 * least
