"""A small world for monitors: three classes, a ladder of noise, a calibrator tuned on it."""

import numpy as np
import pytest

import driftcal
from driftcal.calibrators.scaling.temperature import clean_temperature
from driftcal.drift.reference import DriftReference
from driftcal.monitor.monitor import Monitor


class World:
    """Logits that shrink as noise grows: less accuracy and less certainty, as on a ladder."""

    noises = (1.0, 1.6, 2.2, 3.0, 4.5, 20.0)

    def __init__(self, n_classes=3, rows=3000):
        self.n_classes = n_classes
        self.y, self.ladder = self.rows(rows, self.noises, seed=0)
        self.calibrator = driftcal.make_calibrator("irm").fit(
            np.concatenate(self.ladder), np.tile(self.y, len(self.noises))
        )
        self.drift_reference = DriftReference.of(
            self.ladder, self.y, self.calibrator, temperature=clean_temperature(self.ladder[0], self.y)
        )

    def rows(self, n, noises, seed):
        rng = np.random.default_rng(seed)
        y = rng.integers(self.n_classes, size=n)
        return y, [
            (3 * np.eye(self.n_classes)[y] + noise * rng.normal(size=(n, self.n_classes))) * noise**-1.5
            for noise in noises
        ]

    def sample(self, n, noise=1.0, seed=1):
        y, (logits,) = self.rows(n, (noise,), seed)
        return logits, y

    def monitor(self, **settings):
        return Monitor(self.calibrator, drift_reference=self.drift_reference, **settings)


@pytest.fixture(scope="session")
def world():
    return World()
