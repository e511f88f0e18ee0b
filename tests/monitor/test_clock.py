"""Times of any kind, clocks that are wrong, and streams where some rows have none."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from driftcal.errors import InputError
from driftcal.monitor.clock import front, seconds
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.prometheus import prometheus_text
from driftcal.monitor.stream import Batch, file_batches
from driftcal.monitor.watch import Watch
from driftcal.report.timeline import timeline_html

DAY = 1_767_225_600  # 2026-01-01


@pytest.mark.parametrize("unit", ["Y", "D", "h", "s", "ms", "us", "ns", "ps"])
def test_dates_of_any_unit_are_seconds(world, tmp_path, unit):
    at = np.array(["2026-01-01", "NaT"], "datetime64[s]").astype(f"datetime64[{unit}]")
    if unit == "ps":  # which ends in April 1970
        at, begin = np.array([3600, "NaT"], "datetime64[s]").astype("datetime64[ps]"), 3600
    else:
        begin = DAY
    logits, _ = world.sample(2)
    np.savez(tmp_path / "rows.npz", logits=logits, time=at)
    (batch,) = file_batches(tmp_path / "rows.npz", "logits")
    np.testing.assert_array_equal(batch.at, [begin, np.nan])
    monitor = world.monitor(every=3600)
    assert monitor.update(logits, at=at) == 1
    assert monitor.windows()[0].begin == begin
    assert monitor.rejected == {"bad time": 1}


def test_dates_of_python(world):
    east = timezone(timedelta(hours=1))
    assert seconds(datetime(2026, 1, 1)) == DAY  # naive: UTC, as ISO 8601 without a zone
    assert seconds(datetime(2026, 1, 1, 1, tzinfo=east)) == DAY
    assert seconds(datetime(2026, 1, 1).date()) == DAY
    assert seconds(np.datetime64("2026-01-01")) == DAY
    monitor = world.monitor(every=3600)
    logits, _ = world.sample(3)
    assert monitor.update(logits, at=[datetime(2026, 1, 1, tzinfo=UTC), DAY + 1, None]) == 2
    assert monitor.update(logits, at=datetime(2026, 1, 1, tzinfo=UTC)) == 3
    assert [(w.begin, w.rows) for w in monitor.windows()] == [(DAY, 5)]
    with pytest.raises(InputError, match="one time"):
        monitor.update(logits, at=[1, 2])


def test_a_window_that_has_just_begun_does_not_hide_the_state(world):
    monitor = world.monitor(every=500)
    monitor.update(world.sample(1000, 20.0)[0])
    before = monitor.summary()
    monitor.update(world.sample(7)[0])
    summary = monitor.summary()
    assert (summary.state, summary.newest, summary.since) == ("out of distribution", 1, 0)
    assert (before.state, before.since) == (summary.state, summary.since)
    assert summary.recommendation == before.recommendation
    windows, plain = [w.to_dict() for w in monitor.windows()], summary.to_dict()
    for text in (Watch(monitor).figures(), prometheus_text(windows, plain, monitor.class_names)):
        assert "driftcal_window_rows 500.0" in text
    share = f"{windows[1]['shares'][0]:.3f}"
    assert f"<td><bdi>a</bdi></td><td>{share}</td>" in timeline_html(windows, plain, title="m", class_names="abc")
    few = world.monitor()
    few.update(world.sample(7)[0])
    assert (few.summary().state, few.summary().newest) == ("cannot tell", 0)


@pytest.mark.parametrize("first", [False, True])
def test_one_row_from_the_future_ends_no_window(world, first):
    row = world.sample(1)[0]
    batches = [Batch(row, [float(at)]) for at in range(0, 300, 2)]
    batches.insert(0 if first else 20, Batch(row, [4e9]))
    monitor = world.monitor(every=100)
    told = []
    for window in Watch(monitor).run(iter(batches)):
        told.append((window.begin, window.rows))
    assert told == [(0, 50), (100, 50), (200, 50), (4e9, 1)]
    assert monitor.summary().newest == 2


def test_a_long_rest_is_no_wrong_clock(world):
    row = world.sample(1)[0]
    times = [*range(0, 100, 2), *range(10**6, 10**6 + 300, 2)]
    told = [(w.begin, w.rows) for w in Watch(world.monitor(every=100)).run(Batch(row, [float(at)]) for at in times)]
    assert told == [(0, 50), (10**6, 50), (10**6 + 100, 50), (10**6 + 200, 50)]


def test_front():
    def windows(**rows):
        return {int(key[1:]): np.array([n]) for key, n in rows.items()}

    assert front({}) is None
    assert front(windows(w3=1)) == 3
    assert front(windows(w3=1, w4=0)) == 3  # a window of labels only
    assert front(windows(w3=9, w1003=1)) == 1003
    assert front(windows(w3=9, w1004=1)) == 3
    assert front(windows(w3=9, w5000=1, w5001=2, w9000=1)) == 3
    assert front(windows(w3=9, w5000=49, w5001=1, w9000=1)) == 5001
    assert front(windows(w3=9, w5000=50)) == 5000


def test_rows_with_and_without_time_are_not_mixed(world, tmp_path):
    logits, _ = world.sample(5)
    timed, counted = world.monitor(every=10), world.monitor(every=10)
    assert timed.update(logits, at=DAY) == 5
    assert timed.update(logits) == 0
    again = Monitor.load(
        timed.save(tmp_path / "m.safetensors"), world.calibrator, drift_reference=world.drift_reference
    )
    assert again.update(logits) == 0
    assert again.rejected == {"no time": 10}
    assert counted.update(logits) == 5
    assert counted.update(logits, at=np.arange(5)) == 0
    assert counted.rejected == {"unexpected time": 5}
    assert counted.update(logits) == 5
    with pytest.raises(InputError, match="both have seen times"):
        timed.merge(counted)
    assert world.monitor(every=10).merge(timed).timed is True
