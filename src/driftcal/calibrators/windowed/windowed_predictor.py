"""The windowed object: predictions for batches of any size, calibrated by the last samples."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from driftcal.calibrators.parameters import shown
from driftcal.calibrators.windowed.window_file import read_windows, write_windows
from driftcal.calibrators.windowed.windowed_calibrator import MAX_KEYS, WINDOW_SIZE, WindowedCalibrator, sum_statistics
from driftcal.core.scalars import is_whole
from driftcal.errors import InputError
from driftcal.types import AnyArray, Float64, LogProbs, Probs

#: The name of a window, such as a camera or a client; None is the window of calls without a key.
Key: TypeAlias = str | int | None
#: Whole numbers are smaller: Python does not write numbers of any length to a file.
_LARGEST_KEY = 1 << 128


@dataclass(frozen=True)
class WindowState:
    """How full a window is, and whether its confidence can be trusted.

    Parameters
    ----------
    n_samples, window_size
        Samples in the window, now and at most.
    adapts
        Whether the window changes the calibration; otherwise the per-sample form predicts. It needs enough samples, and a
        calibrator that was fitted on shifted ones.
    extrapolates
        Whether the window lies outside the shifts of the fit. None: it does not adapt, or the calibrator cannot tell.
    """

    n_samples: int
    window_size: int
    adapts: bool
    extrapolates: bool | None


class WindowedPredictor:
    """A windowed calibrator and its window: the last `window_size` samples, those of the present batch included.

    A larger batch is cut into blocks of `window_size`, each calibrated by itself. While the window has fewer samples than the
    calibrator's `min_window`, the per-sample form predicts. With a `key`, each key has a window of its own; of more than
    `max_keys` the least recently used is dropped. A window takes ``8·window_size·k`` bytes for k statistics of the calibrator.

    Threads may share the object: a batch joins its window as a whole, and its own window calibrates it. The same batches in the
    same order give the same bits.

    >>> import numpy as np
    >>> from driftcal.calibrators import make_calibrator
    >>> rng = np.random.default_rng(0)
    >>> clean, noisy = rng.normal(size=(500, 4)) * 6, rng.normal(size=(500, 4)) * 2
    >>> y = (clean + rng.normal(size=(500, 4))).argmax(axis=1)
    >>> fitted = make_calibrator("level-ts").fit(np.vstack([clean, noisy]), np.tile(y, 2), levels=[0] * 500 + [1] * 500)
    >>> live = fitted.windowed(100)
    >>> first = live.predict_proba(noisy[:1])  # one sample says nothing about the shift
    >>> bool(np.array_equal(first, fitted.predict_proba(noisy[:1])))
    True
    >>> after = live.predict_proba(noisy[:150], key="camera 7")
    >>> live.window_state("camera 7")
    WindowState(n_samples=100, window_size=100, adapts=True, extrapolates=True)
    """

    def __init__(
        self, calibrator: WindowedCalibrator, window_size: int = WINDOW_SIZE, *, max_keys: int = MAX_KEYS
    ) -> None:
        smallest = calibrator.min_window
        if not is_whole(window_size) or window_size < smallest:
            raise InputError(
                f"window_size must be a whole number of samples, {smallest} or more; it is {window_size!r}. "
                f"Smaller windows say too little about a shift; {WINDOW_SIZE} is usual."
            )
        if not is_whole(max_keys) or max_keys < 1:
            raise InputError(
                f"max_keys must be a whole number of windows, 1 or more; it is {max_keys!r}. The default is {MAX_KEYS}."
            )
        self.calibrator, self.window_size, self.max_keys = calibrator, int(window_size), int(max_keys)
        # per key, the statistics of its last samples in the order of arrival; the least recently used key first
        self._windows: OrderedDict[Key, Float64] = OrderedDict()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"WindowedPredictor({self.calibrator!r}, window_size={self.window_size}, windows of {len(self._windows)} key(s))"

    def predict_proba(self, logits: AnyArray, *, key: Key = None) -> Probs:
        """Calibrated probabilities of the next batch, which joins the window of `key` first."""
        return self._predict(logits, key, log=False)

    def predict_log_proba(self, logits: AnyArray, *, key: Key = None) -> LogProbs:
        """Calibrated log-probabilities of the next batch, which joins the window of `key` first."""
        return self._predict(logits, key, log=True)

    def observe(self, logits: AnyArray, *, key: Key = None) -> None:
        """Let a batch join the window of `key` without a prediction."""
        scores, _ = self.calibrator._checked(logits)
        self._add(scores, key)

    def window_state(self, key: Key = None) -> WindowState:
        """How full the window of `key` is, and whether it lies outside the shifts of the fit."""
        with self._lock:
            window = self._windows.get(_as_key(key))
        if window is None:
            return WindowState(0, self.window_size, adapts=False, extrapolates=None)
        adapts = self.calibrator.follows_windows and len(window) >= self.calibrator.min_window
        extrapolates = self.calibrator.extrapolates(sum_statistics(window)) if adapts else None
        return WindowState(len(window), self.window_size, adapts, extrapolates)

    @property
    def keys(self) -> list[Key]:
        """The keys that have a window, the least recently used first."""
        with self._lock:
            return list(self._windows)

    def drop(self, key: Key = None) -> None:
        """Forget the window of `key`; its next batch starts an empty one."""
        with self._lock:
            self._windows.pop(_as_key(key), None)

    def merge(self, other: WindowedPredictor, *, later: bool = False) -> None:
        """Take over the windows of another object with the same calibrator and window size.

        Afterwards this object has what it would have had if it had seen the samples of both. A window that only one of them has
        is kept or taken over. For a key that both have, the order of the samples decides, so it is refused by default.

        Parameters
        ----------
        other
            The other object; it is not changed.
        later
            Whether `other` saw all its samples after this one, as after a restart. Then a key's window is the last samples of
            this one's followed by those of `other`.
        """
        self._check_mergeable(other)
        with other._lock:
            theirs = list(other._windows.items())
        with self._lock:
            both = [key for key, _ in theirs if key in self._windows]
            if both and not later:
                raise InputError(
                    f"objects that merge must have windows of different keys; both have one of {both[0]!r}, and nothing says in which "
                    "order its samples came. Send each key to one object, or pass later=True if the other saw its samples "
                    "after this one."
                )
            n_keys = len(self._windows) + len(theirs) - len(both)
            if n_keys > self.max_keys:
                raise InputError(
                    f"max_keys must be at least {n_keys}, the keys of both objects; it is {self.max_keys}. Make this object with more."
                )
            for key, window in theirs:
                self._push(key, window)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the windows of all keys to `path`, atomically; equal states give the same bytes."""
        with self._lock:
            windows = list(self._windows.items())
        return write_windows(path, self.calibrator, self.window_size, windows)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Replace all windows by those that `save` wrote; refuse a file of another calibrator or window size.

        Of more than `max_keys` windows, the most recently used are kept.
        """
        windows = read_windows(path, self.calibrator, self.window_size)
        with self._lock:
            self._windows = OrderedDict(windows[-self.max_keys :])

    def _predict(self, logits: AnyArray, key: Key, *, log: bool) -> Float64:
        scores, shape = self.calibrator._checked(logits)
        out = np.empty(scores.shape)
        for block, sums in zip(self._blocks(len(scores)), self._add(scores, key), strict=True):
            out[block] = self.calibrator.calibrator_for(sums)._predict(scores[block], None, log=log)
        return out.reshape(*shape, scores.shape[1])

    def _blocks(self, n_samples: int) -> list[slice]:
        return [slice(low, low + self.window_size) for low in range(0, n_samples, self.window_size)]

    def _add(self, scores: Float64, key: Key) -> list[Float64]:
        """Let checked logits join a window; the sums of the window that calibrates each block of them."""
        name = _as_key(key)
        statistics = [self.calibrator.window_statistics(scores[block]) for block in self._blocks(len(scores))]
        with self._lock:  # one batch after the other, each as a whole
            return [sum_statistics(self._push(name, block)) for block in statistics]

    def _push(self, key: Key, statistics: Float64) -> Float64:
        """Append the statistics of samples to the window of `key`, which becomes the most recently used one."""
        window = self._windows.pop(key, None)
        if window is None and len(self._windows) >= self.max_keys:
            self._windows.popitem(last=False)
        joined = statistics if window is None else np.concatenate([window, statistics])
        self._windows[key] = joined[-self.window_size :].copy()
        return self._windows[key]

    def _check_mergeable(self, other: Any) -> None:
        if not isinstance(other, WindowedPredictor) or other is self:
            raise InputError(
                f"other must be another WindowedPredictor; it is {other!r}. Pass the one of another worker."
            )
        if other.window_size != self.window_size:
            raise InputError(
                f"objects that merge must have the same window_size; they have {self.window_size} and {other.window_size}. "
                "Make both with one window_size."
            )
        # imported here because the file format imports the registry, which imports the windowed calibrators
        from driftcal.calibrators.serialization import calibrator_identity

        if calibrator_identity(other.calibrator) != calibrator_identity(self.calibrator):
            raise InputError(
                "objects that merge must have the same calibrator; these have two. Load both from one calibrator file."
            )


def _as_key(key: Any) -> Key:
    if key is None or isinstance(key, str):
        return key
    if not is_whole(key) or abs(key) >= _LARGEST_KEY:
        raise InputError(
            f"key must be text or a whole number below 2**128; it is {shown(key)}. Pass a name, say of a camera."
        )
    return int(key)
