"""The check of an exported windowed form: windows of probe samples, with previous sums and masks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from driftcal.calibrators import Calibrator, WindowedCalibrator
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.decisions import Threshold
from driftcal.errors import ModelError
from driftcal.export.onnx.verification import TOLERANCE, verify, verify_accept
from driftcal.types import Array, Float64, Logits


@dataclass(frozen=True, eq=False)
class ProbeWindow:
    """A batch of logits, the sums over the previous samples of its window, and the samples of the batch that count."""

    logits: Logits
    previous: Float64
    mask: Array


def probe_windows(calibrator: Calibrator, probe: Logits) -> Iterator[ProbeWindow]:
    """Windows of all sizes and scales: alone and after others, with and without masked samples, and all masked."""
    rng, usual = np.random.default_rng(0), probe[:192]
    nothing = np.zeros_like(_sums(calibrator, usual))
    for logits in (probe, usual, probe[:5], probe[:1]):
        yield ProbeWindow(logits, nothing, np.ones(len(logits), bool))
    yield ProbeWindow(usual, nothing, np.zeros(len(usual), bool))
    for scale in np.geomspace(0.005, 50, 30):  # from uniform predictions to certain ones
        batch = (scale * usual[rng.integers(len(usual), size=40)]).astype(probe.dtype)
        previous = _sums(calibrator, (scale * usual[:64]).astype(probe.dtype))
        yield ProbeWindow(batch, nothing, np.ones(len(batch), bool))
        yield ProbeWindow(batch, previous, rng.random(len(batch)) < 0.7)


def probe_batches(calibrator: Calibrator, logits: Logits) -> Iterator[ProbeWindow]:
    """The same batch of logits as the first one of a window, after others like it, and half masked."""
    every, half = np.ones(len(logits), bool), np.arange(len(logits)) % 2 == 0
    sums = _sums(calibrator, logits)
    yield ProbeWindow(logits, np.zeros_like(sums), every)
    yield ProbeWindow(logits, sums * (WINDOW_SIZE / len(logits)), every)
    yield ProbeWindow(logits, sums * (WINDOW_SIZE / len(logits)), half)


def verify_window(
    calibrator: Calibrator, window: ProbeWindow, outputs: Sequence[Array], threshold: Threshold | None = None
) -> float:
    """The largest difference between the probabilities of a graph and those of the calibrator; raises above the tolerance.

    `outputs` are probabilities, label, confidence and the sums of the batch, and with a threshold the samples it accepts.
    """
    assert isinstance(calibrator, WindowedCalibrator)  # its windowed map was exported
    expected = np.zeros_like(window.previous) + _sums(calibrator, window.logits[window.mask])
    error = float((np.abs(outputs[3] - expected) / (1 + np.abs(expected))).max(initial=0.0))
    if not error <= TOLERANCE:
        raise ModelError(
            f"the sums of the exported graph must agree with the calibrator to {TOLERANCE:g}; they differ by {error:.3g}. "
            "Nothing was written. Please report this calibrator."
        )
    of_window = calibrator.calibrator_for(window.previous + expected)
    difference = verify(of_window, window.logits, outputs[:3])
    if threshold is not None:
        verify_accept(threshold, outputs[4], outputs[2], of_window.predict_proba(window.logits).max(axis=1))
    return difference


def _sums(calibrator: Calibrator, logits: Logits) -> Float64:
    assert isinstance(calibrator, WindowedCalibrator)
    sums: Float64 = calibrator.window_statistics(logits).sum(axis=0)
    return sums
