"""A recorded network as it is deployed: temperature scaling, and what a monitor needs beside it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import driftcal
from benchmarks.reliability.recorded_networks import RecordedNetwork
from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.decisions import CoverageCurve, choose_threshold
from driftcal.drift.reference import DriftReference
from driftcal.monitor.monitored_calibrator import MonitoredCalibrator

#: The share of clean predictions that the threshold accepts.
COVERAGE = 0.8


@dataclass(frozen=True)
class Deployed:
    """A network with temperature scaling, a drift reference and, where it was recorded, the windowed form.

    All are fitted on the validation samples at these positions.
    """

    network: RecordedNetwork
    chosen: np.ndarray

    @classmethod
    def of_all(cls, network: RecordedNetwork) -> Deployed:
        return cls(network, np.arange(len(network.validation_labels)))

    @cached_property
    def calibrator(self) -> TemperatureScaling:
        return TemperatureScaling().fit(
            self.network.levels[0, self.chosen], self.network.validation_labels[self.chosen]
        )

    @cached_property
    def monitored(self) -> MonitoredCalibrator:
        network, labels = self.network, self.network.validation_labels[self.chosen]
        levels = list(network.levels[:, self.chosen].astype(np.float64))
        reference = DriftReference.of(levels, labels, self.calibrator, temperature=self.calibrator.temperature_)
        names = tuple(map(str, range(network.n_classes)))
        p = self.calibrator.predict_proba(levels[0])
        threshold = choose_threshold(CoverageCurve.of(p.max(axis=1), p.argmax(axis=1) == labels), coverage=COVERAGE)
        windowed = None
        if network.simulated is not None:
            logits = network.simulated.logits[:, self.chosen]
            windowed = driftcal.make_calibrator("window-ts").fit(
                logits.reshape(-1, network.n_classes),
                np.tile(labels, len(logits)),
                levels=np.repeat(np.arange(len(logits)), len(labels)),
                families=network.simulated.families,
            )
        return MonitoredCalibrator(self.calibrator, reference, names, windowed, threshold)

    @cached_property
    def probabilities(self) -> np.ndarray:
        """Calibrated probabilities of all clean samples."""
        return self.calibrator.predict_proba(self.network.clean.logits)

    @cached_property
    def labels(self) -> np.ndarray:
        """Labels of all clean samples."""
        return self.network.clean.labels

    @cached_property
    def correct(self) -> np.ndarray:
        """Whether each clean sample is predicted correctly."""
        return self.probabilities.argmax(axis=1) == self.labels
