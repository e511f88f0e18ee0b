"""LightGBM, XGBoost and CatBoost: their scikit-learn classifiers, their native objects and their model files."""

from driftcal.models.boosters.backend import BoosterBackend
from driftcal.models.boosters.opening import BOOSTER_FILES, booster_framework, from_booster, from_booster_file

__all__ = ["BOOSTER_FILES", "BoosterBackend", "booster_framework", "from_booster", "from_booster_file"]
