"""Times of any kind, incorrect clocks, and streams in which some samples have no time."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from driftcal.errors import InputError
from driftcal.monitor.clock import seconds, watermark
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.reading.stream_batch import StreamBatch
from driftcal.monitor.reading.stream_reader import file_batches
from driftcal.monitor.serving.service import MonitorService

DAY = 1_767_225_600  # 2026-01-01


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"])
def test_dates_of_any_unit_are_seconds(scenario, tmp_path, unit):
    begin = {"W": DAY - DAY % 604_800, "ps": 3600, "fs": 3600, "as": 0}.get(unit, DAY)  # ps end in April 1970
    date = np.datetime64(begin, "s")
    if unit == "as":  # numpy itself cannot convert them: they end after nine seconds
        date = np.datetime64(5 * 10**18, "as")
    times = np.array([date.astype(f"datetime64[{unit}]"), np.datetime64("NaT", unit)])
    logits, _ = scenario.sample(2)
    np.savez(tmp_path / "samples.npz", logits=logits, time=times)
    (batch,) = file_batches(tmp_path / "samples.npz", "logits")
    np.testing.assert_array_equal(batch.times, [5 if unit == "as" else begin, np.nan])
    monitor = scenario.monitor(window_size=3600)
    assert monitor.update(logits, times=times) == 1
    assert monitor.windows()[0].begin == begin // 3600 * 3600
    assert monitor.rejected == {"bad time": 1}


def test_dates_of_no_year_are_no_times(scenario):
    monitor = scenario.monitor(window_size=3600)
    times = np.array([2**62, 56], "int64").view("datetime64[Y]")
    assert monitor.update(scenario.sample(2)[0], times=times) == 1
    assert (monitor.windows()[0].begin, monitor.rejected) == (DAY, {"bad time": 1})


def test_python_dates_are_seconds(scenario):
    east = timezone(timedelta(hours=1))
    assert seconds(datetime(2026, 1, 1)) == DAY  # naive: UTC, as ISO 8601 without a zone
    assert seconds(datetime(2026, 1, 1, 1, tzinfo=east)) == DAY
    assert seconds(datetime(2026, 1, 1).date()) == DAY
    assert seconds(np.datetime64("2026-01-01")) == DAY
    monitor = scenario.monitor(window_size=3600)
    logits, _ = scenario.sample(3)
    assert monitor.update(logits, times=[datetime(2026, 1, 1, tzinfo=UTC), DAY + 1, None]) == 2
    assert monitor.update(logits, times=datetime(2026, 1, 1, tzinfo=UTC)) == 3
    assert [(w.begin, w.n_samples) for w in monitor.windows()] == [(DAY, 5)]
    with pytest.raises(InputError, match="one time"):
        monitor.update(logits, times=[1, 2])


@pytest.mark.parametrize("first", [False, True])
def test_one_sample_from_the_future_ends_no_window(scenario, first):
    sample = scenario.sample(1)[0]
    batches = [StreamBatch(sample, [float(at)]) for at in range(0, 300, 2)]
    batches.insert(0 if first else 20, StreamBatch(sample, [4e9]))
    monitor = scenario.monitor(window_size=100)
    reported = []
    for window in MonitorService(monitor).run(iter(batches)):
        reported.append((window.begin, window.n_samples))
    assert reported == [(0, 50), (100, 50), (200, 50), (4e9, 1)]
    assert monitor.summary().newest == 2


def test_a_long_pause_is_no_incorrect_clock(scenario):
    sample = scenario.sample(1)[0]
    times = [*range(0, 100, 2), *range(10**6, 10**6 + 300, 2)]
    reported = [
        (w.begin, w.n_samples)
        for w in MonitorService(scenario.monitor(window_size=100)).run(StreamBatch(sample, [float(at)]) for at in times)
    ]
    assert reported == [(0, 50), (10**6, 50), (10**6 + 100, 50), (10**6 + 200, 50)]


def test_the_watermark_ignores_few_samples_far_ahead():
    def windows(**counts):
        return {int(key[1:]): np.array([n]) for key, n in counts.items()}

    assert watermark({}) is None
    assert watermark(windows(w3=1)) == 3
    assert watermark(windows(w3=1, w4=0)) == 3  # a window of labels only
    assert watermark(windows(w3=9, w1003=1)) == 1003
    assert watermark(windows(w3=9, w1004=1)) == 3
    assert watermark(windows(w3=9, w5000=1, w5001=2, w9000=1)) == 3
    assert watermark(windows(w3=9, w5000=49, w5001=1, w9000=1)) == 5001
    assert watermark(windows(w3=9, w5000=50)) == 5000


def test_samples_with_and_without_time_are_not_mixed(scenario, tmp_path):
    logits, _ = scenario.sample(5)
    timed, counted = scenario.monitor(window_size=10), scenario.monitor(window_size=10)
    assert timed.update(logits, times=DAY) == 5
    assert timed.update(logits) == 0
    again = Monitor.load(
        timed.save(tmp_path / "m.safetensors"), scenario.calibrator, drift_reference=scenario.drift_reference
    )
    assert again.update(logits) == 0
    assert again.rejected == {"no time": 10}
    assert counted.update(logits) == 5
    assert counted.update(logits, times=np.arange(5)) == 0
    assert counted.rejected == {"unexpected time": 5}
    assert counted.update(logits) == 5
    with pytest.raises(InputError, match="both have samples with times"):
        timed.merge(counted)
    assert scenario.monitor(window_size=10).merge(timed).timed is True
