"""Calibrators as files: safetensors with JSON metadata, whole or refused.

A file holds the calibrator's name, its parameters, its fitted numbers and a digest over all of it. Loading runs no code
from the file and checks everything before a calibrator is made from it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from driftcal._version import __version__
from driftcal.calibrators import CALIBRATORS, Calibrator, FitReport, IsotonicRegressionMulticlass, make_calibrator
from driftcal.errors import ArtefactError, DriftcalError, InputError, NotFittedError
from driftcal.io.fingerprint import fingerprint
from driftcal.io.safetensors import read_tensors, write_tensors
from driftcal.types import Array

_FORMAT = "driftcal-calibrator"
_VERSION = 1


def save(
    calibrator: Calibrator,
    path: str | os.PathLike[str],
    *,
    notes: Mapping[str, Any] | None = None,
    others: Mapping[str, Calibrator] | None = None,
) -> Path:
    """Write a fitted calibrator to `path`, atomically.

    `notes` are further plain values to keep with it, `others` further fitted calibrators by name, such as the windowed
    form and the baseline. The same calibrator gives the same bytes; after loading, probabilities are the same to the bit.
    """
    description, arrays = _describe(calibrator)
    note: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "library": __version__,
        **description,
        "notes": dict(notes or {}),
    }
    if others:
        described = {name: _describe(other) for name, other in others.items()}
        note["others"] = {name: description for name, (description, _) in described.items()}
        arrays |= {f"{name}/{key}": value for name, (_, own) in described.items() for key, value in own.items()}
    try:
        note["digest"] = _digest(note, arrays)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"notes and classes must be plain JSON values; {error}. Convert arrays to lists, NaN to None and classes to text."
        ) from error
    # a safetensors file without tensors is legal but refused by some readers
    return write_tensors(path, [arrays or {"empty": np.zeros(1)}], note)


def _describe(calibrator: Calibrator) -> tuple[dict[str, Any], dict[str, Array]]:
    """Plain values and arrays that say all about a fitted calibrator."""
    if not calibrator.__sklearn_is_fitted__():
        raise NotFittedError("only a fitted calibrator can be saved; this one is not. Call fit(logits, y) first.")
    names = [name for name, kind in CALIBRATORS.items() if kind is type(calibrator)]
    if not names:
        raise InputError(
            f"only driftcal's own calibrators can be saved; this is a {type(calibrator).__name__}. Register it in CALIBRATORS."
        )
    arrays = {name: np.atleast_1d(np.asarray(getattr(calibrator, name))) for name in calibrator.fitted}
    description = {
        "calibrator": names[0],
        "params": {key: _plain(value) for key, value in calibrator.get_params(deep=False).items()},
        "scalars": [name for name in calibrator.fitted if np.ndim(getattr(calibrator, name)) == 0],
        "classes": calibrator.classes_.tolist(),
        **({"feature_names": list(calibrator.feature_names_in_)} if hasattr(calibrator, "feature_names_in_") else {}),
        "fit_report": _without_clock(calibrator.fit_report_),
    }
    return description, arrays


def load(path: str | os.PathLike[str]) -> Calibrator:
    """The calibrator that `save` wrote to `path`, ready to predict.

    >>> import tempfile
    >>> ts = make_calibrator("ts").fit([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0]], [1, 0, 0])
    >>> where = ts.save(f"{tempfile.mkdtemp()}/ts.safetensors")
    >>> load(where).temperature_ == ts.temperature_
    True
    """
    note, arrays = _read(Path(path))
    return _restore(path, note, {name: value for name, value in arrays.items() if "/" not in name})


def load_others(path: str | os.PathLike[str]) -> dict[str, Calibrator]:
    """The further calibrators that `save` wrote beside the one that `load` gives, by name."""
    note, arrays = _read(Path(path))
    others = note.get("others", {})
    if not isinstance(others, Mapping):
        raise ArtefactError(
            f"{path} must name its further calibrators; it holds {type(others).__name__}. Save it again."
        )
    return {
        name: _restore(
            path,
            description,
            {key.removeprefix(f"{name}/"): value for key, value in arrays.items() if key.startswith(f"{name}/")},
        )
        for name, description in others.items()
    }


def _restore(path: str | os.PathLike[str], note: Mapping[str, Any], arrays: Mapping[str, Array]) -> Calibrator:
    try:
        calibrator = make_calibrator(note["calibrator"], **note["params"])
        if sorted(arrays) != sorted(calibrator.fitted):
            raise ArtefactError(f"{path} must hold {calibrator.fitted}; it holds {sorted(arrays)}. Save it again.")
        for name in calibrator.fitted:
            value = np.array(arrays[name])  # a copy of its own: the file may be replaced while we use it
            setattr(calibrator, name, value.item() if name in note["scalars"] else value)
        calibrator.classes_ = np.array(note["classes"])
        calibrator.n_features_in_ = len(calibrator.classes_)
        if "feature_names" in note:
            calibrator.feature_names_in_ = np.array(note["feature_names"], object)
        _check_shapes(calibrator)
        report = note["fit_report"]
        losses = {key: math.inf if report[key] is None else float(report[key]) for key in ("before", "after")}
        calibrator.fit_report_ = FitReport(**{**report, **losses, "warnings": tuple(report["warnings"])})
    except ArtefactError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, DriftcalError) as error:
        raise ArtefactError(
            f"{path} must describe a calibrator; it does not fit this version: {error}. Save it again."
        ) from error
    return calibrator


def notes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Everything an artefact says about itself, after checking that it is intact."""
    return _read(Path(path))[0]


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
    if type(note.get("version")) is not int or note["version"] != _VERSION:
        raise ArtefactError(
            f"{path} must have format version {_VERSION}; it has {note.get('version')!r}. "
            f"Update driftcal (this is {__version__}), or save the calibrator again."
        )
    digest = note.pop("digest", None)
    arrays = {name: value for name, value in file.arrays.items() if name != "empty"}
    try:
        intact = digest == _digest(note, arrays)
    except ValueError:  # NaN or infinity, which no artefact of ours holds
        intact = False
    if not intact:
        raise ArtefactError(f"{path} must match its own digest; it was altered or damaged. Copy or save it again.")
    return note, arrays


