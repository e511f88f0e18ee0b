"""The verdict of the latency benchmark on a bound follows from its figures."""

import sys
from pathlib import Path

import numpy as np
import pytest
from export_cases import echo, fitted, probes

from driftcal.export import append_to_onnx

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.speed.export_latency import COLUMNS, session, summary, within
from benchmarks.speed.export_models import with_switch


@pytest.mark.parametrize(
    ("bound", "interval", "expected"),
    [
        (0.02, [0.001, 0.02], "yes"),
        (0.02, [0.001, 0.021], "cannot tell"),
        (0.02, [0.021, 0.03], "no"),
        (0.05, [0.021, 0.03], "yes"),
        (None, [0.2, 0.3], "no bound"),
    ],
)
def test_verdicts(bound, interval, expected):
    low = {setting: {"interval": [-0.01, 0.0]} for setting in COLUMNS}
    for setting in COLUMNS:
        assert within({"bound": bound, **low, setting: {"interval": interval}}) == expected


def test_pairs_that_scatter_widen_the_interval():
    rng = np.random.default_rng(0)
    seconds = np.array([2.0, 2.02]) + rng.normal(size=(200, 1)) + 0.01 * rng.normal(size=(200, 2))
    close, wide = summary(seconds), summary(seconds + 0.1 * rng.normal(size=(200, 2)))
    assert close["added"] == pytest.approx(0.01, abs=0.003)
    assert close["interval"][0] < 0.01 < close["interval"][1]
    assert np.ptp(wide["interval"]) > 5 * np.ptp(close["interval"])


@pytest.mark.parametrize("name", ["ets", "irm"])
def test_behind_the_switch_is_the_calibration(name, tmp_path):
    export = append_to_onnx(echo(tmp_path / "net.onnx", 10), fitted(name, 10), tmp_path / "out.onnx")
    logits = probes(10, 20, 10)
    plain = session(export.path.read_bytes(), 1).run(None, {"x": logits})
    switched = session(with_switch(export.path), 1)
    for expected, values in zip(plain, switched.run(None, {"x": logits, "switch": np.array(True)}), strict=True):
        np.testing.assert_array_equal(values, expected)
    off = switched.run(None, {"x": logits, "switch": np.array(False)})
    assert sorted(part.size for part in off)[:3] == [0, 0, 0]
