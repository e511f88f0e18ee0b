"""Parameterized temperature scaling with distances: its formula, its gradient, its optimum, and refused inputs."""

import numpy as np
import pytest

from driftcal.calibrators import make_calibrator
from driftcal.calibrators.samplewise.margins import write_all_margins
from driftcal.calibrators.samplewise.network import (
    initial_network,
    network_gradient,
    network_layers,
    network_size,
    network_value,
    network_values,
)
from driftcal.errors import InputError


def problem(n=300, n_classes=4):
    """Mostly correct near the training data, at chance far from it, over-confident where the margin is small."""
    rng = np.random.default_rng(0)
    far = rng.random(n) < 0.5
    logits = 3 * rng.normal(size=(n, n_classes))
    y = np.where(rng.random(n) < np.where(far, 0.3, 0.95), logits.argmax(axis=1), rng.integers(0, n_classes, n))
    centre = np.where(far[:, None], [0.0, 5.0], [5.0, 0.0])
    return logits, y, centre + rng.normal(size=(n, 2)), rng.normal([5, 0], 1, (100, 2))


def fitted(**options):
    logits, y, features, training = problem()
    return make_calibrator("dac-pts", k=5, **options).fit(logits, y, features=features, reference=training)


def values(inputs, network, hidden):
    out = np.empty(len(inputs))
    network_values(inputs, hidden, network, out)
    return out


def test_the_gradient_is_that_of_the_values():
    rng = np.random.default_rng(1)
    inputs, hidden = rng.normal(size=(20, 4)), 3
    network = initial_network(4, hidden, 0) + 0.3 * rng.normal(size=network_size(4, hidden))
    gradients, first, second = np.empty((20, len(network))), np.empty(hidden), np.empty(hidden)
    for x, gradient in zip(inputs, gradients, strict=True):
        network_value(x, hidden, network, first, second)
        network_gradient(hidden, network, x, first, second, gradient)
    for k in range(len(network)):
        step = 1e-6 * np.eye(len(network))[k]
        expected = (values(inputs, network + step, hidden) - values(inputs, network - step, hidden)) / 2e-6
        np.testing.assert_allclose(gradients[:, k], expected, atol=1e-8)


def test_temperatures_are_the_formula():
    logits, _, features, training = problem()
    cal = fitted(top=3)
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (features, training))
    distance = np.sort(np.linalg.norm(a[:, None] - b, axis=2), axis=1)[:, 4]
    ordered = np.sort(logits, axis=1)[:, ::-1]
    margins = np.log1p((ordered[:, :1] - ordered[:, 1:3]) / cal.margin_scale_)
    x = (np.column_stack([margins, distance]) - cal.input_mean_) / cal.input_std_
    *hidden, (last, constant) = network_layers(cal.network_, 3, 5)
    for weights, constants in hidden:
        x = np.tanh(x @ weights + constants)
    expected = cal.temperature_ * np.exp((x @ last + constant)[:, 0])
    np.testing.assert_allclose(cal.temperatures(features, logits), expected, rtol=1e-4)
    written = np.empty((len(logits), 2))
    write_all_margins(logits, written)
    np.testing.assert_allclose(written, ordered[:, :1] - ordered[:, 1:3])


def test_both_together_beat_either_alone():
    logits, y, features, training = problem()

    def error(cal, **extra):
        return ((cal.predict_proba(logits, **extra) - np.eye(4)[y]) ** 2).sum(axis=1).mean()

    dac = make_calibrator("dac", k=5).fit(logits, y, features=features, reference=training)
    pts = make_calibrator("pts").fit(logits, y)
    both = fitted()
    assert both.fit_report_.after == pytest.approx(error(both, features=features), rel=1e-6)
    assert error(both, features=features) < min(error(dac, features=features), error(pts))


def test_samples_unlike_the_tuning_samples_get_a_temperature_near_the_learnt_range():
    logits, _, features, _ = problem()
    cal = fitted()
    usual = cal.temperatures(features, logits)
    rare = cal.temperatures([[-5.0, -5.0]] * 2, [[1e6, 0, 0, 0], [0, 0, 0, -np.inf]])
    assert np.isfinite(rare).all()
    assert (rare < 20 * usual.max()).all()
    assert (rare > usual.min() / 20).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 1}, "top must be a whole number of at least 2"),
        ({"hidden": 0}, "hidden must be a whole number of at least 1"),
        ({"decay": 0}, "decay must be a positive number"),
        ({"tol": np.inf}, "tol must be a positive number"),
        ({"k": 101}, "at most the 100 samples of reference"),
    ],
)
def test_unusable_parameters_are_refused(options, message):
    logits, y, features, training = problem()
    with pytest.raises(InputError, match=message):
        make_calibrator("dac-pts", **options).fit(logits, y, features=features, reference=training)


def test_temperatures_need_logits_too():
    with pytest.raises(InputError, match="reads logits and features; there are no logits"):
        fitted().temperatures(problem()[2])


def test_training_starts_from_the_temperature_of_ts_if_the_best_one_saturates():
    """Half of the samples have large logits and are mostly incorrect: T₀ is almost 0, and the error is flat there."""
    rng = np.random.default_rng(0)
    is_large, logits = rng.random(600) < 0.5, rng.normal(size=(600, 4))
    incorrect = rng.random(600) < np.where(is_large, 0.75, 0.05)
    y = np.where(incorrect, rng.integers(0, 4, 600), logits.argmax(axis=1))
    cal = make_calibrator("pts").fit(np.where(is_large, 10, 1)[:, None] * logits, y)
    assert 1 < cal.temperature_ < 100
    confidence = cal.predict_proba(np.where(is_large, 10, 1)[:, None] * logits).max(axis=1)
    assert confidence[is_large].mean() < 0.55 < 0.8 < confidence[~is_large].mean()
