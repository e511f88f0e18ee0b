"""Where the accuracy cannot be estimated closely: what was seen is in the state, and labels decide."""

from dataclasses import replace

import numpy as np
import pytest

import driftcal
from driftcal.errors import InputError, LogitsError
from driftcal.monitor.alarm_rule import ALARMS, SEVERITY, STATES
from driftcal.monitor.monitor import Monitor
from driftcal.report.timeline import timeline_html


@pytest.fixture(scope="module")
def uncertain(scenario):
    """A monitored calibrator whose regression was far off on shifts that were left out, as on many tables."""
    opened = scenario.windowed()
    opened.windowed.error_ = 12.0
    return opened


@pytest.fixture(scope="module")
def clean_only(scenario):
    """What `fit` writes: clean samples without levels."""
    calibrator = driftcal.TemperatureScaling().fit(scenario.level_logits[0], scenario.y)
    return {"calibrator": calibrator, "drift_reference": scenario.reference_of(calibrator, scenario.level_logits[:1])}


def one_window(source, logits, y=None, **settings):
    source = source if isinstance(source, dict) else {"calibrator": source}
    monitor = Monitor(**source, window_size=len(logits), **settings)
    monitor.update(logits, y=y)
    (window,) = monitor.windows()
    return window, monitor.summary().recommendation


def of_classes(scenario, shares, n=500):
    """Clean samples with other class shares."""
    logits, y = scenario.sample(20 * n, seed=3)
    weights = np.array(shares)[y]
    chosen = np.random.default_rng(0).choice(len(y), n, p=weights / weights.sum())
    return logits[chosen], y[chosen]


def test_states_are_listed_once():
    assert sorted(STATES) == sorted(SEVERITY)
    assert set(STATES) - set(ALARMS) == {"ok", "no change seen", "cannot tell"}


@pytest.mark.parametrize("n", [100, 500, 2000])
def test_a_clean_window_has_no_change_and_the_clean_level(scenario, uncertain, n):
    window, advice = one_window(uncertain, scenario.sample(n)[0])
    low, high = window.accuracy_interval
    assert window.state == "no change seen"
    assert window.reason == (
        "entropy and class mix as on clean samples; the accuracy cannot be estimated closely: "
        f"between {low:.2f} and {high:.2f}"
    )
    assert (window.level, window.nearest_level) == (0, "level 1 of 6 (clean)")
    assert advice == f"No change is seen: {window.reason}. Collect labels to measure it."


def test_an_alarm_of_the_entropy_is_not_hidden_by_a_wide_interval(scenario, uncertain):
    shifted, advice = one_window(uncertain, scenario.sample(500, 2.2)[0])
    low, high = shifted.accuracy_interval
    assert low < uncertain.drift_reference.halfway_to_chance < uncertain.drift_reference.accuracies[0] < high
    assert shifted.state == "inputs shifted"
    assert "mean entropy differs from clean validation samples" in shifted.reason
    assert advice.startswith("The inputs have shifted.")
    assert shifted.nearest_level in ("level 3 of 6", "level 4 of 6")
    out, _ = one_window(uncertain, scenario.sample(500, 20.0)[0])
    assert out.state == "out of distribution"


def test_a_class_mix_with_a_wide_interval_says_that_the_accuracy_is_not_known(scenario, uncertain):
    window, advice = one_window(uncertain, of_classes(scenario, (0.45, 0.35, 0.2), 1500)[0])
    assert window.state == "class mix changed"
    assert "the accuracy cannot be estimated closely: between" in window.reason
    assert "estimated accuracy has not" not in advice


def test_labels_decide_where_the_estimate_cannot(scenario, uncertain):
    logits, y = scenario.sample(500)
    correct, _ = one_window(uncertain, logits, y)
    assert correct.state == "ok"
    assert "measured on 500 labels" in correct.reason
    few, advice = one_window(uncertain, logits, [int(label) if i < 10 else None for i, label in enumerate(y)])
    assert few.state == "no change seen"
    assert "Collect more labels" in advice
    wrong = np.where(np.arange(500) < 150, (y + 1) % 3, y)
    lost, advice = one_window(uncertain, logits, wrong)
    share = (logits.argmax(axis=1) == wrong).mean()
    assert (lost.state, lost.accuracy_lost, correct.accuracy_lost) == ("inputs shifted", True, False)
    assert f"accuracy {share:.2f} measured on 500 labels, below" in lost.reason
    assert advice.startswith(f"The accuracy has fallen: {lost.reason}. Inspect the inputs.")
    broken, advice = one_window(uncertain, logits, (y + 1) % 3)
    assert broken.state == "out of distribution"
    assert "half-way to chance" in broken.reason
    assert "Do not trust the predictions. Inspect the inputs. If they stay like this, pass the labels" in advice
    assert "windowed form" not in advice


def test_labels_disagree_with_narrow_estimates_only(scenario, uncertain):
    logits, y = scenario.sample(500)
    narrow, _ = one_window(scenario.windowed(), logits, (y + 1) % 3)
    assert narrow.state == "labels disagree"
    wide, _ = one_window(uncertain, logits, (y + 1) % 3)
    assert wide.state == "out of distribution"


