"""The windows of a windowed object as a file: safetensors with a JSON header, checked before anything is used."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from driftcal._version import __version__
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.errors import ArtefactError
from driftcal.io.checked_tensors import FileKind
from driftcal.io.damaged_file import as_artefact_error
from driftcal.types import Array, Float64

_KIND = FileKind("driftcal-windows", (1,), "windows", "save() of a windowed object")

#: No statistic of a sample is larger. The squares of such sums would be infinite, and probabilities NaN.
_TOO_LARGE = 1e100


def write_windows(
    path: str | os.PathLike[str],
    calibrator: WindowedCalibrator,
    window_size: int,
    windows: Sequence[tuple[str | int | None, Float64]],
) -> Path:
    """Write the statistics of the samples in each key's window."""
    names = list(calibrator.statistic_names)
    metadata = {
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
    return _KIND.write(path, arrays, metadata)


def read_windows(
    path: str | os.PathLike[str], calibrator: WindowedCalibrator, window_size: int
) -> list[tuple[str | int | None, Float64]]:
    """The windows in a file that was written with the same calibrator and window size."""
    metadata, arrays = _KIND.read(path)
    with as_artefact_error(path, "must hold windows; it does not", "Start without it."):
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
    is_usable = (np.abs(samples) < _TOO_LARGE).all()  # NaN is not
    if ((sizes < 1) | (sizes > window_size)).any() or not is_usable or (samples[1:, 0] != 1).any():
        raise ValueError("its windows must have finite statistics of at most window_size samples")
    return [(key, samples[start:end].copy()) for key, (start, end) in zip(keys, pairwise(ends), strict=True)]


def _identity(calibrator: WindowedCalibrator) -> str:
    # imported here because the file format imports the registry, which imports the windowed calibrators
    from driftcal.calibrators.serialization import calibrator_identity

    return calibrator_identity(calibrator)
