"""Calibrators beyond the paper beside independent implementations: scipy's optimisers on losses written out here."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from driftcal.calibrators import make_calibrator


@pytest.fixture(scope="module")
def data():
    """Over-confident logits of a model that is surer of some classes than of others, labels, weights."""
    rng = np.random.default_rng(11)
    logits = rng.normal(size=(1500, 5)) * rng.uniform(0.5, 4, size=(1500, 1))
    truth = softmax(logits * [0.3, 0.5, 0.7, 0.6, 0.4] + [0, 0.4, 0, -0.5, 0.2], axis=1)
    y = (truth.cumsum(axis=1) < rng.random((1500, 1))).sum(axis=1).clip(0, 4)
    return logits, y, rng.uniform(0.2, 2, 1500)


def nll(logits, y, w):
    return -(w * log_softmax(logits, axis=1)[np.arange(len(y)), y]).sum() / w.sum()


def test_hts_is_scipys_optimum(data):
    logits, y, w = data
    p = softmax(logits, axis=1)
    x = np.log(-(p * np.log(p)).sum(axis=1) / np.log(5))

    def loss(line):
        return nll(logits / np.log1p(np.exp(line[0] * x + line[1]))[:, None], y, w)

    wanted = minimize(loss, [0.0, 1.0], method="BFGS", options={"gtol": 1e-7})
    hts = make_calibrator("hts").fit(logits, y, sample_weight=w)
    assert hts.fit_report_.after <= wanted.fun + 1e-9
    np.testing.assert_allclose([hts.slope_, hts.intercept_], wanted.x, atol=2e-4)
    temperature = np.log1p(np.exp(hts.slope_ * x + hts.intercept_))
    np.testing.assert_allclose(hts.temperatures(logits), temperature, rtol=1e-12)
    np.testing.assert_allclose(hts.predict_proba(logits), softmax(logits / temperature[:, None], axis=1), atol=1e-13)
    ts = make_calibrator("ts").fit(logits, y, sample_weight=w)
    assert hts.fit_report_.after < ts.fit_report_.after


def network(pts, logits):
    """The network of PTS in plain numpy."""
    ordered = np.sort(logits, axis=1)[:, ::-1]
    gaps = np.log1p((ordered[:, :1] - ordered[:, 1 : pts.top]) / pts.feature_scale_)
    x = (gaps.clip(pts.feature_low_, pts.feature_high_) - pts.feature_mean_) / pts.feature_spread_
    h, one = pts.hidden, np.ones((len(x), 1))
    first, second, last = np.split(pts.network_, [h * (x.shape[1] + 1), h * (x.shape[1] + 1) + h * (h + 1)])
    x = np.tanh(np.hstack([x, one]) @ first.reshape(h, -1).T)
    x = np.tanh(np.hstack([x, one]) @ second.reshape(h, -1).T)
    return np.hstack([x, one]) @ last


def test_pts_is_the_network_it_says_and_no_nearby_network_is_better(data):
    logits, y, w = data
    w = w * len(w) / w.sum()
    pts = make_calibrator("pts", hidden=3, top=4, tol=1e-12).fit(logits, y, sample_weight=w)
    temperature = pts.temperature_ * np.exp(network(pts, logits))
    np.testing.assert_allclose(pts.temperatures(logits), temperature, rtol=1e-11)
    p = softmax(logits / temperature[:, None], axis=1)
    np.testing.assert_allclose(pts.predict_proba(logits), p, atol=1e-12)
    np.testing.assert_allclose(np.exp(pts.predict_log_proba(logits)), p, atol=1e-12)
    found = pts.network_.copy()
    start = make_calibrator("pts", hidden=3, top=4, tol=1e6).fit(logits, y, sample_weight=w).network_  # not one step

    def loss(weights):
        pts.network_ = weights
        q = softmax(logits / (pts.temperature_ * np.exp(network(pts, logits)))[:, None], axis=1)
        error = (w * ((q - np.eye(5)[y]) ** 2).sum(axis=1)).sum() / w.sum()
        return error + pts.decay / w.sum() * ((weights - start) ** 2).sum()

    away = pts.decay / w.sum() * ((found - start) ** 2).sum()
    assert loss(found) == pytest.approx(pts.fit_report_.after + away, rel=1e-12)
    nearby = minimize(loss, found, method="BFGS", options={"maxiter": 30})
    assert nearby.fun > loss(found) * (1 - 1e-7)
    assert loss(found) < loss(start)
    assert np.abs(start[-4:]).max() == 0  # the start is one temperature for all


def test_pts_learns_a_temperature_that_depends_on_the_row():
    rng = np.random.default_rng(5)
    sharp = rng.normal(size=(4000, 6)) * 3
    temperature = np.where(np.sort(sharp, axis=1)[:, -1] - np.sort(sharp, axis=1)[:, -2] > 2, 3.0, 0.7)
    truth = softmax(sharp / temperature[:, None], axis=1)
    y = (truth.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1).clip(0, 5)
    pts, ts = (make_calibrator(name).fit(sharp, y) for name in ("pts", "ts"))
    error = [np.abs(cal.predict_proba(sharp) - truth).max(axis=1).mean() for cal in (pts, ts)]
    assert error[0] < 0.3 * error[1]
