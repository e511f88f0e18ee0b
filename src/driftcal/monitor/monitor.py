"""A monitor of a calibrated model in production: label-free statistics of windows, and late labels."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.core.labels import ClassLookup, is_missing
from driftcal.core.numerics import softmax
from driftcal.drift.estimators import CALIBRATED_CONFIDENCE, CONFIDENCE, DRIFT_STATISTICS
from driftcal.drift.reference import OLD_KEYS, DriftReference, rename_keys
from driftcal.errors import InputError
from driftcal.io.fingerprint import fingerprint
from driftcal.monitor.clock import window_indices
from driftcal.monitor.fixed_point import to_fixed_point
from driftcal.monitor.label_metrics import LabelMetrics
from driftcal.monitor.monitor_settings import MonitorSettings
from driftcal.monitor.open_calibrator import CalibratorSource, open_calibrator
from driftcal.monitor.sequential_test import log_evidence
from driftcal.monitor.summary import Summary, summarise
from driftcal.monitor.usable_samples import check_samples, one_per_sample
from driftcal.monitor.window_report import WindowReport, report_window
from driftcal.monitor.window_sums import N_SAMPLES, WindowSums, n_sums, sums_of_labels, sums_of_samples
from driftcal.types import AnyArray, Array

#: Scores in one block: 8 MB of float64, so a large batch needs little further memory.
_BLOCK_SCORES = 1 << 20
#: Longer ids are rejected: the state file holds the ids of all pending samples.
_MAX_ID_LENGTH = 200


class PendingSample(NamedTuple):
    """A sample that waits for its label: its window, its fixed-point confidence and its predicted column."""

    window: int
    confidence: int
    predicted: int


class Monitor:
    """Monitors the predictions of a calibrated model, window by window, without labels and with late labels.

    A sample that cannot be used is counted in `rejected` by its reason; it causes no error. All sums add exactly, so
    merged monitors equal one that received all samples, if samples have times.

    Parameters
    ----------
    calibrator : the file that `tune` wrote, a CalibratedModel, or a calibrator.
    drift_reference : the drift reference, if `calibrator` does not hold it.
    class_names : names that labels may use; by default those of the calibrator.
    score_type : what `update` receives, "logits" or the "probabilities" of the uncalibrated model.
    window_size : length of a window in seconds, or in samples if samples have no times.
    estimator : accuracy estimator; by default the one with the smallest error on the validation samples.
    false_alarm_rate : largest share of clean windows with a state other than ok.
    alpha : largest probability that the calibration is ever rejected although it holds.
    tolerance : largest calibration gap with which the calibration holds.
    low_confidence : a confidence below this is low.
    max_windows : number of newest windows that are kept separately; older ones are summed.
    max_pending : number of newest samples with an id that wait for their label.

    >>> import numpy as np, driftcal
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=2000)
    >>> levels = [4 * np.eye(3)[y] + noise * rng.normal(size=(2000, 3)) for noise in (1, 3, 6, 20)]
    >>> calibrator = driftcal.TemperatureScaling().fit(np.concatenate(levels), np.tile(y, 4))
    >>> temperature = driftcal.TemperatureScaling().fit(levels[0], y).temperature_
    >>> reference = driftcal.DriftReference.of(levels, y, calibrator, temperature=temperature)
    >>> monitor = driftcal.Monitor(calibrator, drift_reference=reference)
    >>> monitor.update(levels[0][:500])
    500
    >>> monitor.windows()[0].state, monitor.windows()[0].nearest_level
    ('ok', 'level 1 of 4 (clean)')
    """

    def __init__(
        self,
        calibrator: CalibratorSource,
        *,
        drift_reference: DriftReference | None = None,
        class_names: Sequence[Any] | None = None,
        **settings: Any,
    ) -> None:
        opened = open_calibrator(calibrator, drift_reference, class_names)
        self.calibrator, self.drift_reference = opened.calibrator, opened.drift_reference
        self.class_names = opened.class_names
        self.settings = MonitorSettings.of(settings)
        #: window -> its sums, see `window_sums`
        self.sums: dict[int, Array] = {}
        #: Sums of the windows that are no longer kept separately.
        self.older_sums: Array = np.zeros(n_sums(self.n_classes), np.int64)
        self.first_window: int | None = None
        #: Whether samples have times; None before the first sample.
        self.timed: bool | None = None
        self.rejected: Counter[str] = Counter()
        #: id -> sample that waits for its label, the oldest first
        self.pending: OrderedDict[str, PendingSample] = OrderedDict()
        self._lookup = ClassLookup(self.class_names)

    def __repr__(self) -> str:
        kind = type(self.calibrator).__name__
        lines = [f"Monitor({kind}, {self.n_classes} classes, window_size={self.settings.window_size:g})"]
        return "\n".join([*lines, *self.summary().lines()])

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def n_samples(self) -> int:
        """Samples that were used so far."""
        return int(self.older_sums[N_SAMPLES] + sum(sums[N_SAMPLES] for sums in self.sums.values()))

    def update(
        self, scores: AnyArray, *, times: AnyArray = None, y: AnyArray = None, ids: Iterable[Any] | None = None
    ) -> int:
        """Add a batch of samples; return how many of them were used.

        Parameters
        ----------
        scores : logits or probabilities, see `score_type`.
        times : time of the batch or of each sample, in seconds or as dates. All samples must have one, or none.
        y : labels, with None or NaN for labels that come later.
        ids : names of the samples, for `add_labels`.
        """
        checked = check_samples(scores, self.n_classes, self.settings.score_type)
        self.rejected.update(checked.rejected)
        n_samples = len(checked.usable)
        window_size = self.settings.window_size
        windows, has_time = window_indices(times, n_samples, window_size, start=self.n_samples)
        if (bad_times := int((checked.usable & ~has_time).sum())) > 0:
            self.rejected["bad time"] += bad_times
        used = np.flatnonzero(checked.usable & has_time)
        if len(used) and self.timed not in (None, times is not None):  # sample numbers and times have no common order
            self.rejected["no time" if self.timed else "unexpected time"] += len(used)
            return 0
        if times is None:  # rejected samples get no number, so that a window holds `window_size` used samples
            windows[used] = window_indices(None, len(used), window_size, start=self.n_samples)[0]
        labels = one_per_sample(y, n_samples, "y")
        names = one_per_sample(ids, n_samples, "ids")
        self.timed = times is not None if len(used) else self.timed
        block = max(1, _BLOCK_SCORES // self.n_classes)
        for start in range(0, len(used), block):
            part = used[start : start + block]
            self._add_samples(checked.logits[part], windows[part], [labels[i] for i in part], [names[i] for i in part])
        return len(used)

    def add_labels(self, ids: Iterable[Any], y: Iterable[Any]) -> int:
        """Add labels of earlier samples by their ids; return how many of these samples were pending.

        A sample stays pending if its label is missing (None, NaN) or unknown.
        """
        pairs = [(str(name), label) for name, label in zip(ids, y, strict=True) if not is_missing(label)]
        samples, columns = [], []
        for (name, _), column in zip(pairs, self._lookup.columns(label for _, label in pairs).tolist(), strict=True):
            if name not in self.pending:
                self.rejected["label without a sample"] += 1
            elif column < 0:
                self.rejected["unknown label"] += 1
            else:
                samples.append(self.pending.pop(name))
                columns.append(column)
        if samples:
            windows, confidence, predicted = np.array(samples, np.int64).T
            self._add_label_sums(windows, confidence, predicted, np.array(columns))
        return len(samples)

    def merge(self, other: Monitor) -> Monitor:
        """A new monitor with the samples of both."""
        if self.settings != other.settings or self.identity != other.identity:
            raise InputError(
                "monitors must have the same settings and calibrator to be merged; these differ. Make both in the same way."
            )
        timed = {monitor.timed for monitor in (self, other)} - {None}
        if len(timed) > 1:
            raise InputError(
                "monitors must both have samples with times, or both without, to be merged; only one has. "
                "Pass `times` to both or to none."
            )
        merged = self._empty_copy()
        merged.timed = next(iter(timed), None)
        merged.older_sums = self.older_sums + other.older_sums
        for monitor in (self, other):
            for window, values in monitor.sums.items():
                merged._add_sums(window, values)
            merged.pending.update(monitor.pending)
            merged.rejected.update(monitor.rejected)
        first = [monitor.first_window for monitor in (self, other) if monitor.first_window is not None]
        merged.first_window = min(first, default=None)
        merged._drop_oldest_pending()
        return merged

    @property
    def identity(self) -> str:
        """A fingerprint of calibrator and drift reference. A saved monitor can be loaded with these only."""
        fitted = {name: np.asarray(getattr(self.calibrator, name)) for name in self.calibrator.fitted}
        reference = _in_version_0_1(self.drift_reference) if self.drift_reference else None
        metadata = {"kind": type(self.calibrator).__name__, "profile": reference}
        return fingerprint({**metadata, **fitted, "classes": [str(name) for name in self.calibrator.classes_]})

    def window(self, index: int) -> WindowReport:
        """The report of one window that is kept separately."""
        return report_window(index, WindowSums(self.sums[index]), self.drift_reference, self.settings)

    def windows(self) -> list[WindowReport]:
        """The reports of all windows that are kept separately and have samples, in order of time."""
        return [self.window(index) for index in sorted(self.sums) if self.sums[index][N_SAMPLES]]

    def summary(self) -> Summary:
        """The summary of all windows, with a recommendation."""
        indices = sorted(self.sums)
        evidence = log_evidence(
            indices,
            [WindowSums(self.sums[index]).log_bets for index in indices],
            WindowSums(self.older_sums).log_bets,
            self.first_window or 0,
        )
        total = WindowSums(self.older_sums + sum(self.sums.values(), np.zeros_like(self.older_sums)))
        return summarise(
            self.windows(),
            n_samples=total.n_samples,
            rejected=dict(sorted(self.rejected.items())),
            labelled=LabelMetrics.of(total),
            log_evidence=evidence,
            alpha=self.settings.alpha,
            windowed=isinstance(self.calibrator, WindowedCalibrator),
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the monitor to a file, atomically; `Monitor.load` continues from it with identical numbers."""
        from driftcal.monitor.checkpoint import save

        return save(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        calibrator: CalibratorSource,
        *,
        drift_reference: DriftReference | None = None,
        class_names: Sequence[Any] | None = None,
    ) -> Self:
        """The monitor that `save` wrote.

        Parameters
        ----------
        path : the file.
        calibrator, drift_reference, class_names : those that the monitor was made with.
        """
        from driftcal.monitor.checkpoint import load

        return load(cls, path, calibrator, drift_reference=drift_reference, class_names=class_names)

    def _empty_copy(self) -> Monitor:
        settings = dataclasses.asdict(self.settings)
        return Monitor(self.calibrator, drift_reference=self.drift_reference, class_names=self.class_names, **settings)

    def _add_samples(self, logits: Array, windows: Array, labels: Sequence[Any], ids: Sequence[Any]) -> None:
        calibrated = self.calibrator.predict_proba(logits)
        predicted = calibrated.argmax(axis=1)
        statistics = self._drift_statistics(logits, calibrated)
        confidence = to_fixed_point(statistics[:, CALIBRATED_CONFIDENCE])
        for window in np.unique(windows):
            in_window = windows == window
            sums = sums_of_samples(
                statistics[in_window], predicted[in_window], self.n_classes, low_confidence=self.settings.low_confidence
            )
            self._add_sums(int(window), sums)
        has_label = np.array([not is_missing(label) for label in labels], bool)
        columns = np.full(len(labels), -1)
        columns[has_label] = self._lookup.columns(labels[i] for i in np.flatnonzero(has_label).tolist())
        labelled = columns >= 0
        if (unknown := int((has_label & ~labelled).sum())) > 0:
            self.rejected["unknown label"] += unknown
        if labelled.any():
            self._add_label_sums(windows[labelled], confidence[labelled], predicted[labelled], columns[labelled])
        for i in np.flatnonzero(~labelled).tolist():
            if ids[i] is not None:
                self._add_pending(str(ids[i]), PendingSample(int(windows[i]), int(confidence[i]), int(predicted[i])))
        self._drop_oldest_pending()

    def _drift_statistics(self, logits: Array, calibrated: Array) -> Array:
        if self.drift_reference is not None:
            return self.drift_reference.statistics(logits, calibrated)
        statistics = np.zeros((len(logits), len(DRIFT_STATISTICS)))
        statistics[:, CALIBRATED_CONFIDENCE] = calibrated.max(axis=1)
        statistics[:, CONFIDENCE] = softmax(np.asarray(logits, np.float64)).max(axis=1)
        return np.clip(statistics, 0, 1)

    def _add_label_sums(self, windows: Array, confidence: Array, predicted: Array, columns: Array) -> None:
        correct = predicted == columns
        for window in np.unique(windows):
            in_window = windows == window
            sums = sums_of_labels(
                confidence[in_window], correct[in_window], self.n_classes, tolerance=self.settings.tolerance
            )
            self._add_sums(int(window), sums)

    def _add_pending(self, name: str, sample: PendingSample) -> None:
        if len(name) > _MAX_ID_LENGTH:
            self.rejected["id too long"] += 1
        else:
            self.pending[name] = sample

    def _drop_oldest_pending(self) -> None:
        while len(self.pending) > self.settings.max_pending:
            self.pending.popitem(last=False)

    def _add_sums(self, window: int, values: Array) -> None:
        """Add to the sums of a window; if there are too many windows, the oldest are added to `older_sums`."""
        self.first_window = window if self.first_window is None else min(self.first_window, window)
        if window in self.sums:
            self.sums[window] = self.sums[window] + values
            return
        self.sums[window] = values
        while len(self.sums) > self.settings.max_windows:
            self.older_sums = self.older_sums + self.sums.pop(min(self.sums))


def _in_version_0_1(drift_reference: DriftReference) -> dict[str, Any]:
    """The drift reference under the names of version 0.1, so that the identity of its files stays the same."""
    names = {new: old for old, new in OLD_KEYS.items()}
    values = rename_keys(drift_reference.to_dict(), names)
    return {**values, "estimator": names.get(values["estimator"], values["estimator"])}
