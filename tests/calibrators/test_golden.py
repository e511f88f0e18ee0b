"""Calibrators against scikit-learn, scipy, 50-digit arithmetic and the peers of make_calibrators.py."""

import json
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from driftcal.calibrators import make_calibrator
from driftcal.core.numerics import log_softmax, softmax

pytestmark = pytest.mark.golden

mpmath.mp.dps = 50
PEERS = json.loads((Path(__file__).parents[1] / "data" / "golden" / "calibrators.json").read_text())


def problem(n, n_classes, seed=0, scale=3.0, temperature=2.0):
    """Logits, and labels drawn from softmax(logits / temperature)."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes)) * scale
    p = softmax(logits, 1 / temperature)
    return logits, (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def exact_temperature(logits, y, start):
    """1/beta at the root of the gradient of the likelihood, in 50 digits."""
    differences = [[mpmath.mpf(float(v)) - mpmath.mpf(float(row.max())) for v in row] for row in logits]

    def gradient_and_curvature(beta):
        gradient = curvature = mpmath.mpf(0)
        for row, label in zip(differences, y, strict=True):
            e = [mpmath.exp(beta * d) for d in row]
            s0 = mpmath.fsum(e)
            mean = mpmath.fsum(a * d for a, d in zip(e, row, strict=True)) / s0
            gradient += mean - row[label]
            curvature += mpmath.fsum(a * d * d for a, d in zip(e, row, strict=True)) / s0 - mean**2
        return gradient, curvature

    beta = 1 / mpmath.mpf(float(start))
    for _ in range(3):  # a Newton step doubles the digits: 12 become 24, 48
        gradient, curvature = gradient_and_curvature(beta)
        beta -= gradient / curvature
    assert abs(gradient / curvature) < mpmath.mpf(10) ** -20 * beta
    return 1 / beta


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [0.05, 1.0, 7.0, 100.0])
@pytest.mark.parametrize(("n_classes", "n"), [(2, 40), (10, 30), (1000, 6)])
def test_temperature_to_twelve_digits(dtype, temperature, n_classes, n):
    for seed in range(50):  # the first labels with a finite best temperature
        logits, y = problem(n, n_classes, seed, scale=3 * temperature, temperature=temperature)
        logits = logits.astype(dtype)
        if n_classes == 1000:
            y[0] = np.argsort(logits[0])[-3]
        has_errors = (logits.argmax(axis=1) != y).any()
        if has_errors and (logits.mean(axis=1) - logits[np.arange(n), y]).sum() < 0:
            break
    fitted = make_calibrator("ts").fit(logits, y).temperature_
    exact = exact_temperature(logits, y, fitted)
    assert abs(fitted / exact - 1) < 2e-12
    assert 0.3 * temperature < fitted < 4 * temperature


def test_temperature_and_probabilities_of_very_large_logits():
    logits, y = problem(40, 5, scale=3e4, temperature=1e4)
    cal = make_calibrator("ts").fit(logits + 1e6, y)
    assert abs(cal.temperature_ / exact_temperature(logits + 1e6, y, cal.temperature_) - 1) < 2e-12
    p = cal.predict_proba(logits)
    for i in range(3):
        e = [
            mpmath.exp((mpmath.mpf(float(v)) - float(logits[i].max())) / mpmath.mpf(cal.temperature_))
            for v in logits[i]
        ]
        for c in range(5):
            assert abs(p[i, c] - e[c] / mpmath.fsum(e)) < 1e-14
            assert p[i, c] == pytest.approx(float(e[c] / mpmath.fsum(e)), rel=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_temperature_by_squared_error_is_a_root_of_the_gradient_in_50_digits(dtype):
    logits, y = problem(40, 4, seed=2)
    logits = logits.astype(dtype)
    fitted = make_calibrator("ets").fit(logits, y).temperature_
    assert fitted == pytest.approx(make_calibrator("ts-ir").fit(logits, y).temperature_, rel=1e-13)

    def error(beta):
        total = mpmath.mpf(0)
        for row, label in zip(logits, y, strict=True):
            e = [mpmath.exp(beta * (mpmath.mpf(float(v)) - float(row.max()))) for v in row]
            s = mpmath.fsum(e)
            total += mpmath.fsum((a / s - (c == label)) ** 2 for c, a in enumerate(e))
        return total

    beta = mpmath.findroot(lambda b: mpmath.diff(error, b), 1 / mpmath.mpf(fitted), tol=1e-25)
    assert abs(fitted * beta - 1) < 1e-11
    grid = [softmax(logits, float(b)) for b in np.geomspace(1e-3, 1e3, 2000)]
    assert min(((p - np.eye(4)[y]) ** 2).sum() for p in grid) >= float(error(beta)) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_ensemble_weights_are_those_of_slsqp_on_the_same_loss(seed):
    logits, y = problem(300, 5, seed, temperature=[0.5, 1.5, 2.0, 4.0, 8.0, 1.0][seed])
    if seed % 2:
        y[: 30 * seed] = np.random.default_rng(seed).integers(0, 5, 30 * seed)
    ets = make_calibrator("ets").fit(logits, y)
    parts = np.stack([softmax(logits, 1 / ets.temperature_), softmax(logits), np.full(logits.shape, 0.2)])

    def loss(w):
        return ((np.tensordot(w, parts, 1) - np.eye(5)[y]) ** 2).sum(axis=1).mean()

    simplex = {"type": "eq", "fun": lambda w: w.sum() - 1}
    best = min(
        (minimize(loss, start, bounds=[(0, 1)] * 3, constraints=simplex, method="SLSQP", options={"ftol": 1e-15, "maxiter": 500})
        for start in ([1, 0, 0], [0, 1, 0], [0.3, 0.3, 0.4])), key=lambda r: r.fun,
    )  # fmt: skip
    assert loss(ets.weights_) <= best.fun + 1e-13
    assert loss(ets.weights_) == pytest.approx(best.fun, abs=1e-9)
    np.testing.assert_allclose(ets.weights_, best.x, atol=2e-3)


def isotonic_on_ranks(scores, hits, weights, new):
    """scikit-learn's curve, fitted on ranks: it merges scores within 1e-15, driftcal within a share of 1e-12."""
    distinct = np.unique(scores)
    values = distinct[np.append(True, np.diff(distinct) > 9e-13 * distinct[1:])]
    ranks = np.searchsorted(values, scores, side="right") - 1
    nearest = values[np.clip(np.searchsorted(values, new * (1 + 9e-13), side="right") - 1, 0, None)]
    new = np.where(np.abs(nearest - new) <= 9e-13 * new, nearest, new)
    fit = IsotonicRegression(y_min=0, y_max=1).fit(ranks.astype(float), hits, sample_weight=weights)
    ends = values[np.round(fit.X_thresholds_).astype(int)]
    return np.interp(new, ends, fit.y_thresholds_)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("n", "n_classes", "rounded"), [(400, 4, False), (300, 3, True), (40, 60, False), (30_000, 3, False)]
)
def test_isotonic_curves_are_scikit_learns(n, n_classes, rounded, weighted):
    logits, y = problem(n, n_classes, 1)
    logits = np.round(logits) if rounded else logits  # ties between scores of true and other classes
    w = np.random.default_rng(0).random(n) + 0.1 if weighted else np.ones(n)
    new = np.vstack([logits, problem(50, n_classes, 2, scale=6)[0]])
    p, q = softmax(logits), softmax(new)
    hits = np.eye(n_classes)[y]

    def normalised(values):
        total = values.sum(axis=1, keepdims=True)
        return np.where(total > 0, values / np.where(total > 0, total, 1), 1 / n_classes)

    raw = np.stack([isotonic_on_ranks(p[:, c], hits[:, c], w, q[:, c]) for c in range(n_classes)], axis=1)
    ir = make_calibrator("ir").fit(logits, y, sample_weight=w)
    np.testing.assert_allclose(ir.predict_proba(new), normalised(raw), rtol=0, atol=1e-12)

    raw = isotonic_on_ranks(p.ravel(), hits.ravel(), np.repeat(w, n_classes), q.ravel()).reshape(q.shape)
    irm = make_calibrator("irm").fit(logits, y, sample_weight=w)
    np.testing.assert_allclose(irm.predict_proba(new), normalised(raw + 1e-9 * q), rtol=0, atol=1e-12)

    ts_ir = make_calibrator("ts-ir").fit(logits, y, sample_weight=w)
    p, q = softmax(logits, 1 / ts_ir.temperature_), softmax(new, 1 / ts_ir.temperature_)
    raw = np.stack([isotonic_on_ranks(p[:, c], hits[:, c], w, q[:, c]) for c in range(n_classes)], axis=1)
    np.testing.assert_allclose(ts_ir.predict_proba(new), normalised(raw), rtol=0, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_platt_scaling_is_scikit_learns_logistic_regression(n_classes, weighted):
    logits, y = problem(500, n_classes)
    w = np.random.default_rng(0).random(500) + 0.1 if weighted else None
    ps = make_calibrator("ps").fit(logits, y, sample_weight=w)
    p = softmax(logits)
    for c in range(n_classes):
        odds = log_softmax(logits)[:, c] - np.log1p(-p[:, c])
        other = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky").fit(
            odds[:, None], y == c, sample_weight=w
        )
        assert ps.slopes_[c] == pytest.approx(other.coef_[0, 0], rel=1e-8)
        assert ps.intercepts_[c] == pytest.approx(other.intercept_[0], rel=1e-8, abs=1e-8)
    if n_classes == 2:
        np.testing.assert_allclose(ps.predict_proba(logits), other.predict_proba(odds[:, None]), atol=1e-8)


