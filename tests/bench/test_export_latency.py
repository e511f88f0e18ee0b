"""What the latency benchmark says of a bound follows from its figures."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.speed.export import ENOUGH, SETTINGS, summary, within


@pytest.mark.parametrize(
    ("bound", "interval", "openings", "wanted"),
    [
        (0.02, [0.001, 0.02], ENOUGH, "yes"),
        (0.02, [0.001, 0.021], ENOUGH, "cannot tell"),
        (0.02, [0.021, 0.03], ENOUGH, "no"),
        (0.05, [0.021, 0.03], ENOUGH, "yes"),
        (0.02, [0.001, 0.002], ENOUGH - 1, "cannot tell"),
        (None, [0.2, 0.3], ENOUGH, "no bound"),
    ],
)
def test_verdicts(bound, interval, openings, wanted):
    low = {setting: {"interval": [-0.01, 0.0], "openings": ENOUGH} for setting in SETTINGS}
    for setting in SETTINGS:
        line = {"bound": bound, **low, setting: {"interval": interval, "openings": openings}}
        assert within(line) == wanted


def test_openings_that_differ_widen_the_interval():
    rng = np.random.default_rng(0)
    alike = 0.01 + 0.002 * rng.normal(size=(8, 20))
    found, apart = summary(list(alike)), summary(list(alike + np.linspace(-0.02, 0.02, 8)[:, None]))
    assert found["interval"][0] < 0.01 < found["interval"][1]
    assert found["added"] == pytest.approx(0.01, abs=1e-3)
    assert np.ptp(apart["interval"]) > 5 * np.ptp(found["interval"])
