"""exp and log are exact to about one ulp, and softmax is exact for extreme logits."""

from concurrent.futures import ThreadPoolExecutor

import mpmath
import numpy as np
import pytest
from scipy.special import log_softmax as scipy_log_softmax
from scipy.special import softmax as scipy_softmax
from threadpoolctl import threadpool_info, threadpool_limits

from driftcal.core import numerics
from driftcal.core.numerics import log_odds_row, log_softmax, softmax
from driftcal.core.optimize import minimise_lbfgs

mpmath.mp.dps = 40


def ulps(value, exact):
    return float(abs(value - exact) / mpmath.mpf(float(np.spacing(float(exact)))))


def test_exp_and_log_are_exact_to_about_one_ulp():
    rng = np.random.default_rng(0)
    for x in [*-(10.0 ** rng.uniform(-18, 2.84, 600)), -0.0, -1e-300, -708.0, -1.5 * np.log(2), -np.log(2) / 2]:
        assert ulps(numerics.exp(x), mpmath.exp(mpmath.mpf(float(x)))) <= 1.5
    for x in [*10.0 ** rng.uniform(-300, 300, 600), 1.0, *(1 + rng.normal(size=200) * 1e-6), 2**0.5, 0.5**0.5]:
        assert ulps(numerics.log(x), mpmath.log(mpmath.mpf(float(x)))) <= 2 or abs(numerics.log(x)) < 1e-300


def test_exp_of_negative_numbers_is_at_most_1_and_underflows_to_0():
    assert numerics.exp(0.0) == 1.0
    assert all(numerics.exp(-(2.0**-k)) <= 1.0 for k in range(70))
    assert 0 < numerics.exp(-745.0) < 1e-322
    assert [numerics.exp(x) for x in (-746.0, -1e4, -1e300, numerics.MASKED)] == [0.0] * 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3, 7, 8, 9, 31, 1000])
def test_softmax_equals_that_of_scipy(n_classes, dtype):
    z = (np.random.default_rng(0).normal(size=(13, n_classes)) * 8).astype(dtype)
    for scale in (1.0, 0.03, 7.5):
        wide = scale * (z.astype(float) - z.astype(float).max(axis=1, keepdims=True))
        np.testing.assert_allclose(softmax(z, scale), scipy_softmax(wide, axis=1), rtol=2e-13, atol=1e-320)
        np.testing.assert_allclose(log_softmax(z, scale), scipy_log_softmax(wide, axis=1), rtol=1e-14, atol=1e-15)


def test_log_odds_do_not_cancel():
    rows = np.array([[0.0, -1e-9, -40.0], [800.0, 0.0, -5.0], [5.0, 5.0, 5.0], [1e4, -1e4, 0.0], [-np.inf, 1.0, 0.5]])
    for row in rows:
        log_odds = np.empty(3)
        log_odds_row(row, log_odds)
        for c in range(3):
            others = [mpmath.mpf(float(v)) for k, v in enumerate(row) if k != c and v > -np.inf]
            if row[c] == -np.inf:
                assert log_odds[c] == numerics.MASKED
                continue
            exact = mpmath.mpf(float(row[c])) - mpmath.log(mpmath.fsum(mpmath.exp(v) for v in others))
            assert abs(log_odds[c] - exact) <= 1e-14 * max(1, abs(exact))
    single = np.empty(3)
    log_odds_row(np.array([-np.inf, 2.0, -np.inf]), single)
    assert single.tolist() == [numerics.MASKED, -numerics.MASKED, numerics.MASKED]


def test_lbfgs_limits_blas_to_one_thread_and_restores_the_limit():
    def blas():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    thread_counts, before = [], blas()

    def bowl(x):
        thread_counts.append(blas())
        return float(x @ x) / 2, x

    def minimise(k):
        return minimise_lbfgs(bowl, np.full(3, 1.0 + k), np.ones(3), "a bowl").x

    with threadpool_limits(2, user_api="blas"):
        assert np.abs(minimise(1)).max() < 1e-9
        assert thread_counts == [{1}] * len(thread_counts)
        assert blas() == {2}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(minimise, range(12)))
    assert blas() == before
