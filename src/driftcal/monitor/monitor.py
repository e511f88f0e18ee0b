"""A monitor of a calibrated model in production: label-free statistics of windows, and late labels."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.core.display import Displayed, plot
from driftcal.core.labels import NO_CLASS, ClassLookup, is_missing
from driftcal.drift.estimators import CALIBRATED_CONFIDENCE
from driftcal.drift.reference import DriftReference
from driftcal.errors import InputError
from driftcal.monitor.clock import window_indices
from driftcal.monitor.fixed_point import to_fixed_point
from driftcal.monitor.label_metrics import LabelMetrics
from driftcal.monitor.monitor_settings import MonitorSettings
from driftcal.monitor.monitored_calibrator import CalibratorSource, open_calibrator
from driftcal.monitor.pending_samples import PendingSample, PendingSamples
from driftcal.monitor.reading.stream_batch import LateLabel, StreamBatch
from driftcal.monitor.sequential_test import log_evidence
from driftcal.monitor.summary import Summary, summarise
from driftcal.monitor.usable_samples import check_samples, one_per_sample, refuse_mistakes
from driftcal.monitor.window_report import WindowReport, report_window
from driftcal.monitor.window_sums import N_SAMPLES, WindowSums, sums_of_labels, sums_of_samples
from driftcal.types import AnyArray, Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Scores in one block: 8 MB of float64, so a large batch needs little further memory.
_BLOCK_SCORES = 1 << 20


class Monitor(Displayed):
    """Monitors the predictions of a calibrated model, window by window, without labels and with late labels.

    A sample that cannot be used is counted in `rejected` by its reason; it causes no error. A wrong number of columns does. All sums add exactly, so
    merged monitors equal one that received all samples. Only monitors whose samples have times can be merged.

    Parameters
    ----------
    calibrator : the file that `tune` wrote, a CalibratedModel, or a calibrator.
    drift_reference : the drift reference, if `calibrator` does not hold it.
    class_names : names that labels may use; by default those of the calibrator.
    score_type : what `update` receives, "logits" or the "probabilities" of the uncalibrated model. By default the type that
        `driftcal.fit` was given, otherwise "logits".
    window_size : length of a window in seconds, or in samples if samples have no times.
    estimator : accuracy estimator; by default "window-ts", the regression of the windowed form, if there is one.
    false_alarm_rate : largest share of clean windows with an alarm, that is a state other than ok, no change seen and cannot tell.
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
        self.monitored = open_calibrator(calibrator, drift_reference, class_names)
        self.settings = MonitorSettings.of({"score_type": self.monitored.score_type, **settings})
        self.monitored.check_has(self.settings.estimator)
        #: Which sums a window has.
        self.layout = self.monitored.layout
        #: window -> its sums, see `window_sums`
        self.sums: dict[int, Array] = {}
        #: Sums of the windows that are no longer kept separately.
        self.older_sums: Array = np.zeros(self.layout.n_sums, np.int64)
        self.first_window: int | None = None
        #: Whether samples have times; None before the first sample.
        self.timed: bool | None = None
        self.rejected: Counter[str] = Counter()
        self.pending = PendingSamples()
        self._lookup = ClassLookup(self.class_names)
        #: window -> the sums that it was last reported from, and this report
        self._reports: dict[int, tuple[Array, WindowReport]] = {}

    def __repr__(self) -> str:
        kind = type(self.calibrator).__name__
        lines = [f"Monitor({kind}, {self.n_classes} classes, window_size={self.settings.window_size:g})"]
        return "\n".join([*lines, *self.summary().lines()])

    @property
    def calibrator(self) -> Calibrator:
        """The calibrator whose confidence is monitored."""
        return self.monitored.calibrator

    @property
    def drift_reference(self) -> DriftReference | None:
        """What clean and perturbed samples look like."""
        return self.monitored.drift_reference

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.monitored.class_names

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
        if scores is None:
            self.rejected["not numbers"] += 1
            return 0
        refuse_mistakes(scores, self.n_classes, self.settings.score_type)
        return self.add_batch(StreamBatch(scores, times, y, ids))

    def add_labels(self, ids: Iterable[Any], y: Iterable[Any]) -> int:
        """Add labels of earlier samples by their ids; return how many of these samples were pending.

        A sample stays pending if its label is missing (None, NaN) or unknown.
        """
        return self._match_labels((), [LateLabel(name, label) for name, label in zip(ids, y, strict=True)])

    def add_batch(self, batch: StreamBatch) -> int:
        """Add a batch of a stream: samples, labels of earlier samples, rejected lines; return the samples used.

        The order of samples and labels is that of the stream. So the numbers do not depend on how a stream is divided
        into batches.
        """
        self.rejected.update(batch.rejected)
        if batch.scores is None:
            self._match_labels((), batch.late_labels)
            return 0
        checked = check_samples(batch.scores, self.n_classes, self.settings.score_type)
        self.rejected.update(checked.rejected)
        n_samples = len(checked.usable)
        is_timed, window_size = batch.times is not None, self.settings.window_size
        windows, has_time = window_indices(batch.times, n_samples, window_size, start=self.n_samples)
        if (bad_times := int((checked.usable & ~has_time).sum())) > 0:
            self.rejected["bad time"] += bad_times
        used = np.flatnonzero(checked.usable & has_time)
        labels = one_per_sample(batch.labels, n_samples, "y")
        names = one_per_sample(batch.ids, n_samples, "ids")
        if len(used) and self.timed not in (None, is_timed):  # sample numbers and times have no common order
            self.rejected["no time" if self.timed else "unexpected time"] += len(used)
            used = used[:0]
        if not is_timed:  # rejected samples get no number, so that a window holds `window_size` used samples
            windows[used] = window_indices(None, len(used), window_size, start=self.n_samples)[0]
        self.timed = is_timed if len(used) else self.timed
        block = max(1, _BLOCK_SCORES // self.n_classes)
        unlabelled: list[tuple[int, Any, PendingSample]] = []
        for start in range(0, len(used), block):
            part = used[start : start + block]
            unlabelled += self._add_samples(checked.logits[part], windows[part], part, labels, names)
        self._match_labels(unlabelled, batch.late_labels)
        return len(used)

    def merge(self, other: Monitor) -> Monitor:
        """A new monitor with the samples of both."""
        if self.settings != other.settings or self.identity != other.identity:
            raise InputError(
                "monitors must have the same settings and calibrator to be merged; these differ. Make both in the same way."
            )
        timed = {monitor.timed for monitor in (self, other)} - {None}
        if self.timed is False and other.timed is False:
            raise InputError(
                "monitors must have samples with times to be merged; these count samples, and each counts its own, so "
                "their windows do not correspond. Pass `times` to update, or let one monitor receive all samples."
            )
        if len(timed) > 1:
            raise InputError(
                "monitors must both have samples with times, or both without, to be merged; only one has. "
                "Pass `times` to both or to none."
            )
        merged = Monitor(self.monitored, **dataclasses.asdict(self.settings))
        merged.timed = next(iter(timed), None)
        merged.older_sums = self.older_sums + other.older_sums
        for monitor in (self, other):
            for window, values in monitor.sums.items():
                merged._add_sums(window, values)
            merged.pending.update(monitor.pending)
            merged.rejected.update(monitor.rejected)
        first = [monitor.first_window for monitor in (self, other) if monitor.first_window is not None]
        merged.first_window = min(first, default=None)
        merged.pending.drop_oldest(self.settings.max_pending)
        return merged

    @property
    def identity(self) -> str:
        """A fingerprint of calibrator and drift reference. A saved monitor can be loaded with these only."""
        return self.monitored.identity

    def window(self, index: int) -> WindowReport:
        """The report of one window that is kept separately. It is computed anew only if the window has changed."""
        sums = self.sums[index]
        reported, report = self._reports.get(index, (None, None))
        if report is None or reported is not sums:  # sums are replaced, never changed
            report = report_window(index, WindowSums(sums, self.layout), self.monitored, self.settings)
            self._reports[index] = (sums, report)
        return report

    def windows(self) -> list[WindowReport]:
        """The reports of all windows that are kept separately and have samples, in order of time."""
        return [self.window(index) for index in sorted(self.sums) if self.sums[index][N_SAMPLES]]

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the accuracy of each window, estimated and labelled, and its mean confidence; return the axes."""
        axes: Axes = plot("plot_monitor", self, ax=ax)
        return axes

    def summary(self) -> Summary:
        """The summary of all windows, with a recommendation."""
        indices = sorted(self.sums)
        evidence = log_evidence(
            indices,
            [WindowSums(self.sums[index], self.layout).log_bets for index in indices],
            WindowSums(self.older_sums, self.layout).log_bets,
            self.first_window or 0,
        )
        total = WindowSums(sum(self.sums.values(), self.older_sums), self.layout)
        return summarise(
            self.windows(),
            n_samples=total.n_samples,
            rejected=dict(sorted(self.rejected.items())),
            labelled=LabelMetrics.of(total),
            log_evidence=evidence,
            alpha=self.settings.alpha,
            is_windowed=isinstance(self.calibrator, WindowedCalibrator),
            has_windowed=self.monitored.windowed is not None,
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

    def _add_samples(
        self, logits: Array, windows: Array, positions: Array, labels: list[Any] | None, ids: list[Any] | None
    ) -> list[tuple[int, Any, PendingSample]]:
        """Add the samples at these positions of a batch; return those that have an id and wait for their label."""
        samples = self.monitored.measure(logits)
        predicted, confidence = samples.predicted, to_fixed_point(samples.statistics[:, CALIBRATED_CONFIDENCE])
        for window in np.unique(windows):
            part = samples.part(windows == window)
            sums = sums_of_samples(part, self.layout, low_confidence=self.settings.low_confidence)
            self._add_sums(int(window), sums)
        columns = np.full(len(positions), NO_CLASS)
        if labels is not None:
            own_labels = [labels[i] for i in positions.tolist()]
            with_label = np.array([i for i, label in enumerate(own_labels) if not is_missing(label)], np.int64)
            columns[with_label] = self._lookup.columns(own_labels[i] for i in with_label.tolist())
            if (unknown := int((columns[with_label] == NO_CLASS).sum())) > 0:
                self.rejected["unknown label"] += unknown
            labelled = columns != NO_CLASS
            self._add_label_sums(windows[labelled], confidence[labelled], predicted[labelled], columns[labelled])
        if ids is None:
            return []
        waiting = [i for i in np.flatnonzero(columns == NO_CLASS).tolist() if ids[positions[i]] is not None]
        of_waiting = positions[waiting].tolist()
        rows = zip(windows[waiting].tolist(), confidence[waiting].tolist(), predicted[waiting].tolist(), strict=True)
        return [(position, ids[position], PendingSample(*row)) for position, row in zip(of_waiting, rows, strict=True)]

    def _match_labels(
        self, unlabelled: Iterable[tuple[int, Any, PendingSample]], late_labels: Sequence[LateLabel]
    ) -> int:
        """Let samples wait for their labels, and add the labels of those that wait, in the order of the stream."""
        matched = self.pending.match(
            unlabelled, late_labels, self._lookup, self.rejected, max_pending=self.settings.max_pending
        )
        if matched:
            # np.array would take four times as long: it asks each tuple for its type, length and entries
            flat = np.fromiter(chain.from_iterable(matched), np.int64)
            self._add_label_sums(*flat.reshape(len(matched), -1).T)
        return len(matched)

    def _add_label_sums(self, windows: Array, confidence: Array, predicted: Array, columns: Array) -> None:
        correct = predicted == columns
        for window in np.unique(windows):
            in_window = windows == window
            sums = sums_of_labels(
                confidence[in_window], correct[in_window], self.layout, tolerance=self.settings.tolerance
            )
            self._add_sums(int(window), sums)

    def _add_sums(self, window: int, values: Array) -> None:
        """Add to the sums of a window; if there are too many windows, the oldest are added to `older_sums`."""
        self.first_window = window if self.first_window is None else min(self.first_window, window)
        if window in self.sums:
            self.sums[window] = self.sums[window] + values
            return
        self.sums[window] = values
        while len(self.sums) > self.settings.max_windows:
            oldest = min(self.sums)
            self.older_sums = self.older_sums + self.sums.pop(oldest)
            self._reports.pop(oldest, None)
