"""Inputs that once gave wrong answers or foreign exceptions."""

import numpy as np
import pytest

from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.core.numerics import softmax
from driftcal.errors import DriftcalError, InputError, LogitsError, NoFiniteOptimum

inf = np.inf
PLATT = ["ps", "pbmc"]


def usual(seed=0, n=300, n_classes=3, scale=2.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes)) * scale
    return logits, np.argmax(logits / 2 + rng.gumbel(size=logits.shape), axis=1)


@pytest.mark.parametrize("name", PLATT)
def test_masked_samples_are_no_evidence_in_smoothed_targets(name):
    logits = np.array([[2, 0, -1], [1, 3, -inf], [0.5, -inf, 2], [1, 2, -inf]])
    y, weights = np.array([0, 1, 2, 0]), np.array([1, 3, 2, 1])
    repeated = np.repeat(np.arange(4), weights)
    a = make_calibrator(name).fit(logits, y, sample_weight=weights)
    b = make_calibrator(name).fit(logits[repeated], y[repeated])
    np.testing.assert_allclose(a.predict_proba(logits), b.predict_proba(logits), atol=1e-12)
    masked = np.tile([1, 2, -inf], (50, 1))
    more = make_calibrator(name).fit(np.vstack([logits, masked]), np.append(y, np.arange(50) % 2))
    plain = make_calibrator(name).fit(logits, y)
    assert more.slopes_[2] == pytest.approx(plain.slopes_[2], rel=1e-9)
    assert more.intercepts_[2] == pytest.approx(plain.intercepts_[2], rel=1e-9)


@pytest.mark.parametrize("name", PLATT)
def test_platt_says_that_the_scale_of_weights_matters(name):
    assert CALIBRATORS[name].uses_sample_count


@pytest.mark.parametrize("name", sorted(name for name, kind in CALIBRATORS.items() if not kind.needs_features))
def test_fits_of_few_samples_have_the_same_bits_wherever_memory_lies(name):
    blocks = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(6, 16))
        logits, y = rng.normal(size=(n, 3)), rng.integers(0, 3, n)
        y[:2] = logits[:2].argmin(axis=1)
        y[2:5] = logits[2:5].argmax(axis=1)
        bits = set()
        for _ in range(10 if name == "pts" else 40):
            blocks.append(np.empty(rng.integers(1, 30)))  # moves the next arrays
            try:
                fitted = make_calibrator(name).fit(logits, y)
            except NoFiniteOptimum:
                break
            bits.add(b"".join(np.asarray(getattr(fitted, part)).tobytes() for part in fitted.fitted))
        assert len(bits) <= 1


@pytest.mark.parametrize("margin", [5, 60, 300])
@pytest.mark.parametrize("name", ["svs", "vs", "dirichlet", "beta", "ps"])
def test_confident_and_correct_models_converge(name, margin):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(200, 4)) * 10
        logits[np.arange(200), rng.integers(0, 4, 200)] += margin
        fitted = make_calibrator(name).fit(logits, logits.argmax(axis=1))
        p = fitted.predict_proba(logits)
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
        assert margin == 5 or (p.argmax(axis=1) == logits.argmax(axis=1)).all()


def test_dirichlet_takes_a_block_of_weight_0(monkeypatch):
    monkeypatch.setattr("driftcal.core.blocks.BLOCK_SCORES", 64)
    logits, y = usual(n=400)
    weights = np.ones(400)
    weights[:150] = 0
    a = make_calibrator("dirichlet").fit(logits, y, sample_weight=weights)
    b = make_calibrator("dirichlet").fit(logits[150:], y[150:])
    np.testing.assert_allclose(a.matrix_, b.matrix_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["spline", "hb"])
def test_a_fit_that_is_worse_than_no_calibration_says_so(name):
    warned = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        logits, y = usual(seed, int(rng.integers(2, 40)), scale=rng.choice([0.5, 1, 4]))
        if seed % 2:  # correct on nearly every sample
            logits, y = logits * 5, logits.argmax(axis=1)
        report = make_calibrator(name).fit(logits, y).fit_report_
        is_worse = report.after > report.before + 1e-9
        assert is_worse == any("uncalibrated model is better" in text for text in report.warnings)
        warned += is_worse
    assert warned


