"""Monitors as files: safetensors with JSON metadata, whole or refused; no code in them."""

from __future__ import annotations

import dataclasses
from collections import Counter, OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from driftcal._version import __version__
from driftcal.errors import ArtefactError, DriftcalError
from driftcal.io.fingerprint import fingerprint
from driftcal.io.safetensors import read_tensors, write_tensors
from driftcal.types import Array

if TYPE_CHECKING:
    from driftcal.monitor.monitor import Monitor

    M = TypeVar("M", bound=Monitor)

_FORMAT, _VERSION = "driftcal-monitor", 1


def save(monitor: Monitor, path: Any) -> Path:
    """Write a monitor; the same numbers give the same bytes."""
    keys = sorted(monitor.sums)
    table = [monitor.folded, *(monitor.sums[key] for key in keys)]
    arrays: dict[str, Array] = {
        "windows": np.array([0, *keys], np.int64),  # the first line is the common sum of what is older
        "sums": np.stack(table),
        # a line of zeros first: a tensor without rows is legal but refused by some readers
        "waiting": np.array([(0, 0, 0), *monitor.waiting.values()], np.int64),
    }
    note: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "library": __version__,
        "settings": dataclasses.asdict(monitor.settings),
        "identity": monitor.identity,
        "origin": monitor.origin,
        "timed": monitor.timed,
        "rejected": {reason: n for reason, n in sorted(monitor.rejected.items()) if n},
        "ids": list(monitor.waiting),
    }
    return write_tensors(path, [arrays], {**note, "digest": _digest(note, arrays)})


def load(kind: type[M], path: Any, calibrator: Any, **beside: Any) -> M:
    """The monitor in a file, after checking all of it."""
    file = read_tensors(path) if Path(path).is_file() else None
    if file is None:
        raise ArtefactError(
            f"{path} must be an intact monitor file; it is absent, foreign or truncated. Start without it."
        )
    note = dict(file.metadata)
    if note.get("format") != _FORMAT or note.get("version") != _VERSION:
        raise ArtefactError(
            f"{path} must be a {_FORMAT} of version {_VERSION}; it says {note.get('format')!r}, {note.get('version')!r}. "
            "Pass a file that Monitor.save wrote, or update driftcal."
        )
    digest = note.pop("digest", None)
    arrays = {name: np.array(value) for name, value in file.arrays.items()}
    try:
        if digest != _digest(note, arrays):
            raise ArtefactError(f"{path} must match its own digest; it was altered or damaged. Start without it.")
        monitor = kind(calibrator, **beside, **note["settings"])
        if note["identity"] != monitor.identity:
            raise ArtefactError(
                f"{path} must belong to this calibrator; it was made with another one, or with another profile. "
                "Pass the calibrator it was made with, or start a new monitor."
            )
        _fill(monitor, note, arrays)
    except ArtefactError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, DriftcalError) as error:
        raise ArtefactError(f"{path} must describe a monitor; it does not: {error}. Start without it.") from error
    return monitor


def _fill(monitor: Monitor, note: dict[str, Any], arrays: dict[str, Array]) -> None:
    keys, sums, waiting = arrays["windows"], arrays["sums"], arrays["waiting"]
    if sums.shape != (len(keys), len(monitor.folded)) or waiting.shape != (len(note["ids"]) + 1, 3):
        raise ValueError(f"its tables have shapes {sums.shape} and {waiting.shape}")
    monitor.folded = sums[0]
    monitor.sums = {int(key): values for key, values in zip(keys[1:], sums[1:], strict=True)}
    monitor.origin = note["origin"]
    monitor.timed = note.get("timed")  # older files do not say: the next rows do
    monitor.rejected = Counter(note["rejected"])
    rows = waiting[1:].tolist()
    monitor.waiting = OrderedDict((name, (row[0], row[1], row[2])) for name, row in zip(note["ids"], rows, strict=True))


def _digest(note: dict[str, Any], arrays: dict[str, Array]) -> str:
    return fingerprint({"note": note, **{f"array {name}": value for name, value in arrays.items()}})