def test_labels_of_shifted_inputs_keep_the_alarm(scenario, uncertain):
    logits, _ = scenario.sample(500, 2.2)
    window, _ = one_window(uncertain, logits, logits.argmax(axis=1))  # all correct
    assert window.state == "inputs shifted"
    assert "accuracy 1.00 measured on 500 labels" in window.reason


def test_labels_of_clean_windows_raise_as_few_alarms_as_stated(scenario, uncertain):
    rate, rng, alarms = 0.03, np.random.default_rng(5), []
    logits, y = scenario.sample(20_000, seed=8)
    for _ in range(300):
        chosen = rng.integers(len(y), size=200)
        monitor = Monitor(uncertain, window_size=200, false_alarm_rate=rate)
        monitor.update(logits[chosen], y=y[chosen])
        alarms.append(monitor.windows()[0].state in ALARMS)
    assert np.mean(alarms) <= rate
    few = replace(
        uncertain.drift_reference, n_samples=100
    )  # the clean accuracy is less certain: no loss of 0.05 is seen
    correct = logits.argmax(axis=1) == y
    labels = np.where(correct, y, (logits.argmax(axis=1) + 1) % 3)[:2000]
    labels[np.flatnonzero(correct[:2000])[:100]] = (labels[np.flatnonzero(correct[:2000])[:100]] + 1) % 3
    of_many, _ = one_window(uncertain, logits[:2000], labels)
    of_few, _ = one_window(replace(uncertain, drift_reference=few), logits[:2000], labels)
    assert (of_many.accuracy_lost, of_few.accuracy_lost) == (True, False)


def test_without_levels_entropy_and_class_mix_are_tested(scenario, clean_only):
    clean, advice = one_window(clean_only, scenario.sample(500)[0])
    assert clean.state == "no change seen"
    assert clean.estimator == "confidence"
    assert clean.accuracy == clean.confidence
    assert "fitted on clean samples only" in clean.reason
    assert (clean.level, clean.nearest_level) == (None, None)
    assert "Collect labels" in advice
    assert one_window(clean_only, scenario.sample(500, 2.2)[0])[0].state == "inputs shifted"
    assert one_window(clean_only, of_classes(scenario, (0.6, 0.2, 0.2))[0])[0].state == "class mix changed"
    logits, y = scenario.sample(500)
    assert one_window(clean_only, logits, y)[0].state == "ok"
    assert one_window(clean_only, logits, (y + 1) % 3)[0].state == "out of distribution"


def test_a_file_of_fit_is_monitored_with_its_type_of_scores(scenario, tmp_path):
    logits, y = scenario.sample(800)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    fitted = driftcal.fit(p, y, score_type="probabilities", method="ts")
    path = fitted.save(tmp_path / "s.safetensors")
    for source in (path, fitted, driftcal.CalibratedModel.load(path)):
        monitor = Monitor(source)
        assert monitor.settings.score_type == "probabilities"
        assert monitor.update(p[:500]) == 500
        assert monitor.windows()[0].state == "no change seen"
    with pytest.raises(LogitsError, match="--score-type probabilities"):
        Monitor(path, score_type="logits").update(p[:500])
    assert Monitor(driftcal.fit(logits, y, method="ts")).settings.score_type == "logits"


def test_a_wrong_number_of_columns_is_an_error_of_the_call(scenario):
    monitor = scenario.monitor()
    for scores in (np.zeros((4, 2)), np.zeros((4, 7)), [0.0, 1.0], np.zeros((2, 2, 3))):
        with pytest.raises(InputError, match="scores must have a column for each of the calibrator's 3 classes"):
            monitor.update(scores)
    assert (monitor.n_samples, dict(monitor.rejected)) == (0, {})


def test_the_page_shows_a_calm_strip(scenario, uncertain):
    monitor = Monitor(uncertain)
    monitor.update(scenario.sample(1500)[0])
    page = timeline_html(monitor, title="m")
    assert "No change is seen in the newest window; its accuracy cannot be estimated closely." in page
    assert page.count('<rect class="s-no-change-seen"') == 3
    assert ".s-no-change-seen { fill: var(--s0)" not in page


def test_a_made_table_without_a_close_estimate(tmp_path):
    """A default `tune` on a table with five classes: shuffled columns are seen, clean windows raise nothing."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(8, 5))
    x = rng.normal(size=(2600, 8))
    y = (1.5 * x @ weights + 2 * rng.gumbel(size=(2600, 5))).argmax(axis=1)
    model = driftcal.open_model(lambda batch: 0.75 * np.asarray(batch) @ weights, outputs="logits", name="linear")
    tuned = driftcal.tune(model, x[:600], y[:600], method="window-ts", n_levels=4)
    monitor = Monitor(tuned.save(tmp_path / "cal.safetensors"))
    clean, damaged = x[600:], x[600:].copy()
    damaged[:, :4] = 0
    monitor.update(tuned.logits(clean.astype(np.float32)))
    monitor.update(tuned.logits(damaged.astype(np.float32)), y=y[600:])
    states = [window.state for window in monitor.windows()]
    assert set(states[:4]) <= {"ok", "no change seen"}
    assert set(states[4:]) <= {"inputs shifted", "out of distribution", "labels disagree"}
    assert all(window.nearest_level.endswith("(clean)") for window in monitor.windows()[:4])
