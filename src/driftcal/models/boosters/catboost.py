"""CatBoost: `CatBoostClassifier`, `CatBoost` and ``.cbm`` files."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.io.fingerprint import fingerprint
from driftcal.models.boosters.backend import Link, not_a_classifier
from driftcal.models.sklearn import as_fitted
from driftcal.types import Array, Inputs

_LINKS: dict[str, Link] = {
    "Logloss": "sigmoid",
    "CrossEntropy": "sigmoid",
    "MultiClass": "softmax",
    "MultiClassOneVsAll": "one-vs-rest",
}


class CatBoostModel:
    """Its categorical columns hold text or integers, as in training."""

    framework = "catboost"
    slope = 1.0

    def __init__(self, model: Any) -> None:
        self._model = model
        classes = np.asarray(model.classes_).tolist()
        self.classes: tuple[Any, ...] | None = tuple(classes) or None  # CrossEntropy stores none
        self._objective = str(model.get_all_params().get("loss_function", "custom")).partition(":")[0]
        if self._objective not in _LINKS:
            raise not_a_classifier(self.framework, self._objective)
        self.link = _LINKS[self._objective]
        names = list(model.feature_names_)  # those of a matrix are its column numbers
        self.columns: list[str] | None = None if names == [str(j) for j in range(len(names))] else names

    def margins(self, batch: Inputs) -> Array:
        """Raw scores."""
        return np.asarray(self._model.predict(as_fitted(batch, self.columns), prediction_type="RawFormulaVal"))

    def digest(self) -> str:
        """SHA-256 over the trees, without the time and the settings of the training, which a file rounds."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.json"
            self._model.save_model(str(file), format="json")
            model = json.loads(file.read_text(encoding="utf-8"))
        model.pop("model_info", None)
        return fingerprint({"model": model, "objective": self._objective})
