"""The windows of a windowed object as a file: safetensors with a JSON header, checked before anything is used."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from driftcal._version import __version__
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.errors import ArtefactError
from driftcal.io.fingerprint import fingerprint
from driftcal.io.safetensors import read_tensors, write_tensors
from driftcal.types import Array, Float64

_FORMAT = "driftcal-windows"
_VERSION = 1


def write_windows(
    path: str | os.PathLike[str],
    calibrator: WindowedCalibrator,
    window_size: int,
    windows: Sequence[tuple[str | int | None, Float64]],
) -> Path:
    """Write the statistics of the samples in each key's window."""
    names = list(calibrator.statistic_names)
    metadata = {
        "format": _FORMAT,
        "version": _VERSION,
        "library": __version__,
        "identity": _identity(calibrator),
        "window_size": window_size,
        "statistics": names,
        "keys": [key for key, _ in windows],
    }
    arrays = {
        # zeros first: a tensor of length 0 is legal but refused by some readers
        "samples": np.concatenate([np.zeros((1, len(names))), *(window for _, window in windows)]),
        "ends": np.cumsum([1, *(len(window) for _, window in windows)], dtype=np.int64),
    }
    return write_tensors(path, [arrays], {**metadata, "digest": _digest(metadata, arrays)})


def read_windows(
    path: str | os.PathLike[str], calibrator: WindowedCalibrator, window_size: int
) -> list[tuple[str | int | None, Float64]]:
    """The windows in a file that was written with the same calibrator and window size."""
    file = read_tensors(path) if Path(path).is_file() else None
    if file is None:
        raise ArtefactError(
            f"{path} must be an intact file of windows; it is missing, truncated or of another kind. Start without it."
        )
    metadata = dict(file.metadata)
    if metadata.get("format") != _FORMAT or metadata.get("version") != _VERSION:
        raise ArtefactError(
            f"{path} must be a {_FORMAT} file of version {_VERSION}; its format is {metadata.get('format')!r}, its version "
            f"{metadata.get('version')!r}. Pass a file that save() of a windowed object wrote, or update driftcal."
        )
    digest = metadata.pop("digest", None)
    arrays = {name: np.array(value) for name, value in file.arrays.items()}
    try:
        if digest != _digest(metadata, arrays):
            raise ArtefactError(f"{path} must match its own digest; it was altered or damaged. Start without it.")
        if metadata["identity"] != _identity(calibrator):
            raise ArtefactError(
                f"{path} must belong to this calibrator; it was written with another one. Pass the calibrator it was written with, "
                "or start without it."
            )
        if metadata["window_size"] != window_size:
            raise ArtefactError(
                f"{path} must hold windows of {window_size} samples; its windows have {metadata['window_size']}. "
                f"Use windowed({metadata['window_size']})."
            )
        return _windows(metadata["keys"], arrays["samples"], arrays["ends"], window_size, calibrator)
    except ArtefactError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise ArtefactError(f"{path} must hold windows; it does not: {error}. Start without it.") from error


def _windows(
    keys: Any, samples: Array, ends: Array, window_size: int, calibrator: WindowedCalibrator
) -> list[tuple[str | int | None, Float64]]:
    if not isinstance(keys, list) or any(key is not None and type(key) not in (str, int) for key in keys):
        raise ValueError("its keys must be text, whole numbers or null")
    if len(set(keys)) != len(keys) or ends.shape != (len(keys) + 1,) or ends.dtype != np.int64:
        raise ValueError(f"it has {len(keys)} keys and ends of shape {ends.shape}")
    sizes = np.diff(ends)
    if samples.dtype != np.float64 or samples.shape != (ends[-1], len(calibrator.statistic_names)) or ends[0] != 1:
        raise ValueError(f"its samples have shape {samples.shape}")
    if ((sizes < 1) | (sizes > window_size)).any() or not np.isfinite(samples).all() or (samples[1:, 0] != 1).any():
        raise ValueError("its windows must have finite statistics of at most window_size samples")
    return [(key, samples[start:end].copy()) for key, (start, end) in zip(keys, pairwise(ends), strict=True)]


def _identity(calibrator: WindowedCalibrator) -> str:
    # imported here because the file format imports the registry, which imports the windowed calibrators
    from driftcal.calibrators.serialization import calibrator_identity

    return calibrator_identity(calibrator)


def _digest(metadata: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    return fingerprint({"metadata": metadata, **{f"array {name}": value for name, value in arrays.items()}})
