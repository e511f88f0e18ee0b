"""Monitors as files: safetensors with JSON metadata, protected by a digest; they contain no code."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from driftcal._version import __version__
from driftcal.errors import ArtefactError
from driftcal.io.checked_tensors import FileKind
from driftcal.io.damaged_file import as_artefact_error
from driftcal.monitor.pending_samples import PendingSample, PendingSamples
from driftcal.monitor.window_sums import SumLayout, are_possible
from driftcal.types import Array

if TYPE_CHECKING:
    from driftcal.monitor.monitor import Monitor

    M = TypeVar("M", bound=Monitor)

_KIND = FileKind("driftcal-monitor", (1, 2), "a monitor", "Monitor.save")
#: Key in files of version 1 (driftcal 0.1) -> current key.
_OLD_KEYS = {"origin": "first_window", "waiting": "pending"}
_OLD_SETTINGS = {
    "inputs": "score_type",
    "every": "window_size",
    "false_alarm": "false_alarm_rate",
    "low": "low_confidence",
    "keep": "max_windows",
    "remember": "max_pending",
}


def save(monitor: Monitor, path: str | os.PathLike[str]) -> Path:
    """Write a monitor; equal monitors give the same bytes."""
    windows = sorted(monitor.sums)
    arrays: dict[str, Array] = {
        "windows": np.array([0, *windows], np.int64),  # the first entry is for the sum of the older windows
        "sums": np.stack([monitor.older_sums, *(monitor.sums[window] for window in windows)]),
        # zeros first: a tensor of length 0 is legal but refused by some readers
        "pending": np.array([(0, 0, 0), *monitor.pending.values()], np.int64),
    }
    metadata: dict[str, Any] = {
        "library": __version__,
        "settings": dataclasses.asdict(monitor.settings),
        "identity": monitor.identity,
        "first_window": monitor.first_window,
        "timed": monitor.timed,
        "rejected": {reason: count for reason, count in sorted(monitor.rejected.items()) if count},
        "ids": list(monitor.pending),
    }
    return _KIND.write(path, arrays, metadata)


def load(kind: type[M], path: str | os.PathLike[str], calibrator: Any, **options: Any) -> M:
    """The monitor in a file, after all of it was checked. `options` are the drift reference and the class names."""
    metadata, arrays = _KIND.read(path)
    with as_artefact_error(path, "must describe a monitor; it does not", "Start without it."):
        if metadata["version"] == 1:
            metadata, arrays = _renamed(metadata, _OLD_KEYS), _renamed(arrays, _OLD_KEYS)
            metadata["settings"] = _renamed(metadata["settings"], _OLD_SETTINGS)
        monitor = kind(calibrator, **options, **metadata["settings"])
        if metadata["identity"] != monitor.identity:
            raise ArtefactError(
                f"{path} must belong to this calibrator; it was made with another one, or with another drift reference, "
                "windowed form or threshold. "
                "Pass the calibrator it was made with, or start a new monitor."
            )
        _fill(monitor, metadata, arrays)
    return monitor


def _fill(monitor: Monitor, metadata: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    _check_state(metadata, arrays, monitor.layout)
    windows, sums, pending = arrays["windows"], arrays["sums"], arrays["pending"]
    if sums.shape != (len(windows), len(monitor.older_sums)) or pending.shape != (len(metadata["ids"]) + 1, 3):
        raise ValueError(f"its tables have shapes {sums.shape} and {pending.shape}")
    monitor.older_sums = sums[0]
    monitor.sums = {int(window): values for window, values in zip(windows[1:], sums[1:], strict=True)}
    monitor.first_window = metadata["first_window"]
    monitor.timed = metadata.get("timed")  # the oldest files lack it; the next samples set it
    monitor.rejected = Counter(metadata["rejected"])
    samples = pending[1:].tolist()
    monitor.pending = PendingSamples(
        (name, PendingSample(*sample)) for name, sample in zip(metadata["ids"], samples, strict=True)
    )


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in values.items()}


def _check_state(metadata: Mapping[str, Any], arrays: Mapping[str, Array], layout: SumLayout) -> None:
    """Raise ValueError for values that a monitor does not write: the author of a file can compute its digest."""
    for name in ("windows", "sums", "pending"):
        if arrays[name].dtype != np.int64:
            raise ValueError(f"{name} must hold whole numbers of 64 bits")
    if arrays["sums"].ndim != 2 or arrays["sums"].shape[1] != layout.n_sums:
        raise ValueError(f"sums must have {layout.n_sums} columns")
    if not are_possible(arrays["sums"], layout):
        raise ValueError("sums must be those of windows; some of them contradict each other")
    if len(arrays["windows"]) < 1 or len(set(arrays["windows"][1:].tolist())) != len(arrays["windows"]) - 1:
        raise ValueError("windows must hold different numbers")
    first_window, timed, rejected, ids = (metadata.get(key) for key in ("first_window", "timed", "rejected", "ids"))
    if not (first_window is None or type(first_window) is int):
        raise ValueError("first_window must be a whole number")
    if not (timed is None or isinstance(timed, bool)):
        raise ValueError("timed must be true or false")
    if not isinstance(rejected, dict) or any(type(count) is not int or count < 0 for count in rejected.values()):
        raise ValueError("rejected must hold counts")
    if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids) or len(set(ids)) != len(ids):
        raise ValueError("ids must be different texts")
