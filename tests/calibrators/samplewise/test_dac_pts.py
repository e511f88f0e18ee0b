"""Parameterized temperature scaling with distances beside logits: its formula, its slopes, its optimum, what it refuses."""

import numpy as np
import pytest

from driftcal.calibrators import make_calibrator
from driftcal.calibrators.kernels.network import network_size, network_start
from driftcal.calibrators.samplewise.dac_pts import network_gradients, network_layers, network_values, top_gaps
from driftcal.errors import InputError


def problem(n=300, n_classes=4):
    """Right near the training data, guessing far from it, and surer of itself than it should be where the margin is small."""
    rng = np.random.default_rng(0)
    far = rng.random(n) < 0.5
    logits = 3 * rng.normal(size=(n, n_classes))
    y = np.where(rng.random(n) < np.where(far, 0.3, 0.95), logits.argmax(axis=1), rng.integers(0, n_classes, n))
    centre = np.where(far[:, None], [0.0, 5.0], [5.0, 0.0])
    return logits, y, centre + rng.normal(size=(n, 2)), rng.normal([5, 0], 1, (100, 2))


def fitted(**options):
    logits, y, features, training = problem()
    return make_calibrator("dac-pts", k=5, **options).fit(logits, y, features=features, reference=training)


def test_slopes_are_those_of_the_values():
    rng = np.random.default_rng(1)
    inputs, hidden = rng.normal(size=(20, 4)), 3
    network = network_start(4, hidden, 0) + 0.3 * rng.normal(size=network_size(4, hidden))
    slopes = network_gradients(inputs, network, hidden)
    for k in range(len(network)):
        step = 1e-6 * np.eye(len(network))[k]
        wanted = (
            network_values(inputs, network + step, hidden) - network_values(inputs, network - step, hidden)
        ) / 2e-6
        np.testing.assert_allclose(slopes[:, k], wanted, atol=1e-8)


def test_temperatures_are_the_formula():
    logits, _, features, training = problem()
    cal = fitted(top=3)
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (features, training))
    distance = np.sort(np.linalg.norm(a[:, None] - b, axis=2), axis=1)[:, 4]
    ordered = np.sort(logits, axis=1)[:, ::-1]
    gaps = np.log1p((ordered[:, :1] - ordered[:, 1:3]) / cal.gap_scale_)
    x = (np.column_stack([gaps, distance]) - cal.input_mean_) / cal.input_spread_
    first, second, last = network_layers(cal.network_, 3, 5)
    for layer in (first, second):
        x = np.tanh(x @ layer[:, :-1].T + layer[:, -1])
    wanted = cal.temperature_ * np.exp(x @ last[:-1] + last[-1])
    np.testing.assert_allclose(cal.temperatures(features, logits), wanted, rtol=1e-4)
    np.testing.assert_allclose(top_gaps(logits, 2), ordered[:, :1] - ordered[:, 1:3])


def test_both_together_beat_either_alone():
    logits, y, features, training = problem()

    def error(cal, *beside):
        return ((cal.predict_proba(logits, *beside) - np.eye(4)[y]) ** 2).sum(axis=1).mean()

    dac = make_calibrator("dac", k=5).fit(logits, y, features=features, reference=training)
    pts = make_calibrator("pts").fit(logits, y)
    both = fitted()
    assert both.fit_report_.after == pytest.approx(error(both, features), rel=1e-6)
    assert error(both, features) < min(error(dac, features), error(pts))


def test_rows_unlike_any_it_was_tuned_on_get_a_temperature_within_what_it_learnt():
    logits, _, features, _ = problem()
    cal = fitted()
    usual = cal.temperatures(features, logits)
    rare = cal.temperatures([[-5.0, -5.0]] * 2, [[1e6, 0, 0, 0], [0, 0, 0, -np.inf]])
    assert np.isfinite(rare).all()
    assert (rare < 20 * usual.max()).all()
    assert (rare > usual.min() / 20).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"top": 1}, "top must be a whole number of at least 2"),
        ({"hidden": 0}, "hidden must be a whole number of at least 1"),
        ({"decay": 0}, "decay must be a positive number"),
        ({"tol": np.inf}, "tol must be a positive number"),
        ({"k": 101}, "from 1 to the 100 rows of reference"),
    ],
)
def test_what_makes_no_sense_is_refused(options, words):
    logits, y, features, training = problem()
    with pytest.raises(InputError, match=words):
        make_calibrator("dac-pts", **options).fit(logits, y, features=features, reference=training)


def test_temperatures_need_logits_too():
    with pytest.raises(InputError, match="looks at logits beside features"):
        fitted().temperatures(problem()[2])


@pytest.mark.parametrize("name", ["pts", "ladder-pts"])
def test_rows_that_the_best_temperature_makes_too_sure_to_learn_from_are_learnt_from(name):
    """Half of the rows are loud and mostly wrong: silencing them would undo the quiet ones, so that T₀ is next to 0 and the
    squared error flat there."""
    rng = np.random.default_rng(0)
    loud, logits = rng.random(600) < 0.5, rng.normal(size=(600, 4))
    wrong = rng.random(600) < np.where(loud, 0.75, 0.05)
    y = np.where(wrong, rng.integers(0, 4, 600), logits.argmax(axis=1))
    cal = make_calibrator(name).fit(np.where(loud, 10, 1)[:, None] * logits, y)
    assert 1 < cal.temperature_ < 100
    sure = cal.predict_proba(np.where(loud, 10, 1)[:, None] * logits).max(axis=1)
    assert sure[loud].mean() < 0.55 < 0.8 < sure[~loud].mean()
