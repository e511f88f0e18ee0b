"""LightGBM: `LGBMClassifier`, `Booster` and text files."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftcal.io.fingerprint import canonical_json, sha256_bytes
from driftcal.models.boosters.backend import Link, not_a_classifier
from driftcal.types import Array, Inputs

_LINKS: dict[str, Link] = {
    "binary": "sigmoid",
    "cross_entropy": "sigmoid",
    "multiclass": "softmax",
    "multiclassova": "one-vs-rest",
}


class LightGbm:
    """Categories are those of the training frame: LightGBM stores them and matches them by value."""

    framework = "lightgbm"
    columns: list[str] | None = None  # LightGBM compares names itself: it stores them with underscores for spaces

    def __init__(self, model: Any) -> None:
        self._model = model
        self._booster = getattr(model, "booster_", model)  # that of an LGBMClassifier
        classes = getattr(model, "classes_", None)
        self.classes: tuple[Any, ...] | None = None if classes is None else tuple(np.asarray(classes).tolist())
        self._trees = self._booster.model_to_string().partition("\nparameters:")[0]
        objective, *settings = self._header("objective").split() or ["custom"]
        if objective not in _LINKS:
            raise not_a_classifier(self.framework, objective)
        self.link = _LINKS[objective]
        named = dict(setting.split(":") for setting in settings if ":" in setting)
        self.slope = float(named.get("sigmoid", 1))
        names = self._header("feature_names").split()
        self._has_names = names != [f"Column_{j}" for j in range(len(names))]

    def margins(self, batch: Inputs) -> Array:
        """Raw scores of the best iteration."""
        has_names = self._has_names and hasattr(batch, "columns")
        # the classifier itself warns of frames that the booster takes: it compares names before the spaces are replaced
        return np.asarray(self._booster.predict(batch, raw_score=True, validate_features=has_names))

    def digest(self) -> str:
        """SHA-256 over the trees and the categories, without the parameters of the training."""
        return sha256_bytes(f"{self._trees}\n{canonical_json(self._categories())}".encode())

    def _categories(self) -> list[list[str]]:
        return [[str(value) for value in values] for values in self._booster.pandas_categorical or []]

    def _header(self, name: str) -> str:
        """The value of a line ``name=value`` in the head of the model's text."""
        lines = self._trees.partition("\nTree=")[0].splitlines()
        return next((line.partition("=")[2] for line in lines if line.startswith(f"{name}=")), "")