@pytest.mark.parametrize("name", sorted(name for name, kind in CALIBRATORS.items() if not kind.needs_features))
def test_predictions_refuse_probabilities_and_take_the_largest_floats(name):
    logits, y = usual()
    fitted = make_calibrator(name).fit(logits, y)
    with pytest.raises(LogitsError, match="from_probabilities"):
        fitted.predict_proba(softmax(logits))
    assert fitted.predict_proba([[1.0, 0.0, 0.0]]).shape == (1, 3)  # one sample may be logits by accident
    largest = np.array(
        [[1.7e308, -1.7e308, 0], [-1.7e308, 1.7e308, 1.7e308], [1e308, -inf, -1e308], [0, -1.7e308, -inf]]
    )
    p = fitted.predict_proba(largest)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("name", ["ts", "ets", "irm", "spline", "pts", "hts"])
def test_classes_may_tie_but_never_change_places(name):
    logits, y = usual(n=400)
    fitted = make_calibrator(name).fit(logits, y)
    close = logits[:200].copy()
    top = close.argmax(axis=1)
    close[np.arange(200), (top + 1) % 3] = close[np.arange(200), top] * (1 - np.geomspace(1e-16, 1e-6, 200))
    p = fitted.predict_proba(close)
    top = close.argmax(axis=1)
    assert (p[np.arange(200), top] == p.max(axis=1)).all()
    assert (fitted.predict(close) == top).all()


@pytest.mark.parametrize("name", sorted(name for name, kind in CALIBRATORS.items() if not kind.needs_features))
def test_parameters_of_any_kind_are_used_or_refused_with_an_error_of_ours(name):
    logits, y = usual(n=60)
    refused = 0
    for parameter in make_calibrator(name).get_params():
        for value in (0, -1, inf, np.nan, "x", [], 10**400, -(10**400), True, 2.5, 1j):
            if (parameter == "tol" and value == 2.5) or parameter == "random_state":
                continue  # valid, and tested elsewhere
            try:
                p = make_calibrator(name, **{parameter: value}).fit(logits, y).predict_proba(logits)
            except DriftcalError:
                refused += 1
            else:
                assert np.isfinite(p).all()
    assert refused >= 8


@pytest.mark.parametrize("value", [0, None, "no"])
def test_normalise_is_true_or_false(value):
    with pytest.raises(InputError, match="normalise must be True or False"):
        make_calibrator("pbmc", normalise=value).fit(np.eye(3) * 2, [0, 1, 2])


def test_an_unlucky_subsample_does_not_decide_the_temperature(monkeypatch):
    """The start comes from a subsample of blocks, here of eight samples: the best T of some subsamples is infinite."""

    def temperatures():
        for seed in range(8, 20):
            rng = np.random.default_rng(seed)
            logits = rng.normal(size=(80, 4)) * 3
            y = logits.argmax(axis=1)
            flip = rng.random(80) < 0.3
            y[flip] = rng.integers(0, 4, flip.sum())
            y[:3] = np.argsort(logits[:3], axis=1)[:, -2]
            yield make_calibrator("ts").fit(logits, y).temperature_

    whole = list(temperatures())
    monkeypatch.setattr("driftcal.core.blocks.BLOCK_SCORES", 1)
    assert list(temperatures()) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("name", PLATT)
def test_labels_of_one_class_give_a_constant_whatever_their_weights(name):
    """A slope of 1e-30 had the sign of its rounding, and certain samples were near 0 or near 1 by it."""
    rng = np.random.default_rng(0)
    z, weights = rng.normal(size=(40, 2)), rng.integers(1, 4, 40)
    z[:3, 1] = -np.inf
    weighted = make_calibrator(name).fit(z, np.zeros(40, int), sample_weight=weights)
    repeated = make_calibrator(name).fit(np.repeat(z, weights, axis=0), np.zeros(weights.sum(), int))
    assert weighted.slopes_.tolist() == [0, 0]
    np.testing.assert_allclose(repeated.predict_proba(z), weighted.predict_proba(z), atol=1e-12)
