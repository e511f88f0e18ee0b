"""Calibrator files of driftcal 0.1 (format version 1) in the names of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftcal.errors import ArtefactError
from driftcal.types import Array

#: Methods that have another name today.
RENAMED = {"ladder-ts": "level-ts", "ladder-ec": "level-ec", "ladder-irm": "level-irm"}
#: Methods that were removed, and the one to tune instead.
REMOVED = {"ladder-pts": "level-irm", "atc-ec": "level-ec", "doc-ec": "level-ec"}

_ARRAYS = {
    "rung_scores_": "level_scores_",
    "rung_values_": "level_values_",
    "rung_starts_": "level_starts_",
    "last_": "last_level_",
    "feature_spread_": "feature_std_",
    "input_spread_": "input_std_",
    "gap_scale_": "margin_scale_",
}
_PARAMS = {"seed": "random_state"}
_METADATA = {"ladder": "perturbation", "profile": "drift_reference"}


def from_version_1(
    path: object, note: Mapping[str, Any], arrays: Mapping[str, Array]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """The description and the arrays of a version 1 file as version 2 has them; `ArtefactError` for a removed method."""
    name = note["calibrator"]
    if name in REMOVED:
        raise ArtefactError(
            f"{path} holds the method {name!r}, which driftcal no longer has. Tune {REMOVED[name]!r} instead, or load the file with "
            "driftcal 0.1."
        )
    kept = dict(note["notes"])
    about = kept.pop("about", None)
    metadata = {_METADATA.get(key, key): value for key, value in kept.items()}
    if about is not None:
        metadata |= {_PARAMS.get(key, key): value for key, value in about.items()}
    if "method" in metadata:
        metadata["method"] = RENAMED.get(metadata["method"], metadata["method"])
    translated = {
        **{key: value for key, value in note.items() if key not in ("notes", "scalars")},
        "calibrator": RENAMED.get(name, name),
        "params": {_PARAMS.get(key, key): value for key, value in note["params"].items()},
        "metadata": metadata,
    }
    return translated, {_ARRAYS.get(key, key): value for key, value in arrays.items()}
