"""Scores that differ by rounding only are one score: in fits, for any order of columns, and in exports."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftcal.calibrators import make_calibrator
from driftcal.calibrators.nonparametric.kernels.tied_scores import TOLERANCE, begins_group, begins_log_odds_group

NAMES = ["ir", "irm", "ts-ir", "hb", "pbmc", "spline", "ps", "beta"]
FEW = settings(max_examples=25, derandomize=True)


def quantised(seed, n=60, n_classes=5, step=0.5):
    """Logits in steps, so that many samples have the same logits in another order."""
    rng = np.random.default_rng(seed)
    logits = np.round(rng.normal(size=(n, n_classes)) * 1.5 / step) * step
    return logits, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


def test_samples_with_exchanged_columns_have_one_curve():
    logits = np.array([[0, 0.5, 1.5, 1]] * 4 + [[0, 0.5, 1, 1.5]] * 4)
    p = make_calibrator("irm").fit(logits, [3] * 8).predict_proba(logits)
    np.testing.assert_allclose(p[[0, 4]], [[0, 0, 0.5, 0.5]] * 2, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(seed=st.integers(0, 10**6), n=st.sampled_from([12, 50, 400]), n_classes=st.sampled_from([3, 5, 11]))
def test_the_order_of_columns_does_not_matter(name, seed, n, n_classes):
    logits, y = quantised(seed, n, n_classes)
    y[:2] = logits[:2].argmin(axis=1)  # some error, so that there is a temperature
    if name == "spline":  # of two equal logits the first is the top class
        logits[np.arange(n), logits.argmax(axis=1)] += 0.5
    order = np.random.default_rng(seed).permutation(n_classes)
    p = make_calibrator(name).fit(logits, y).predict_proba(logits)
    permuted = make_calibrator(name).fit(logits[:, order], np.argsort(order)[y]).predict_proba(logits[:, order])
    np.testing.assert_allclose(permuted, p[:, order], rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["ir", "irm", "ts-ir", "hb"])
@FEW
@given(seed=st.integers(0, 10**6))
def test_the_scale_of_weights_does_not_matter_with_ties(name, seed):
    logits, y = quantised(seed, 80)
    w = np.random.default_rng(seed).integers(1, 4, len(y))
    a, b = (make_calibrator(name).fit(logits, y, sample_weight=w * scale) for scale in (1, 7.5))
    np.testing.assert_allclose(a.predict_proba(logits), b.predict_proba(logits), rtol=0, atol=1e-9)


@pytest.mark.parametrize("form", ["torch", "onnx"])
@pytest.mark.parametrize("name", ["hb", "pbmc", "ir", "irm", "ts-ir", "spline"])
@pytest.mark.parametrize(("scale", "step"), [(1.0, 0.5), (1.0, 0), (12.0, 0), (300.0, 0), (12.0, 1.0)])
def test_exports_agree_on_tuning_samples(form, name, scale, step):
    rng = np.random.default_rng(int(scale))
    for n, n_classes in ((40, 3), (500, 10)):
        z = rng.normal(size=(n, n_classes))
        y = np.argmax(2 * z + rng.gumbel(size=z.shape), axis=1)
        logits = np.round(z * scale / step) * step if step else z * scale
        calibrator = make_calibrator(name).fit(logits, y)
        shuffled = logits[:, rng.permutation(n_classes)]
        for x in (logits, shuffled):
            np.testing.assert_allclose(exported(form, calibrator, x), calibrator.predict_proba(x), rtol=0, atol=1e-6)


def exported(form, calibrator, logits):
    """Probabilities of an exported calibrator."""
    if form == "torch":
        torch = pytest.importorskip("torch")
        from driftcal.export import to_torch

        return to_torch(calibrator)(torch.from_numpy(logits)).numpy()
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from driftcal.export import to_onnx
    from driftcal.export.onnx.verification import open_session

    graph = to_onnx(calibrator, logits="float64").model.SerializeToString()
    return open_session(graph).run(["probabilities"], {"logits": logits})[0]


def test_groups_are_no_wider_than_the_tolerance():
    scores = np.array([0.0, 1e-310, 0.25, np.nextafter(0.25, 1), 0.25 * (1 + 2 * TOLERANCE), 0.25])
    assert begins_group(scores, np.array([0, 0, 0, 0, 0, 1])).tolist() == [True, False, True, False, True, True]
    chain = 0.5 * (1 + 0.4 * TOLERANCE * np.arange(6))
    assert begins_group(chain, np.zeros(6, int)).tolist() == [True, False, False, True, False, False]
    odds = np.array([-3.0, np.nextafter(-3.0, 0), 40.0, np.nextafter(40.0, 50), 41.0])
    assert begins_log_odds_group(odds).tolist() == [True, False, True, False, True]
