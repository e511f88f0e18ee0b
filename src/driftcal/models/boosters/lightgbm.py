"""LightGBM: `LGBMClassifier`, `Booster` and text files."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftcal.core.inputs.frames import is_frame
from driftcal.core.validation import check_columns
from driftcal.errors import InputError
from driftcal.io.fingerprint import canonical_json, sha256_bytes
from driftcal.models.boosters.backend import Link, not_a_classifier
from driftcal.models.sklearn import as_fitted
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
    columns: list[str] | None = None  # `margins` compares names: LightGBM stores them with underscores for spaces

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
        self._names = None if names == [f"Column_{j}" for j in range(len(names))] else names

    def margins(self, batch: Inputs) -> Array:
        """Raw scores of the best iteration."""
        if is_frame(batch):
            if self._names is None:
                batch = as_fitted(batch, None)
            else:
                batch = batch.rename(columns=lambda name: str(name).replace(" ", "_"))
                check_columns(batch, self._names, "inputs", "model", InputError)
        return np.asarray(self._booster.predict(batch, raw_score=True))

    def digest(self) -> str:
        """SHA-256 over the trees and the categories, without the parameters of the training."""
        return sha256_bytes(f"{self._trees}\n{canonical_json(self._categories())}".encode())

    def _categories(self) -> list[list[str]]:
        return [[str(value) for value in values] for values in self._booster.pandas_categorical or []]

    def _header(self, name: str) -> str:
        """The value of a line ``name=value`` in the head of the model's text."""
        lines = self._trees.partition("\nTree=")[0].splitlines()
        return next((line.partition("=")[2] for line in lines if line.startswith(f"{name}=")), "")