@pytest.mark.parametrize("n", [97, 400])
def test_histogram_bins_are_numpys_quantiles(n):
    logits, y = problem(n, 3)
    hb = make_calibrator("hb").fit(logits, y)
    p = softmax(logits)
    for c in range(3):
        edges = np.quantile(p[:, c], np.arange(1, 10) / 10, method="inverted_cdf")
        assert np.array_equal(hb.bin_edges_[c], edges)
        index = np.searchsorted(edges, p[:, c])
        np.testing.assert_allclose(hb.bin_values_[c], [(y[index == b] == c).mean() for b in range(10)], atol=1e-13)
    w = np.random.default_rng(1).integers(1, 4, n).astype(float)
    hb = make_calibrator("hb").fit(logits, y, sample_weight=w)
    edges = np.quantile(p[:, 0], np.arange(1, 10) / 10, method="inverted_cdf", weights=w)
    assert np.array_equal(hb.bin_edges_[0], edges)
    even = make_calibrator("hb", strategy="width").fit(logits, y)
    assert even.bin_edges_[1].tolist() == [k / 10 for k in range(1, 10)]


@pytest.mark.parametrize("case", PEERS["cases"], ids=lambda case: case["name"])
def test_peers(case):
    logits, y = np.array(case["logits"], case["dtype"]), np.array(case["labels"])
    peers = case["peers"]
    ts = make_calibrator("ts").fit(logits, y)
    exact = float(exact_temperature(logits, y, ts.temperature_))
    assert ts.temperature_ == pytest.approx(exact, rel=1e-12)
    for peer, temperature in peers["temperature"].items():
        if peer in case["wrong"]:
            assert abs(temperature / exact - 1) > 1e-3, f"{peer} is correct by now: update make_calibrators.py"
        else:
            assert temperature == pytest.approx(exact, rel=2e-3)
    lowest = ts.fit_report_.after
    for temperature in peers["temperature"].values():  # no peer has a lower loss
        assert -log_softmax(logits, 1 / temperature)[np.arange(len(y)), y].mean() >= lowest - 1e-12
    if "platt binning" in peers:
        p = make_calibrator("pbmc", normalise=False).fit(logits, y).predict_proba(logits)
        np.testing.assert_allclose(p, peers["platt binning"], atol=peers["platt binning tolerance"])
