"""Numpy on small inputs, compiled kernels on large ones: the same numbers to 1e-12, and no numba before it is needed."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from driftcal import metrics
from driftcal.calibrators import make_calibrator
from driftcal.core import kernels
from driftcal.core.numerics import softmax_into, softmax_kernel

TOLERANCE = 1e-12


def problem(dtype, seed=0, n=300, n_classes=7):
    rng = np.random.default_rng(seed)
    logits = (rng.normal(size=(n, n_classes)) * rng.choice([1, 8, 300], (n, 1))).astype(dtype)
    y = (logits / 3 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    masked = rng.random(logits.shape) < 0.1
    masked[np.arange(n), y] = masked[np.arange(n), logits.argmax(axis=1)] = False
    logits[masked] = -np.inf
    return logits, y, rng.choice([0.0, 0.3, 1.0, 2.5], n)


def both(monkeypatch, compute):
    """What `compute` gives in numpy, and with compiled kernels."""
    small = compute()
    monkeypatch.setattr(kernels, "SMALL", -1)
    return small, compute()


@pytest.mark.law
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["base", "ts", "ets"])
def test_fits_and_predictions_agree(monkeypatch, name, dtype):
    logits, y, weights = problem(dtype)

    def compute():
        fitted = make_calibrator(name).fit(logits, y, sample_weight=weights)
        report = fitted.fit_report_
        return fitted.predict_proba(logits), fitted.predict_log_proba(logits), [report.before, report.after]

    for small, compiled in zip(*both(monkeypatch, compute), strict=True):
        np.testing.assert_allclose(small, compiled, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.law
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_metrics_agree(monkeypatch, dtype):
    logits, y, weights = problem(dtype, seed=1)
    small, compiled = both(monkeypatch, lambda: metrics.evaluate(y, logits, sample_weight=weights).to_dict())
    assert small.keys() == compiled.keys()
    for name, value in small.items():
        assert value == pytest.approx(compiled[name], rel=TOLERANCE, abs=TOLERANCE), name


def test_errors_are_the_same(monkeypatch):
    logits, y, _ = problem(np.float64)
    for bad in (np.nan, np.inf, 1e80):
        broken = logits.copy()
        broken[17, 2] = broken[40, 1] = bad

        def message(broken=broken):
            with pytest.raises(ValueError, match="sample 17") as error:
                make_calibrator("ts").fit(broken, y)
            return str(error.value)

        with monkeypatch.context() as patch:
            small, compiled = both(patch, message)
        assert small == compiled


def test_a_part_of_a_large_input_is_computed_like_the_whole():
    """The last block of a large array is small; it gets the bits of the compiled kernel."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(kernels.SMALL // 4 + 100, 4)) * 5
    assert logits.size > kernels.SMALL
    whole = np.empty(logits.shape)
    softmax_into(logits, 0.7, whole)
    part = np.empty((50, 4))
    with kernels.part_of(logits.size):
        softmax_into(logits[-50:], 0.7, part)
    np.testing.assert_array_equal(part, whole[-50:])
    softmax_into(logits[-50:], 0.7, part)
    np.testing.assert_allclose(part, whole[-50:], rtol=TOLERANCE)


def test_kernels_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(softmax_kernel)) is softmax_kernel


SCRIPT = """
import sys
import numpy as np
import driftcal

rng = np.random.default_rng(0)
logits = rng.normal(scale=6, size=(2000, 10))
y = (logits / 3 + rng.gumbel(size=logits.shape)).argmax(axis=1)
for kind in (driftcal.TemperatureScaling, driftcal.EnsembleTemperatureScaling):
    calibrator = kind().fit(logits, y)
    p = driftcal.load(calibrator.save(sys.argv[1])).predict_proba(logits)
    driftcal.expected_calibration_error(y, p)
print(sorted({"numba", "sklearn", "scipy", "pandas", "matplotlib"} & set(sys.modules)))
"""


def test_small_inputs_import_neither_numba_nor_scikit_learn(tmp_path):
    """numba takes a second to import, scikit-learn with scipy and pandas two."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "cal.safetensors")], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"
