"""The state of a window follows from the perturbation levels."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

import driftcal
from driftcal.monitor.alarm_rule import largest_clean_distance
from driftcal.monitor.monitor import Monitor


def test_states_follow_the_levels(scenario):
    monitor = scenario.monitor(window_size=500)
    for noise in (1.0, 2.2, 20.0):
        monitor.update(scenario.sample(500, noise)[0])
    first, second, third = monitor.windows()
    assert (first.state, second.state, third.state) == ("ok", "inputs shifted", "out of distribution")
    assert first.nearest_level == "level 1 of 6 (clean)"
    assert second.nearest_level in ("level 3 of 6", "level 4 of 6")
    assert first.accuracy > second.accuracy > third.accuracy
    assert monitor.summary().state == "out of distribution"
    assert monitor.summary().since == 2


def test_without_enough_samples_or_a_reference_the_state_is_cannot_tell(scenario):
    small = scenario.monitor(window_size=1000)
    small.update(scenario.sample(20)[0])
    assert small.windows()[0].state == "cannot tell"
    assert "too few" in small.windows()[0].reason
    without_reference = Monitor(scenario.calibrator)
    without_reference.update(scenario.sample(500)[0])
    assert without_reference.windows()[0].state == "cannot tell"
    assert without_reference.windows()[0].accuracy is None
    assert "tune again" in without_reference.windows()[0].reason


def test_the_scale_is_reversed_for_a_model_that_grows_more_confident_under_noise(scenario):
    level_logits = [z * noise**4 for z, noise in zip(scenario.level_logits, scenario.noises, strict=True)]
    reference = scenario.reference_of(scenario.calibrator, level_logits)
    assert reference.means[-1][2] > reference.means[0][2]
    monitor = Monitor(scenario.calibrator, drift_reference=reference, estimator="level-matching")
    monitor.update(level_logits[0][:500])
    monitor.update(level_logits[3][:500])
    clean, shifted = monitor.windows()
    assert (clean.state, shifted.state) == ("ok", "cannot tell")  # ATC and DoC estimate no loss
    assert shifted.nearest_level == "level 4 of 6"
    assert shifted.accuracy == pytest.approx(reference.accuracies[3], abs=0.05)


def test_contradicting_estimators_are_reported(scenario):
    level_logits = [z * 1e4 for z in scenario.level_logits]
    confident = driftcal.make_calibrator("base").fit(level_logits[0], scenario.y)  # confidence 1 everywhere
    monitor = Monitor(confident, drift_reference=scenario.reference_of(confident, level_logits))
    monitor.update(scenario.sample(500, 20.0)[0] * 1e4)
    (window,) = monitor.windows()
    assert window.state == "cannot tell"
    assert "contradict" in window.reason
    assert "half-way to chance" in window.reason


@pytest.mark.parametrize("noise", [1.0, 1.6, 3.0])
def test_estimates_are_near_the_true_accuracy(scenario, noise):
    logits, y = scenario.sample(4000, noise, seed=5)
    monitor = scenario.monitor(window_size=4000)
    monitor.update(logits)
    (window,) = monitor.windows()
    accuracy = (logits.argmax(axis=1) == y).mean()
    assert abs(window.estimates["level-matching"] - accuracy) < 0.03
    assert window.accuracy_interval[0] <= accuracy <= window.accuracy_interval[1]
    assert window.overconfidence == pytest.approx(window.confidence - window.accuracy)
    assert sum(window.class_shares) == pytest.approx(1)


def test_label_free_numbers_are_those_of_their_definitions(scenario):
    logits, _ = scenario.sample(700, 2.2)
    monitor = scenario.monitor(window_size=700)
    monitor.update(logits)
    (window,) = monitor.windows()
    calibrated = scenario.calibrator.predict_proba(logits)
    assert window.confidence == pytest.approx(calibrated.max(axis=1).mean(), abs=1e-9)
    assert window.estimates["confidence"] == window.confidence
    assert window.low_confidence_share == (calibrated.max(axis=1) < 0.5).mean()
    np.testing.assert_array_equal(window.class_shares, np.bincount(calibrated.argmax(axis=1), minlength=3) / 700)
    p = np.exp(logits / scenario.drift_reference.temperature)
    p /= p.sum(axis=1, keepdims=True)
    negative_entropy = 1 + (p * np.log(p)).sum(axis=1) / np.log(3)
    assert window.estimates["atc"] == (negative_entropy >= scenario.drift_reference.threshold).mean()
    loss = scenario.drift_reference.means[0][1] - p.max(axis=1).mean()
    assert window.estimates["doc"] == pytest.approx(scenario.drift_reference.accuracies[0] - loss, abs=1e-9)


def test_the_interval_accounts_for_few_validation_samples(scenario):
    covered = []
    for run in range(60):
        y, level_logits = scenario.draw(300, scenario.noises, seed=[1, run])
        calibrator = driftcal.TemperatureScaling().fit(np.concatenate(level_logits), np.tile(y, len(level_logits)))
        reference = scenario.reference_of(calibrator, level_logits, y)
        monitor = Monitor(calibrator, drift_reference=reference, window_size=5000)
        true, (logits,) = scenario.draw(5000, (1.0,), seed=[2, run])
        monitor.update(logits)
        low, high = monitor.windows()[0].accuracy_interval
        covered.append(low <= (logits.argmax(axis=1) == true).mean() <= high)
    assert np.mean(covered) > 0.9  # 0.65 with the sampling error of the window alone


def test_the_class_mix_is_compared_without_a_windowed_form_too(scenario):
    logits, y = scenario.sample(5000)
    monitor = scenario.monitor(window_size=500)
    monitor.update(logits[np.argsort(y, kind="stable")][:1000])
    assert [window.state for window in monitor.windows()] == ["class mix changed"] * 2


def test_the_distance_of_clean_windows_has_the_moments_of_their_covariance(scenario):
    shares = np.array(scenario.drift_reference.class_shares)
    covariance = np.diag(shares) - np.outer(shares, shares)
    first, second, third = (np.trace(np.linalg.matrix_power(covariance, k)) for k in (1, 2, 3))
    degrees = second**3 / third**2

    def quantile(rate):
        return first + (chi2.isf(rate, degrees) - degrees) * np.sqrt(second / degrees)

    expected = np.sqrt(quantile(0.01) / 200) + np.sqrt(quantile(0.01) / scenario.drift_reference.n_samples)
    assert largest_clean_distance(scenario.drift_reference, 200, 0.01) == pytest.approx(expected)
    one_class = replace(scenario.drift_reference, class_shares=(1.0, 0.0, 0.0))
    assert largest_clean_distance(one_class, 200, 0.01) == np.inf
