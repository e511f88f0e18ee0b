"""Calibrator files of driftcal 0.1 (format version 1) under the current names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftcal.errors import ArtefactError
from driftcal.types import Array

#: Old name of a method -> current name.
RENAMED = {"ladder-ts": "level-ts"}
#: Removed method -> the method to tune instead.
REMOVED = dict.fromkeys(("ladder-ec", "ladder-irm", "ladder-pts", "atc-ec", "doc-ec"), "window-ts")

#: Old name -> current name of fitted arrays, of parameters and of metadata.
_ARRAYS = {
    "last_": "last_level_",
    "feature_spread_": "feature_std_",
    "input_spread_": "input_std_",
    "gap_scale_": "margin_scale_",
}
_PARAMS = {"seed": "random_state"}
_METADATA = {"ladder": "perturbation", "profile": "drift_reference"}


def from_version_1(
    path: object, header: Mapping[str, Any], arrays: Mapping[str, Array]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays of a version 1 file as in version 2; `ArtefactError` for a removed method."""
    name = header["calibrator"]
    if name in REMOVED:
        raise ArtefactError(
            f"{path} holds the method {name!r}, which driftcal no longer has. Tune {REMOVED[name]!r} instead, or load the file with "
            "driftcal 0.1."
        )
    old_metadata = dict(header["notes"])
    tuning_metadata = old_metadata.pop("about", {})
    metadata = {_METADATA.get(key, key): value for key, value in old_metadata.items()}
    metadata |= {_PARAMS.get(key, key): value for key, value in (tuning_metadata or {}).items()}
    if "method" in metadata:
        metadata["method"] = RENAMED.get(metadata["method"], metadata["method"])
    translated = {
        **{key: value for key, value in header.items() if key not in ("notes", "scalars")},
        "calibrator": RENAMED.get(name, name),
        "params": {_PARAMS.get(key, key): value for key, value in header["params"].items()},
        "metadata": metadata,
    }
    return translated, {_ARRAYS.get(key, key): value for key, value in arrays.items()}
