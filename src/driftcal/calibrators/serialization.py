"""Calibrators as files: safetensors with JSON metadata, whole or refused.

A file holds the calibrator's name, its parameters, its fitted numbers and a digest over all of it. Loading runs no code
from the file, imports nothing that it names, and checks everything before a calibrator is made from it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftcal._version import __version__
from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.fitted_array import check_arrays
from driftcal.calibrators.registry import CALIBRATORS, make_calibrator, name_of
from driftcal.calibrators.version_1 import from_version_1
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.errors import ArtefactError, DriftcalError, InputError, NotFittedError
from driftcal.io.fingerprint import fingerprint
from driftcal.io.safetensors import read_tensors, write_tensors
from driftcal.types import Array

_FORMAT = "driftcal-calibrator"
_VERSION = 2
#: The name of the windowed form among the further calibrators of a file.
WINDOWED_NAME = "windowed"


@dataclass(frozen=True, eq=False)
class CalibratorFile:
    """What the calibrator file `path` holds: the calibrator, further ones by name, and metadata.

    `description` is what the file says about the calibrator itself: name, parameters, classes, fit report.
    """

    path: Path
    calibrator: Calibrator
    others: Mapping[str, Calibrator]
    metadata: Mapping[str, Any]
    description: Mapping[str, Any]


def save(
    calibrator: Calibrator,
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, Any] | None = None,
    others: Mapping[str, Calibrator] | None = None,
) -> Path:
    """Write a fitted calibrator to `path`, atomically.

    `metadata` are further plain values to keep with it; `others` are further fitted calibrators by name, such as the windowed
    form and the baseline. The same calibrator gives the same bytes; after loading, probabilities are the same to the bit.
    """
    description, arrays = _describe(calibrator)
    note: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "library": __version__,
        **description,
        "metadata": dict(metadata or {}),
    }
    if others:
        described = {name: _describe(other) for name, other in others.items()}
        note["others"] = {name: description for name, (description, _) in described.items()}
        arrays |= {f"{name}/{key}": value for name, (_, own) in described.items() for key, value in own.items()}
    try:
        note["digest"] = _digest(note, arrays)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"metadata and classes must be plain JSON values; {error}. Convert arrays to lists, NaN to None and classes to text."
        ) from error
    # a safetensors file without tensors is legal but refused by some readers
    return write_tensors(path, [arrays or {"empty": np.zeros(1)}], note)


def load(path: str | os.PathLike[str]) -> Calibrator:
    """The calibrator that `save` wrote to `path`, ready to predict.

    >>> import tempfile
    >>> ts = make_calibrator("ts").fit([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0]], [1, 0, 0])
    >>> path = ts.save(f"{tempfile.mkdtemp()}/ts.safetensors")
    >>> load(path).temperature_ == ts.temperature_
    True
    """
    return load_file(path).calibrator


def load_file(path: str | os.PathLike[str]) -> CalibratorFile:
    """Everything that `save` wrote to `path`, checked."""
    note, arrays = _read(Path(path))
    own = {name: value for name, value in arrays.items() if "/" not in name}
    metadata, others = note.get("metadata", {}), note.get("others", {})
    if not isinstance(metadata, dict) or not isinstance(others, dict):
        raise ArtefactError(f"{path} must hold metadata as a JSON object; it does not. Save it again.")
    restored = {}
    for name, description in others.items():
        prefix = f"{name}/"
        parts = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
        restored[name] = _restore(path, description, parts)
    kept = {key: value for key, value in note.items() if key not in ("metadata", "others")}
    calibrator = _restore(path, note, own)
    if (
        note["version"] == 1 and isinstance(calibrator, WindowedCalibrator) and "model" in metadata
    ):  # the windowed form only
        restored[WINDOWED_NAME], calibrator = calibrator, calibrator.per_sample()
    return CalibratorFile(Path(path), calibrator, restored, metadata, kept)


def _describe(calibrator: Calibrator) -> tuple[dict[str, Any], dict[str, Array]]:
    """Plain values and arrays that say all about a fitted calibrator."""
    if not calibrator.__sklearn_is_fitted__():
        raise NotFittedError("only a fitted calibrator can be saved; this one is not. Call fit(logits, y) first.")
    arrays = {name: np.atleast_1d(np.asarray(getattr(calibrator, name))) for name in calibrator.fitted}
    description = {
        "calibrator": name_of(calibrator),
        "params": {key: _plain(value) for key, value in calibrator.get_params(deep=False).items()},
        "classes": calibrator.classes_.tolist(),
        **({"feature_names": list(calibrator.feature_names_in_)} if hasattr(calibrator, "feature_names_in_") else {}),
        **({} if calibrator.score_type_ == "logits" else {"score_type": calibrator.score_type_}),
        "fit_report": _without_clock(calibrator.fit_report_),
    }
    return description, arrays


def _restore(path: str | os.PathLike[str], note: Any, arrays: Mapping[str, Array]) -> Calibrator:
    try:
        name = note["calibrator"]
        if name not in CALIBRATORS:  # importing a package because a file names it would run code on a file's behalf
            raise ArtefactError(
                f"{path} holds the calibrator {name!r}, which is not known here. Import the package that registers it "
                "(driftcal.register_calibrator), or update driftcal."
            )
        calibrator = make_calibrator(name, **note["params"])
        if sorted(arrays) != sorted(calibrator.fitted):
            raise ArtefactError(
                f"{path} must hold {list(calibrator.fitted)}; it holds {sorted(arrays)}. Save it again."
            )
        for attribute, spec in calibrator.fitted.items():
            value = np.array(arrays[attribute])  # a copy of its own: the file may be replaced while we use it
            setattr(calibrator, attribute, value if spec.shape else value.item())
        calibrator.classes_ = np.array(note["classes"])
        calibrator.n_features_in_ = len(calibrator.classes_)
        calibrator.score_type_ = note.get("score_type", "logits")
        if "feature_names" in note:
            calibrator.feature_names_in_ = np.array(note["feature_names"], object)
        _check(calibrator)
        report = note["fit_report"]
        losses = {key: math.inf if report[key] is None else float(report[key]) for key in ("before", "after")}
        calibrator.fit_report_ = FitReport(**{**report, **losses, "warnings": tuple(report["warnings"])})
    except ArtefactError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError, DriftcalError) as error:
        raise ArtefactError(
            f"{path} must describe a calibrator; it does not fit this version: {error}. Save it again."
        ) from error
    return calibrator


def _check(calibrator: Calibrator) -> None:
    """Refuse what a map could not use: compiled loops trust the shapes and the order of what they read."""
    if calibrator.classes_.ndim != 1 or len(calibrator.classes_) < 2:
        raise ValueError(f"classes must be a list of at least 2; it has shape {calibrator.classes_.shape}")
    calibrator._check_params()
    values = {name: getattr(calibrator, name) for name in calibrator.fitted}
    check_arrays(values, calibrator.fitted, calibrator.n_features_in_)
    calibrator._check_fitted()


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    if not path.is_file():
        raise ArtefactError(
            f"{path} must be a calibrator file; there is no such file. Check the path, or save one first."
        )
    file = read_tensors(path)
    if file is None:
        raise ArtefactError(
            f"{path} must be an intact safetensors file; it is foreign or truncated. Copy or save it again."
        )
    note = dict(file.metadata)
    if note.get("format") != _FORMAT:
        raise ArtefactError(
            f"{path} must be a driftcal calibrator; it says {note.get('format')!r}. Pass a file written by save()."
        )
    version = note.get("version")
    if type(version) is not int or not 1 <= version <= _VERSION:
        raise ArtefactError(
            f"{path} must have format version {_VERSION} or less; it has {version!r}. "
            f"Update driftcal (this is {__version__}), or save the calibrator again."
        )
    digest = note.pop("digest", None)
    arrays = {name: value for name, value in file.arrays.items() if name != "empty"}
    try:
        intact = digest == _digest(note, arrays)
    except ValueError:  # NaN or infinity, which no file of ours holds
        intact = False
    if not intact:
        raise ArtefactError(f"{path} must match its own digest; it was altered or damaged. Copy or save it again.")
    return from_version_1(path, note, arrays) if version == 1 else (note, arrays)


def _digest(note: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    return fingerprint({"note": dict(note), **{f"array {name}": value for name, value in arrays.items()}})


def _plain(value: Any) -> Any:
    """A constructor parameter as JSON can hold it."""
    if hasattr(value, "tolist"):  # numpy, pandas
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def _without_clock(report: FitReport) -> dict[str, Any]:
    # seconds differ from run to run; the bytes of a file must not. JSON knows no infinity: null stands for it.
    losses = {key: getattr(report, key) if math.isfinite(getattr(report, key)) else None for key in ("before", "after")}
    return {**report.to_dict(), "seconds": 0.0, **losses}
