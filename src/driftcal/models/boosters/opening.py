"""Recognising boosters by their type, and opening their files. None of these files runs code."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from driftcal.errors import MissingExtra, ModelError
from driftcal.models.boosters.backend import Booster, BoosterBackend
from driftcal.models.outputs import Outputs

#: Ending of a model file -> the library that wrote it.
BOOSTER_FILES: dict[str, str] = {".txt": "lightgbm", ".json": "xgboost", ".ubj": "xgboost", ".cbm": "catboost"}

#: How the file of a library begins. Many files end in .txt or .json.
_BEGINNINGS = {"lightgbm": (b"tree\n", b"tree\r\n"), "xgboost": (b"{",), "catboost": (b"CBM1",)}

#: The types that are models; others of these libraries (data sets, regressors) are refused with their name.
_MODELS = {
    "lightgbm": ("Booster", "LGBMClassifier"),
    "xgboost": ("Booster", "XGBClassifier", "XGBRFClassifier"),
    "catboost": ("CatBoost", "CatBoostClassifier"),
}


def booster_framework(model: Any) -> str | None:
    """The boosting library of a model, by the packages of its classes, without importing it; None for other models."""
    packages = [base.__module__.partition(".")[0] for base in type(model).__mro__]
    return next((package for package in packages if package in _MODELS), None)


def from_booster(model: Any, framework: str, *, outputs: Outputs) -> BoosterBackend:
    """The adapter for a fitted classifier or a native object."""
    names = {base.__name__ for base in type(model).__mro__}
    is_regressor = any(name.endswith(("Regressor", "Ranker")) for name in names)
    if is_regressor or not names & set(_MODELS[framework]):
        raise ModelError(
            f"a model of {framework} must be one of {', '.join(_MODELS[framework])}; it is {type(model).__name__}. Pass the fitted "
            "classifier."
        )
    try:
        return BoosterBackend(_booster(model, framework), outputs=outputs)
    except ModelError:
        raise
    except Exception as error:  # each library has its own error for a model without trees
        raise ModelError(
            f"the {framework} model must be fitted; reading it failed: {type(error).__name__}: {error}. Fit it."
        ) from error


def from_booster_file(path: Path, *, outputs: Outputs) -> BoosterBackend:
    """The adapter for a model file."""
    framework = BOOSTER_FILES[path.suffix]
    with path.open("rb") as file:
        head = file.read(200)
    is_ours = head.startswith(_BEGINNINGS[framework]) and (framework != "xgboost" or b"learner" in head)
    if not is_ours:
        raise ModelError(
            f"{path.name!r} must be a model of {framework}, which its ending says; it begins with {head[:20]!r}. Write it with "
            f"{'booster.save_model(path)' if framework != 'catboost' else 'model.save_model(path)'}."
        )
    try:
        library = importlib.import_module(framework)
    except ImportError as error:
        raise MissingExtra(
            f"{path.name!r} is a model of {framework}, which is not installed ({error}). Install it with: pip install {framework}"
        ) from error
    try:
        if framework == "lightgbm" or framework == "xgboost":
            model = library.Booster(model_file=str(path))
        else:
            model = library.CatBoost().load_model(str(path))
    except Exception as error:  # LightGBMError, XGBoostError and CatBoostError share no base
        raise ModelError(
            f"{path.name!r} must be an intact model of {framework}; {framework} says: {type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else 'nothing'}. Write it again."
        ) from error
    return from_booster(model, framework, outputs=outputs)


def _booster(model: Any, framework: str) -> Booster:
    if framework == "lightgbm":
        from driftcal.models.boosters.lightgbm import LightGbm

        return LightGbm(model)
    if framework == "xgboost":
        from driftcal.models.boosters.xgboost import XgBoost

        return XgBoost(model)
    from driftcal.models.boosters.catboost import CatBoostModel

    return CatBoostModel(model)
