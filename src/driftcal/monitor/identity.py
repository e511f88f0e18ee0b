"""The identity of a monitored calibrator: a saved monitor can be loaded with this calibrator only."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.drift.reference import OLD_KEYS, DriftReference, rename_keys
from driftcal.io.fingerprint import fingerprint


def identity_of(calibrator: Calibrator, drift_reference: DriftReference | None) -> str:
    """A fingerprint of calibrator and drift reference."""
    fitted = {name: np.asarray(getattr(calibrator, name)) for name in calibrator.fitted}
    reference = _in_version_0_1(drift_reference) if drift_reference else None
    metadata = {"kind": type(calibrator).__name__, "profile": reference}
    return fingerprint({**metadata, **fitted, "classes": [str(name) for name in calibrator.classes_]})


def _in_version_0_1(drift_reference: DriftReference) -> dict[str, Any]:
    """The drift reference under the names of version 0.1, so that the identity of its files stays the same."""
    names = {new: old for old, new in OLD_KEYS.items()}
    values = rename_keys(drift_reference.to_dict(), names)
    return {**values, "estimator": names.get(values["estimator"], values["estimator"])}
