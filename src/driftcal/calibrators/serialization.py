"""Calibrators as files: safetensors with a JSON header.

A file holds the calibrator's name, its parameters, its fitted numbers and a digest over all of it. Loading runs no code
from the file and imports nothing that it names. It checks everything before it makes a calibrator.
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
from driftcal.errors import ArtefactError, InputError, NotFittedError
from driftcal.io.checked_tensors import digest_of_tensors, is_digest
from driftcal.io.damaged_file import as_artefact_error
from driftcal.io.safetensors import read_tensors, write_tensors
from driftcal.types import Array

_FORMAT = "driftcal-calibrator"
_VERSION = 2
#: The name of the windowed form among the further calibrators of a file.
WINDOWED_NAME = "windowed"


@dataclass(frozen=True, eq=False)
class CalibratorFile:
    """The content of the calibrator file `path`: the calibrator, others by name, and metadata.

    `description` holds the plain values of the calibrator itself: name, parameters, classes, fit report.
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

    `metadata` are further plain values. `others` are further fitted calibrators by name, such as the windowed form and
    the baselines. The same calibrator gives the same bytes. A loaded calibrator gives the same probabilities to the
    bit.
    """
    description, arrays = _describe(calibrator)
    header: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "library": __version__,
        **description,
        "metadata": dict(metadata or {}),
    }
    if others:
        described = {name: _describe(other) for name, other in others.items()}
        header["others"] = {name: description for name, (description, _) in described.items()}
        arrays |= {f"{name}/{key}": array for name, (_, fitted) in described.items() for key, array in fitted.items()}
    try:
        header["digest"] = digest_of_tensors(header, arrays)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"metadata and classes must be plain JSON values; {error}. Convert arrays to lists, NaN to None and classes to text."
        ) from error
    # a safetensors file without tensors is legal but refused by some readers
    return write_tensors(path, [arrays or {"empty": np.zeros(1)}], header)


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
    header, arrays = _read(Path(path))
    metadata, others = header.get("metadata", {}), header.get("others", {})
    if not isinstance(metadata, dict) or not isinstance(others, dict) or not isinstance(header.get("library"), str):
        raise ArtefactError(
            f"{path} must hold metadata as a JSON object, and the version that wrote it. Save it again."
        )
    restored = {}
    for name, description in others.items():
        prefix = f"{name}/"
        fitted = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
        restored[name] = _restore(path, description, fitted)
    calibrator = _restore(path, header, {name: array for name, array in arrays.items() if "/" not in name})
    description = {key: value for key, value in header.items() if key not in ("metadata", "others")}
    if (
        header["version"] == 1 and isinstance(calibrator, WindowedCalibrator) and "model" in metadata
    ):  # the windowed form only
        restored[WINDOWED_NAME], calibrator = calibrator, calibrator.per_sample()
    return CalibratorFile(Path(path), calibrator, restored, metadata, description)


def calibrator_identity(calibrator: Calibrator) -> str:
    """A fingerprint of a fitted calibrator: equal for a calibrator and what `load` makes of its file."""
    description, arrays = _describe(calibrator)
    return digest_of_tensors(description, arrays)


def _describe(calibrator: Calibrator) -> tuple[dict[str, Any], dict[str, Array]]:
    """The plain values and the arrays of a fitted calibrator."""
    if not calibrator.__sklearn_is_fitted__():
        raise NotFittedError("only a fitted calibrator can be saved; this one is not. Call fit(logits, y) first.")
    arrays = {name: np.atleast_1d(np.asarray(getattr(calibrator, name))) for name in calibrator.fitted}
    description = {
        "calibrator": name_of(calibrator),
        "params": {key: _plain(value) for key, value in calibrator.get_params(deep=False).items()},
        "classes": calibrator.classes_.tolist(),
        **({"feature_names": list(calibrator.feature_names_in_)} if hasattr(calibrator, "feature_names_in_") else {}),
        **({} if calibrator.score_type_ == "logits" else {"score_type": calibrator.score_type_}),
        "fit_report": _without_time(calibrator.fit_report_),
    }
    return description, arrays


def _restore(path: str | os.PathLike[str], description: Any, arrays: Mapping[str, Array]) -> Calibrator:
    with as_artefact_error(path, "must describe a calibrator; it does not fit this version", "Save it again."):
        name = description["calibrator"]
        if name not in CALIBRATORS:  # a file must not decide which package is imported
            raise ArtefactError(
                f"{path} holds the calibrator {name!r}, which is not known here. Register its class first: "
                f"driftcal.register_calibrator({name!r}, ItsClass); or update driftcal."
            )
        calibrator = make_calibrator(name, **description["params"])
        if sorted(arrays) != sorted(calibrator.fitted):
            raise ArtefactError(
                f"{path} must hold {list(calibrator.fitted)}; it holds {sorted(arrays)}. Save it again."
            )
        for attribute, spec in calibrator.fitted.items():
            value = np.array(arrays[attribute])  # a copy: the file may be replaced while the calibrator is used
            setattr(calibrator, attribute, value if spec.shape else value.item())
        calibrator.classes_ = np.array(description["classes"])
        calibrator.n_features_in_ = len(calibrator.classes_)
        calibrator.score_type_ = description.get("score_type", "logits")
        if "feature_names" in description:
            calibrator.feature_names_in_ = np.array(description["feature_names"], object)
        _check(calibrator)
        report = description["fit_report"]
        losses = {key: math.inf if report[key] is None else float(report[key]) for key in ("before", "after")}
        calibrator.fit_report_ = FitReport(**{**report, **losses, "warnings": tuple(report["warnings"])})
    return calibrator


def _check(calibrator: Calibrator) -> None:
    """Refuse arrays that do not fit: compiled loops do not check the shapes and the order of what they read."""
    if calibrator.classes_.ndim != 1 or len(calibrator.classes_) < 2:
        raise ValueError(f"classes must be a list of at least 2; it has shape {calibrator.classes_.shape}")
    calibrator._check_params()
    values = {name: getattr(calibrator, name) for name in calibrator.fitted}
    check_arrays(values, calibrator.fitted, calibrator.n_features_in_)
    calibrator._check_fitted()


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    if not os.path.isfile(path):
        raise ArtefactError(
            f"{path} must be a calibrator file; there is no such file. Check the path, or save one first."
        )
    try:
        file = read_tensors(path)
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read: {error.strerror or error}. Copy it again.") from error
    if file is None:
        raise ArtefactError(
            f"{path} must be an intact safetensors file; it is foreign or truncated. Copy or save it again."
        )
    header = dict(file.metadata)
    if header.get("format") != _FORMAT:
        raise ArtefactError(
            f"{path} must be a driftcal calibrator; it says {header.get('format')!r}. Pass a file written by save()."
        )
    version = header.get("version")
    if type(version) is not int or not 1 <= version <= _VERSION:
        raise ArtefactError(
            f"{path} must have format version {_VERSION} or less; it has {version!r}. "
            f"Update driftcal (this is {__version__}), or save the calibrator again."
        )
    digest = header.pop("digest", None)
    arrays = {name: value for name, value in file.arrays.items() if name != "empty"}
    if not is_digest(digest, header, arrays):
        raise ArtefactError(f"{path} must match its own digest; it was altered or damaged. Copy or save it again.")
    if version > 1:
        return header, arrays
    with as_artefact_error(path, "must describe a calibrator; it does not", "Save it again."):
        return from_version_1(path, header, arrays)


def _plain(value: Any) -> Any:
    """A constructor parameter as a plain JSON value."""
    if hasattr(value, "tolist"):  # numpy, pandas
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def _without_time(report: FitReport) -> dict[str, Any]:
    # the same fit must give the same bytes, so without its time; JSON has no infinity, so null replaces it
    losses = {key: getattr(report, key) if math.isfinite(getattr(report, key)) else None for key in ("before", "after")}
    return {**report.to_dict(), "seconds": 0.0, **losses}