def _digest(note: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    return fingerprint({"note": dict(note), **{f"array {name}": value for name, value in arrays.items()}})


def _check_shapes(calibrator: Calibrator) -> None:
    """Refuse numbers that a map could not use: compiled loops trust the shapes and the order of what they read."""
    n = calibrator.n_features_in_
    if calibrator.classes_.ndim != 1 or n < 2:
        raise ValueError(f"classes must be a list of at least 2; it has shape {calibrator.classes_.shape}")
    values = {name: np.asarray(getattr(calibrator, name)) for name in calibrator.fitted}
    starts = values.pop("curve_starts_", None)
    rung_starts = values.pop("rung_starts_", None)
    for name, value in values.items():
        kind = np.float32 if name == "reference_" else np.float64  # features are many, and no more exact than the model
        if value.dtype != kind or not np.isfinite(value).all():
            raise ValueError(f"{name} must hold finite {kind.__name__} numbers")
    if "temperature_" in values and not (values["temperature_"].ndim == 0 and values["temperature_"] > 0):
        raise ValueError("temperature_ must be a positive number")
    lengths: dict[str, tuple[int, ...]] = {"weights_": (3,), "slopes_": (n,), "intercepts_": (n,)}
    if "bin_values_" in values:
        bins = values["bin_values_"].shape[-1]
        lengths |= {"bin_values_": (n, bins), "bin_edges_": (n, bins - 1)}
    if starts is not None:
        lengths |= dict.fromkeys(("curve_scores_", "curve_values_"), (int(starts[-1]),))
        curves = 1 if isinstance(calibrator, IsotonicRegressionMulticlass) else n
        if (
            starts.dtype != np.int64
            or starts.shape != (curves + 1,)
            or starts[0] != 0
            or not (np.diff(starts) > 0).all()
        ):
            raise ValueError("curve_starts_ must rise from 0, one step per curve")
    if "statistics_" in values:
        by_level = values["statistics_"].size
        lengths |= dict.fromkeys(("statistics_", "accuracies_", "temperatures_"), (by_level,)) | {"last_": ()}
        if not 0 <= values["last_"] <= by_level - 1 or not (values.get("temperatures_", np.ones(1)) > 0).all():
            raise ValueError("last_ must be a place on the ladder and temperatures_ positive")
    if rung_starts is not None:
        lengths |= dict.fromkeys(("rung_scores_", "rung_values_"), (int(rung_starts[-1]),))
        if (
            rung_starts.dtype != np.int64
            or rung_starts.shape != (by_level + 1,)
            or not (np.diff(rung_starts) > 0).all()
        ):
            raise ValueError("rung_starts_ must rise from 0, one step per rung")
    for name, shape in {**lengths, **calibrator._shapes()}.items():
        if name in values and values[name].shape != shape:
            raise ValueError(f"{name} must have shape {shape}; it has {values[name].shape}")


def _plain(value: Any) -> Any:
    """A constructor parameter as JSON can hold it."""
    if hasattr(value, "tolist"):  # numpy, pandas
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def _without_clock(report: FitReport) -> dict[str, Any]:
    # seconds differ from run to run; the bytes of an artefact must not. JSON knows no infinity: null stands for it.
    losses = {key: getattr(report, key) if math.isfinite(getattr(report, key)) else None for key in ("before", "after")}
    return {**report.to_dict(), "seconds": 0.0, **losses}
