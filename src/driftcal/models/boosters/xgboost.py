"""XGBoost: `XGBClassifier`, `Booster`, JSON and UBJSON files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from driftcal.io.fingerprint import fingerprint
from driftcal.models.boosters.backend import Link, not_a_classifier
from driftcal.models.sklearn import as_fitted
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
        import xgboost  # installed, because the model is one of its objects

        batch = as_fitted(batch, self.columns)
        matrix = xgboost.DMatrix(batch, enable_categorical=hasattr(batch, "columns"))
        return np.asarray(self._booster.predict(matrix, output_margin=True))

    def digest(self) -> str:
        """SHA-256 over the trees and the objective, without attributes: a classifier adds some to its file."""
        learner = json.loads(bytes(self._booster.save_raw("json")))["learner"]
        learner.pop("attributes", None)
        # a classifier that was stopped early predicts with its first trees only
        used = None if self._is_native else getattr(self._model, "best_iteration", None)
        return fingerprint({"learner": learner, "best_iteration": used})
