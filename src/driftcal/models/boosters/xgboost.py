"""XGBoost: `XGBClassifier`, `Booster`, JSON and UBJSON files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from driftcal.errors import need
from driftcal.io.fingerprint import sha256_bytes
from driftcal.models.boosters.backend import Link, not_a_classifier
from driftcal.types import Array, Inputs

_LINKS: dict[str, Link] = {
    "binary:logistic": "sigmoid",
    "binary:logitraw": "sigmoid",
    "reg:logistic": "sigmoid",
    "multi:softprob": "softmax",
    "multi:softmax": "softmax",
}


class XgBoost:
    """Margins of all trees, of an `XGBClassifier` up to its best iteration."""

    framework = "xgboost"
    slope = 1.0

    def __init__(self, model: Any) -> None:
        self._model = model
        is_native = not hasattr(model, "get_booster")
        self._booster = model if is_native else model.get_booster()
        self._is_native = is_native
        classes = None if is_native else model.classes_
        self.classes: tuple[Any, ...] | None = None if classes is None else tuple(np.asarray(classes).tolist())
        objective = str(json.loads(self._booster.save_config())["learner"]["objective"]["name"])
        if objective not in _LINKS:
            raise not_a_classifier(self.framework, objective)
        self.link = _LINKS[objective]
        names = self._booster.feature_names
        self.columns: list[str] | None = None if names is None else list(names)

    def margins(self, batch: Inputs) -> Array:
        """Raw scores."""
        if not self._is_native:
            return np.asarray(self._model.predict(batch, output_margin=True))
        xgboost = need("xgboost", "boosters")
        is_frame = hasattr(batch, "columns")
        matrix = xgboost.DMatrix(batch, enable_categorical=is_frame)
        return np.asarray(self._booster.predict(matrix, output_margin=True))

    def digest(self) -> str:
        """SHA-256 over the model as UBJSON."""
        return sha256_bytes(bytes(self._booster.save_raw("ubj")))
