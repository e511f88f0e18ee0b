"""What the file of a calibrated model says beside its calibrators, checked: whoever writes a file can say anything in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from driftcal.calibrators.serialization import CalibratorFile
from driftcal.errors import ArtefactError, DriftcalError
from driftcal.io.limits import IMAGE_PIXELS
from driftcal.models.preprocessing import Preprocessing

_Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_perturbation(value: Any) -> bool:
    return value is None or (
        _is_object(value) and _is_text(value.get("shift")) and isinstance(value.get("levels"), list | tuple)
    )


def _is_data(value: Any) -> bool:
    return _is_object(value) and _is_text(value.get("name")) and _is_text(value.get("fingerprint"))


#: Entry -> its check and what it must be. The entries of the model must be there.
_MODEL: dict[str, tuple[_Check, str]] = {
    "name": (_is_text, "text"),
    "framework": (_is_text, "text"),
    "outputs": (_is_text, "text"),
    "fingerprint": (_is_text, "text"),
    "preprocessing": (_is_object, "an object"),
}
_OTHERS: dict[str, tuple[_Check, str]] = {
    "method": (_is_text, "text"),
    "tuned_on": (_is_text, "text"),
    "explanation": (_is_text, "text"),
    "class_names": (_is_texts, "a list of text"),
    "layers": (_is_texts, "a list of text"),
    "perturbation": (_is_perturbation, "an object with a shift and levels"),
    "drift_reference": (lambda value: value is None or _is_object(value), "an object"),
    "validation": (_is_data, "an object with a name and a fingerprint"),
}


def checked_metadata(file: CalibratorFile) -> dict[str, Any]:
    """A copy of the metadata of a calibrator's file, with the types that a calibrated model writes. It may lack any entry."""
    metadata = dict(file.metadata)
    entries = {name: metadata[name] for name in _OTHERS if name in metadata}
    _check_entries(file, "", _OTHERS, entries)
    names = metadata.get("class_names") or ()
    if len(names) not in (0, file.calibrator.n_features_in_):
        raise ArtefactError(
            f"{file.path} must name each of the {file.calibrator.n_features_in_} classes; it has {len(names)} names. Save it again."
        )
    recorded = metadata.get("model")
    if recorded is not None:
        if not isinstance(recorded, Mapping):
            raise ArtefactError(f"{file.path} must describe its model; it has {str(recorded)[:50]!r}. Save it again.")
        _check_entries(file, "model.", _MODEL, {name: recorded.get(name) for name in _MODEL})
        _check_entries(file, "", _OTHERS, {"method": metadata.get("method")})
        _check_preprocessing(file, recorded["preprocessing"])
    return metadata


def _check_entries(
    file: CalibratorFile, owner: str, checks: Mapping[str, tuple[_Check, str]], values: Mapping[str, Any]
) -> None:
    for name, value in values.items():
        is_valid, expected = checks[name]
        if not is_valid(value):
            raise ArtefactError(
                f"{file.path} must have {owner}{name} as {expected}; it has {str(value)[:50]!r}. Save it again."
            )


def _check_preprocessing(file: CalibratorFile, values: Mapping[str, Any]) -> None:
    """Refuse steps that cannot be made, and images that a few bytes would make huge."""
    try:
        size = Preprocessing.from_dict(values).size
    except (DriftcalError, TypeError, ValueError, OverflowError) as error:
        raise ArtefactError(f"{file.path} must have preprocessing of this version; {error} Save it again.") from error
    if size is not None and math.prod(size) > IMAGE_PIXELS.value():
        raise ArtefactError(
            f"{file.path} must scale images to at most {IMAGE_PIXELS.value():,} pixels; it asks for {size[0]:,} x {size[1]:,}. "
            f"{IMAGE_PIXELS.way_out()}"
        )
