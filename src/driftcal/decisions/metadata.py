"""The threshold and the coverage curve in the metadata of a calibrator file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftcal.decisions.coverage_curve import CoverageCurve
from driftcal.decisions.threshold import Threshold
from driftcal.errors import ArtefactError

#: The key in the metadata, and the version of its entry.
DECISIONS, _VERSION = "decisions", 1


@dataclass(frozen=True, eq=False)
class Decisions:
    """A coverage curve of validation samples and a threshold; None where a file has none."""

    curve: CoverageCurve | None = None
    threshold: Threshold | None = None


def decisions_to_metadata(curve: CoverageCurve | None, threshold: Threshold | None) -> dict[str, Any]:
    """The entry of the metadata; empty if there is neither."""
    entry = {name: part.to_dict() for name, part in (("curve", curve), ("threshold", threshold)) if part is not None}
    return {DECISIONS: {"version": _VERSION, **entry}} if entry else {}


def decisions_from_metadata(metadata: Mapping[str, Any], path: object = "the file") -> Decisions:
    """What `decisions_to_metadata` wrote, checked; nothing for files of earlier versions."""
    entry = metadata.get(DECISIONS)
    if entry is None:
        return Decisions()
    try:
        if entry["version"] != _VERSION:
            raise ValueError(f"its version is {entry['version']!r}, and {_VERSION} is known")
        curve, threshold = entry.get("curve"), entry.get("threshold")
        return Decisions(
            None if curve is None else CoverageCurve.from_dict(curve),
            None if threshold is None else Threshold.from_dict(threshold),
        )
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
        raise ArtefactError(f"{path} must hold a threshold that fits this version; {error}. Save it again.") from error
