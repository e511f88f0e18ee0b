"""A small scenario for monitors: three classes, six levels of noise, a calibrator tuned on them."""

import numpy as np

import driftcal
from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.drift.reference import DriftReference
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.monitored_calibrator import MonitoredCalibrator


class MonitorScenario:
    """Logits that shrink as noise grows: less accuracy and more entropy from level to level."""

    noises = (1.0, 1.6, 2.2, 3.0, 4.5, 20.0)

    def __init__(self, n_classes=3, n_samples=3000):
        self.n_classes = n_classes
        self.y, self.level_logits = self.draw(n_samples, self.noises, seed=0)
        self.calibrator = driftcal.make_calibrator("irm").fit(
            np.concatenate(self.level_logits), np.tile(self.y, len(self.noises))
        )
        self.drift_reference = self.reference_of(self.calibrator, self.level_logits)

    def draw(self, n, noises, seed):
        """Labels, and the logits of the same samples with each noise."""
        rng = np.random.default_rng(seed)
        y = rng.integers(self.n_classes, size=n)
        return y, [
            (3 * np.eye(self.n_classes)[y] + noise * rng.normal(size=(n, self.n_classes))) * noise**-1.5
            for noise in noises
        ]

    def sample(self, n, noise=1.0, seed=1):
        """Logits and labels of new samples."""
        y, (logits,) = self.draw(n, (noise,), seed)
        return logits, y

    def reference_of(self, calibrator, level_logits, y=None):
        """The drift reference of a calibrator."""
        y = self.y if y is None else y
        fitted = TemperatureScaling().fit(level_logits[0], y, score_type="logits")
        return DriftReference.of(level_logits, y, calibrator, temperature=fitted.temperature_)

    def windowed(self, threshold=None):
        """What a monitor opens: temperature scaling with its windowed form, and perhaps a threshold."""
        levels = np.repeat(np.arange(len(self.noises)), len(self.y))
        windowed = driftcal.make_calibrator("window-ts").fit(
            np.concatenate(self.level_logits), np.tile(self.y, len(self.noises)), levels=levels
        )
        calibrator = windowed.per_sample()
        reference = self.reference_of(calibrator, self.level_logits)
        return MonitoredCalibrator(calibrator, reference, ("0", "1", "2"), windowed, threshold)

    def monitor(self, **settings):
        """A monitor of the calibrator."""
        return Monitor(self.calibrator, drift_reference=self.drift_reference, **settings)
