"""Labelled logits from a file, or from inputs and the model that a calibrator was tuned on; inputs to try a model on."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.calibrators.serialization import notes
from driftcal.data import open_source
from driftcal.errors import DataError
from driftcal.models import open_model
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.types import Array

_INPUTS = ("x", "inputs", "images", "features")
_LOGITS = ("logits", "scores")
_LABELS = ("y", "labels", "label", "targets")


@dataclass(frozen=True, eq=False)
class Labelled:
    """Logits, one label each, and groups of rows that belong together, if there are any."""

    logits: Array
    labels: Array
    groups: Array | None = None


def read_labelled(path: str | os.PathLike[str]) -> Labelled:
    """A ``.npz`` file with ``logits`` (n, classes), ``y`` and, if it has them, ``groups``; pickled arrays are refused."""
    file = Path(path)
    try:
        with open(file, "rb") as stream:
            if not stream.read(6).startswith((b"PK", b"\x93NUMPY")):
                raise ValueError("it holds no arrays of numpy")
            stream.seek(0)
            stored = np.load(stream, allow_pickle=False)
            if not isinstance(stored, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            names = (_find(file, stored.files, _LOGITS, "logits"), _find(file, stored.files, _LABELS, "labels"))
            groups = stored["groups"] if "groups" in stored.files else None
            return Labelled(stored[names[0]], stored[names[1]], groups)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {str(file)!r}.") from error
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise DataError(
            f"{str(file)!r} must be a .npz file of plain arrays; {error}. Write it with numpy.savez(path, logits=..., y=...)."
        ) from error


def read_rows(path: str | os.PathLike[str], most: int) -> Array:
    """The first rows, `most` of them, of a ``.npy`` file or of the inputs (``x``, or its only array) in a ``.npz`` file."""
    file = Path(path)
    try:
        with open(file, "rb") as stream:
            stored = np.load(stream, allow_pickle=False)
            if isinstance(stored, np.lib.npyio.NpzFile):
                only = len(stored.files) == 1
                stored = stored[stored.files[0] if only else _find(file, stored.files, _INPUTS, "inputs")]
            rows: Array = stored[:most]
            return rows
    except FileNotFoundError as error:
        raise DataError(f"there is no file {str(file)!r}.") from error
    except (ValueError, OSError, EOFError, IndexError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{str(file)!r} must be a .npy or .npz file of plain arrays; {error}. Write it with numpy.save(path, rows)."
        ) from error


def _find(file: Path, there: list[str], usual: tuple[str, ...], what: str) -> str:
    for name in usual:
        if name in there:
            return name
    hint = " If it holds inputs, name the model with --model." if what == "logits" else ""
    raise DataError(
        f"{str(file)!r} must hold {what} as {usual[0]!r}; it holds {', '.join(map(repr, there)) or 'nothing'}.{hint}"
    )


def answer_labelled(
    data: str, calibrator: str | os.PathLike[str], model: str, *, force: bool = False, **options: Any
) -> Labelled:
    """The logits that `model` gives to labelled inputs; another model than the calibrator's is refused unless `force`."""
    source = open_source(data).labelled()
    recorded = notes(calibrator)["notes"].get("model") or {}
    wish = {key: recorded[key] for key in ("preprocessing", "outputs") if key in recorded}
    opened = open_model(model, **{**wish, **options})
    opened.prepare(source.inputs(source.indices[:16]))
    tuned = CalibratedModel.load(calibrator, opened, force=force)
    source = source.with_classes(tuned.class_names)
    return Labelled(tuned.logits(source.inputs()), source.labels, source.groups)
