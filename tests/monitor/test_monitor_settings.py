"""The settings of a monitor: values that cannot be used are refused with a message."""

import numpy as np
import pytest

from driftcal.errors import InputError, UnknownName


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"window_size": "1h"}, "window_size must be a positive number.*'1h'"),
        ({"window_size": True}, "window_size must be a positive number.*True"),
        ({"window_size": float("nan")}, "window_size must be a positive number"),
        ({"window_size": float("inf")}, "window_size must be a positive number"),
        ({"low_confidence": None}, "low_confidence must be a confidence from 0 to 1; it is None"),
        ({"max_windows": 1.5}, "max_windows must be a whole number of windows"),
        ({"max_windows": 0}, "max_windows must be a whole number of windows, at least 1"),
        ({"max_pending": -1}, "max_pending must be a whole number of samples"),
        ({"alpha": 1}, "alpha must be a probability above 0 and below 1"),
        ({"tolerance": 0.5}, "tolerance must be a difference"),
        ({"false_alarm_rate": 0.5}, "false_alarm_rate must be a share"),
        ({"false_alarm_rate": 0}, "false_alarm_rate must be a share"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(scenario, setting, message):
    with pytest.raises(InputError, match=message):
        scenario.monitor(**setting)


def test_unknown_settings_are_refused(scenario):
    with pytest.raises(UnknownName, match="did you mean 'window_size'"):
        scenario.monitor(window_sizes=5)
    with pytest.raises(UnknownName, match="logitz"):
        scenario.monitor(score_type="logitz")


def test_numpy_numbers_are_accepted(scenario, tmp_path):
    monitor = scenario.monitor(window_size=np.int64(50), max_windows=np.int32(3), low_confidence=np.float32(0.5))
    assert monitor.settings == scenario.monitor(window_size=50, max_windows=3).settings
    monitor.save(tmp_path / "m.safetensors")
