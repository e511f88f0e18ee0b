"""Unchecked samples: the usable ones are used, the others are counted by reason."""

import numpy as np
import pytest

import driftcal
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.reading.stream_batch import StreamBatch
from driftcal.monitor.usable_samples import check_samples


def test_bad_samples_are_counted_and_the_others_used(scenario):
    good, _ = scenario.sample(3)
    monitor = scenario.monitor()
    assert monitor.update(np.vstack([good, [[np.nan, 0, 0], [np.inf, 0, 0], [-np.inf] * 3]])) == 3
    assert monitor.add_batch(StreamBatch(np.zeros((4, 7)))) == 0
    assert monitor.update([["a", "b", "c"]]) == 0
    assert monitor.update([[1.0, 2.0], [1.0]]) == 0
    assert monitor.update(None) == 0
    assert monitor.update(10**400) == 0
    assert monitor.update(good, y=[0, 7, [1]]) == 3
    assert monitor.update(np.zeros((0, 3))) == 0
    assert monitor.update([[5.0, -np.inf, 1.0]]) == 1  # a masked class is fine
    assert monitor.n_samples == 7
    assert monitor.rejected == {
        "not finite": 3, "wrong number of classes": 4, "not numbers": 5, "unknown label": 2,
    }  # fmt: skip
    timed = scenario.monitor()
    assert timed.update(good, times=[0.0, np.nan, 1e300]) == 1
    assert timed.rejected == {"bad time": 2}


def test_probabilities_are_declared_and_checked(scenario):
    logits, _ = scenario.sample(300)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    from_logits, from_p = scenario.monitor(), scenario.monitor(score_type="probabilities")
    from_logits.update(logits)
    assert from_p.update(np.vstack([p, logits[:1] + 10])) == 300
    assert from_p.rejected == {"not probabilities": 1}
    assert from_p.windows()[0].accuracy == pytest.approx(from_logits.windows()[0].accuracy, abs=1e-6)


def test_probabilities_in_a_stream_of_logits_do_not_end_it(scenario):
    """Any client of a listening monitor could end it otherwise, and its journal would end the next start."""
    logits, _ = scenario.sample(300)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    monitor = scenario.monitor()
    assert monitor.add_batch(StreamBatch(p)) == 0
    assert monitor.add_batch(StreamBatch(logits)) == 300
    assert monitor.rejected == {"probabilities in place of logits": 300}
    with pytest.raises(driftcal.errors.LogitsError, match="--score-type probabilities"):
        monitor.update(p)


def test_probabilities_of_zero_are_raised_as_by_the_model(scenario):
    p = np.array([[0.0, 0.0, 1.0], [0.25, 0.75, 0.0], [0.2, 0.3, 0.50001]], np.float32)
    checked = check_samples(p, 3, "probabilities")
    model = driftcal.open_model(lambda batch: batch, outputs="probabilities", name="identity")
    assert checked.usable.all()
    np.testing.assert_array_equal(checked.logits, model.logits(p))
    monitor = scenario.monitor(score_type="probabilities")
    assert monitor.update(p) == 3
    assert 0 < monitor.windows()[0].confidence <= 1


def test_binary_samples_may_be_one_number(scenario):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=500)
    level_logits = [(2 * y - 1) * 2 + noise * rng.normal(size=500) for noise in (1, 3, 9)]
    calibrator = driftcal.TemperatureScaling().fit(np.concatenate(level_logits), np.tile(y, 3), score_type="logits")
    reference = scenario.reference_of(calibrator, level_logits, y)
    one_column, two_columns = (Monitor(calibrator, drift_reference=reference) for _ in range(2))
    one_column.update(level_logits[0])
    two_columns.update(np.stack([np.zeros(500), level_logits[0]], axis=1))
    assert [window.to_dict() for window in one_column.windows()] == [
        window.to_dict() for window in two_columns.windows()
    ]
    assert one_column.n_samples == 500
