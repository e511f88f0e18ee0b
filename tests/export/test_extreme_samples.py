"""Exports agree with Python where classes are masked and logits are far apart, and the probe samples reach such samples."""

import numpy as np
import pytest

from driftcal.calibrators import make_calibrator
from driftcal.export import to_onnx, to_torch
from driftcal.export.onnx.verification import open_session, probe_logits

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

inf = np.inf
EXTREME = np.array(
    [
        [-inf, -1e4, -2e4],
        [-inf, -inf, -1e4],
        [-inf, 0, 800],
        [0, -inf, -inf],
        [1e4, -1e4, 0],
        [5, 5, 5],
        [0, 800, -inf],
        [-1e4, -1e4, -1e4],
        [-740, 0, -inf],
        [0, 0, -3000],
        [1e60, 0, -1e60],
    ]
)


@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize(
    ("name", "options"),
    [("ps", {}), ("beta", {}), ("beta", {"tied_below": 1}), ("pbmc", {}), ("spline", {}), ("ts-ir", {})],
)
def test_masked_and_extreme_samples(name, options, scale):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(800, 3)) * 2
    y = np.argmax(logits / 2 + rng.gumbel(size=logits.shape), axis=1)
    fitted = make_calibrator(name, **options).fit(logits * scale, y)
    expected = fitted.predict_proba(EXTREME)
    np.testing.assert_allclose(to_torch(fitted)(torch.from_numpy(EXTREME)).numpy(), expected, rtol=0, atol=1e-9)
    session = open_session(to_onnx(fitted, logits="float64").model.SerializeToString())
    np.testing.assert_allclose(session.run(["probabilities"], {"logits": EXTREME})[0], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 1000])
def test_probe_samples_have_masked_classes_below_a_large_lead(n_classes):
    probe = probe_logits(n_classes).astype(float)
    finite = np.where(np.isneginf(probe), np.nan, probe)
    lead = np.nanmax(finite, axis=1) - np.nanmin(finite, axis=1)
    masked = np.isneginf(probe)
    begins_masked = masked[:, 0]
    assert (masked.sum(axis=1) < n_classes).all()
    assert (begins_masked & (masked.sum(axis=1) == n_classes - 1) & (np.nanmax(finite, axis=1) < -5e3)).any()
    if n_classes > 2:
        assert (begins_masked & (lead > 700)).sum() > 10
        assert (begins_masked & (lead > 700) & (np.nanmax(finite, axis=1) < -5e3)).any()
    assert n_classes > 10 or set(probe.argmax(axis=1)) == set(range(n_classes))
