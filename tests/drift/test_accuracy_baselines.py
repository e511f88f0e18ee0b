"""Published accuracy estimates of the benchmarks: values in closed form, and what each must ignore."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import softmax

from benchmarks.accuracy.accuracy_baselines import (
    ESTIMATORS,
    BiasCorrectedEM,
    CleanSamples,
    ExpectationConsistent,
    mano_score,
    nuclear_norm,
    transport_costs,
)

RNG = np.random.default_rng(0)


def labelled(n: int, signal: float, shares: list[float]) -> tuple[np.ndarray, np.ndarray]:
    labels = RNG.choice(4, n, p=shares)
    logits = RNG.normal(size=(n, 4))
    logits[np.arange(n), labels] += signal
    return signal * logits, labels  # these logits are those of the true posterior, up to the shares


@pytest.fixture(scope="module")
def clean() -> CleanSamples:
    logits, labels = labelled(2000, 3.0, [0.25] * 4)
    shifted = [labelled(2000, signal, [0.25] * 4) for signal in (2.0, 1.2, 0.6)]
    data = SimpleNamespace(
        logits=lambda name: logits,
        labels=lambda name: labels,
        simulated=lambda: (
            np.concatenate([logits, *(z for z, _ in shifted)]),
            np.concatenate([labels, *(y for _, y in shifted)]),
            np.repeat(np.arange(4), 2000),
            [],
        ),
    )
    return CleanSamples(data)


def test_transport_to_the_predicted_shares_costs_the_missing_confidence():
    p = softmax(3 * RNG.normal(size=(60, 3)), axis=1)
    shares = np.bincount(p.argmax(axis=1), minlength=3) / 60
    np.testing.assert_allclose(transport_costs(p, shares), 1 - p.max(axis=1))
    all_of_one_class = np.tile([0.8, 0.1, 0.1], (30, 1))
    np.testing.assert_allclose(transport_costs(all_of_one_class, np.full(3, 1 / 3)).mean(), (0.2 + 0.9 + 0.9) / 3)


def test_norms_of_confident_and_uniform_predictions():
    spread_out = np.eye(4)[np.arange(40) % 4]
    assert nuclear_norm(spread_out) == pytest.approx(1)
    assert nuclear_norm(np.eye(4)[np.zeros(40, int)]) == pytest.approx(0.5)  # confident, without dispersion
    assert nuclear_norm(np.full((40, 4), 0.25)) == pytest.approx(0.25)
    assert mano_score(np.zeros((9, 4))) == pytest.approx(0.25)
    assert mano_score(100 * spread_out) == pytest.approx(0.25**0.25, rel=1e-6)  # mean of q^4 is 1/4


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_estimates_are_near_on_clean_windows_and_fall_under_shift(name, clean):
    estimate = ESTIMATORS[name](clean, 400, 0)
    window, labels = labelled(400, 3.0, [0.25] * 4)
    assert estimate(window) == pytest.approx(np.mean(window.argmax(axis=1) == labels), abs=0.08)
    assert estimate(labelled(400, 0.8, [0.25] * 4)[0]) < estimate(window) - 0.05
    p = ExpectationConsistent(clean, estimate).predict(window)
    assert p.max(axis=1).mean() == pytest.approx(estimate(window), abs=1e-3)


def test_expectation_maximisation_finds_the_class_shares(clean):
    shares = [0.7, 0.1, 0.1, 0.1]
    window, labels = labelled(3000, 1.5, shares)
    em = BiasCorrectedEM(1.0, np.zeros(4), np.full(4, 0.25))
    np.testing.assert_allclose(em.predict(window).mean(axis=0), np.bincount(labels) / 3000, atol=0.03)
    fitted = BiasCorrectedEM.fit(clean)
    assert fitted.beta == pytest.approx(1.0, abs=0.1)
    np.testing.assert_allclose(fitted.shares, clean.shares, atol=1e-3)  # where the gradient in the biases is 0
