"""A calibrated model watched in production: what its unlabelled answers say, and what late labels add."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.core.labels import ClassLookup, is_missing
from driftcal.core.numerics import softmax
from driftcal.drift.reference import OLD_KEYS, DriftReference, rename_keys
from driftcal.errors import InputError
from driftcal.io.fingerprint import fingerprint
from driftcal.monitor.clock import window_keys
from driftcal.monitor.open import open_calibrator
from driftcal.monitor.sequential_test import log_evidence
from driftcal.monitor.settings import Settings
from driftcal.monitor.states import WindowReport, report_window
from driftcal.monitor.summary import Summary
from driftcal.monitor.unchecked_samples import listed, usable_rows
from driftcal.monitor.window_sums import Sums, fixed, sums_of_labels, sums_of_rows, width
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.types import AnyArray, Array

Place = str | os.PathLike[str]
# Scores in one block: what a batch needs beside itself stays small, however large it is.
_BLOCK = 1 << 20
_LONGEST_ID = 200


class Monitor:
    """Watches a calibrated model's answers, window by window, without labels and with those that come late.

    `calibrator` is the file that `tune` wrote, a CalibratedModel, or a calibrator with the `profile` of its ladder.
    `inputs` says what it will be fed, "logits" or the model's own "probabilities". A window is `every` units of `at`:
    seconds, or the number of the row where no `at` is given; either all rows have one or none. `class_names` are those
    that labels may come by, without them the calibrator's own. `false_alarm` is the share of clean windows that may be
    called anything but ok; `alpha` how probable it may be that a calibration that holds (to within `tolerance`) is ever
    called broken. The newest `keep` windows are kept apart, older ones in one sum; the last `remember` rows with an id
    wait for their label.

    A row that cannot be used is counted in `rejected` by its reason, never raised. Everything kept adds exactly: merged
    monitors equal one that saw all rows.

    >>> import numpy as np, driftcal
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=2000)
    >>> def logits(noise): return 4 * np.eye(3)[y] + noise * rng.normal(size=(2000, 3))
    >>> ladder = [logits(noise) for noise in (1, 3, 6, 20)]
    >>> calibrator = driftcal.TemperatureScaling().fit(np.concatenate(ladder), np.tile(y, 4))
    >>> monitor = driftcal.Monitor(calibrator, drift_reference=driftcal.DriftReference.of(ladder, y, calibrator, temperature=driftcal.TemperatureScaling().fit(ladder[0], y).temperature_))
    >>> monitor.update(ladder[0][:500])
    500
    >>> monitor.windows()[0].state, monitor.windows()[0].looks_like
    ('ok', 'level 1 of 4 (clean)')
    """

    def __init__(
        self,
        calibrator: Calibrator | CalibratedModel | Place,
        *,
        drift_reference: DriftReference | None = None,
        class_names: Sequence[Any] | None = None,
        **settings: Any,
    ) -> None:
        self.calibrator, self.drift_reference, self.class_names = open_calibrator(
            calibrator, drift_reference, class_names
        )
        self.settings = Settings.of(settings)
        self.n_classes = len(self.class_names)
        self.sums: dict[int, Array] = {}
        self.folded: Array = np.zeros(width(self.n_classes), np.int64)
        self.origin: int | None = None
        #: Whether rows come with times; None before the first.
        self.timed: bool | None = None
        self.rejected: Counter[str] = Counter()
        #: id -> (window, fixed-point confidence, predicted column) of rows that wait for a label, oldest first
        self.waiting: OrderedDict[str, tuple[int, int, int]] = OrderedDict()
        self._lookup = ClassLookup(self.class_names)

    def update(
        self, scores: AnyArray, *, at: AnyArray = None, y: AnyArray = None, ids: Iterable[Any] | None = None
    ) -> int:
        """See a batch of rows; returns how many were used.

        `at` is the time (seconds or a date) or number of the batch or of each row; `y` labels, with None or NaN where one
        has not come yet; `ids` names by which `label` will find the rows.
        """
        rows, good, reasons = usable_rows(scores, self.n_classes, self.settings.inputs)
        self.rejected.update(reasons)
        n = len(good)
        keys, timely = window_keys(at, n, self.settings.every, self.rows)
        self.rejected.update({"bad time": int((good & ~timely).sum())} if (good & ~timely).any() else {})
        use = np.flatnonzero(good & timely)
        if len(use) and self.timed not in (None, at is not None):  # numbers of rows and times have no common order
            self.rejected["no time" if self.timed else "unexpected time"] += len(use)
            return 0
        if at is None:  # rejected rows take no number: a window holds as many rows as it should
            keys[use] = window_keys(None, len(use), self.settings.every, self.rows)[0]
        labels = listed(y, n, "y")
        names = listed(ids, n, "ids")
        self.timed = at is not None if len(use) else self.timed
        block = max(1, _BLOCK // self.n_classes)
        for start in range(0, len(use), block):
            part = use[start : start + block]
            self._see(rows[part], keys[part], [labels[i] for i in part], [names[i] for i in part])
        return len(use)

    def label(self, ids: Iterable[Any], y: Iterable[Any]) -> int:
        """Labels of rows seen before, by their ids; returns how many found their row.

        A row whose label is missing (None, NaN) or no class goes on waiting.
        """
        pairs = [(str(name), value) for name, value in zip(ids, y, strict=True) if not is_missing(value)]
        found, columns = [], []
        for (name, _), column in zip(pairs, self._lookup.columns(value for _, value in pairs).tolist(), strict=True):
            if name not in self.waiting:
                self.rejected["label without a row"] += 1
            elif column < 0:
                self.rejected["unknown label"] += 1
            else:
                found.append(self.waiting.pop(name))
                columns.append(column)
        if found:
            table = np.array(found, np.int64)
            self._learn(table[:, 0], table[:, 1], table[:, 2], np.array(columns))
        return len(found)

    def merge(self, other: Monitor) -> Monitor:
        """A new monitor that knows what both know: the same as one that saw every row of both."""
        if self.settings != other.settings or self.identity != other.identity:
            raise InputError(
                "monitors must have the same settings and calibrator to be merged; these differ. Make both in the same way."
            )
        timed = {one.timed for one in (self, other)} - {None}
        if len(timed) > 1:
            raise InputError(
                "monitors must both have seen times, or neither, to be merged; one has. Give `at` to both or to none."
            )
        merged = self._empty()
        merged.timed = next(iter(timed), None)
        merged.folded = self.folded + other.folded
        for one in (self, other):
            for key, values in one.sums.items():
                merged._add(key, values)
            merged.waiting.update(one.waiting)
            merged.rejected.update(one.rejected)
        origins = [one.origin for one in (self, other) if one.origin is not None]
        merged.origin = min(origins, default=None)
        merged._forget()
        return merged

    @property
    def rows(self) -> int:
        """Rows seen and used so far."""
        return int(self.folded[0] + sum(values[0] for values in self.sums.values()))

    @property
    def identity(self) -> str:
        """A fingerprint of calibrator and profile: what a saved monitor belongs to."""
        fitted = {name: np.asarray(getattr(self.calibrator, name)) for name in self.calibrator.fitted}
        about = {
            "kind": type(self.calibrator).__name__,
            "profile": _in_version_0_1(self.drift_reference) if self.drift_reference else None,
        }
        return fingerprint({**about, **fitted, "classes": [str(name) for name in self.calibrator.classes_]})

    def window(self, key: int) -> WindowReport:
        """One window that is kept apart."""
        setting = self.settings
        return report_window(
            key, setting.every, Sums(self.sums[key]), self.drift_reference,
            estimator=setting.estimator, false_alarm=setting.false_alarm,
        )  # fmt: skip

    def windows(self) -> list[WindowReport]:
        """Every window that is kept apart and has rows, in order of time."""
        return [self.window(key) for key in sorted(self.sums) if self.sums[key][0]]

    def summary(self) -> Summary:
        """The whole: counts, the newest window, what labels say, and what to do."""
        keys = sorted(self.sums)
        evidence = log_evidence(keys, [Sums(self.sums[key]) for key in keys], Sums(self.folded), self.origin or 0)
        total = Sums(self.folded + sum(self.sums.values(), np.zeros_like(self.folded)))
        rejected, follows = dict(sorted(self.rejected.items())), isinstance(self.calibrator, WindowedCalibrator)
        return Summary.of(total, self.windows(), rejected, evidence, self.settings.alpha, follows)

    def save(self, path: Place) -> Path:
        """Write everything the monitor knows, atomically; `Monitor.load` goes on from there with identical numbers."""
        from driftcal.monitor.checkpoint import save

        return save(self, path)

    @classmethod
    def load(
        cls,
        path: Place,
        calibrator: Calibrator | CalibratedModel | Place,
        *,
        drift_reference: DriftReference | None = None,
        class_names: Sequence[Any] | None = None,
    ) -> Self:
        """The monitor that `save` wrote, with the calibrator it was made for."""
        from driftcal.monitor.checkpoint import load

        return load(cls, path, calibrator, drift_reference=drift_reference, class_names=class_names)

    def _empty(self) -> Monitor:
        beside: dict[str, Any] = {"drift_reference": self.drift_reference, "class_names": self.class_names}
        return Monitor(self.calibrator, **beside, **dataclasses.asdict(self.settings))

    def _see(self, rows: Array, keys: Array, labels: Sequence[Any], names: Sequence[Any]) -> None:
        calibrated = self.calibrator.predict_proba(rows)
        predicted = calibrated.argmax(axis=1)
        gauges = self._gauges(rows, calibrated)
        confidence = fixed(gauges[:, 0])
        for key in np.unique(keys):
            inside = keys == key
            added = sums_of_rows(gauges[inside], predicted[inside], self.n_classes, low=self.settings.low)
            self._add(int(key), added)
        given = np.array([not is_missing(value) for value in labels], bool)
        columns = np.full(len(labels), -1)
        columns[given] = self._lookup.columns(label for label, there in zip(labels, given, strict=True) if there)
        known = columns >= 0
        if (given & ~known).any():
            self.rejected["unknown label"] += int((given & ~known).sum())
        if known.any():
            self._learn(keys[known], confidence[known], predicted[known], columns[known])
        for i in np.flatnonzero(~known).tolist():
            if names[i] is not None:
                self._remember(str(names[i]), (int(keys[i]), int(confidence[i]), int(predicted[i])))
        self._forget()

    def _gauges(self, rows: Array, calibrated: Array) -> Array:
        if self.drift_reference is not None:
            return self.drift_reference.statistics(rows, calibrated)
        plain = np.zeros((len(rows), 4))
        plain[:, 0], plain[:, 1] = calibrated.max(axis=1), softmax(np.asarray(rows, np.float64)).max(axis=1)
        return np.clip(plain, 0, 1)

    def _learn(self, keys: Array, confidence: Array, predicted: Array, columns: Array) -> None:
        for key in np.unique(keys):
            inside = keys == key
            right = predicted[inside] == columns[inside]
            self._add(
                int(key),
                sums_of_labels(confidence[inside], right, self.n_classes, tolerance=self.settings.tolerance),
            )

    def _remember(self, name: str, row: tuple[int, int, int]) -> None:
        if len(name) > _LONGEST_ID:
            self.rejected["id too long"] += 1
            return
        self.waiting[name] = row

    def _add(self, key: int, values: Array) -> None:
        """Add to a window; one that is older than all that are kept, with no room left, goes to the common sum."""
        self.origin = key if self.origin is None else min(self.origin, key)
        if key in self.sums:
            self.sums[key] = self.sums[key] + values
        else:
            self.sums[key] = values
            self._fold()

    def _fold(self) -> None:
        while len(self.sums) > self.settings.keep:
            self.folded = self.folded + self.sums.pop(min(self.sums))

    def _forget(self) -> None:
        while len(self.waiting) > self.settings.remember:
            self.waiting.popitem(last=False)


def _in_version_0_1(drift_reference: DriftReference) -> dict[str, Any]:
    """The names of version 0.1, so that the identity of its files stays the same."""
    names = {new: old for old, new in OLD_KEYS.items()}
    values = rename_keys(drift_reference.to_dict(), names)
    return {**values, "estimator": names.get(values["estimator"], values["estimator"])}
