"""A small table with columns of every kind, and models of every boosting library that are fitted on it."""

import numpy as np
import pandas as pd

N = 360
RNG = np.random.default_rng(5)


def _frame():
    frame = pd.DataFrame(
        {
            "amount": RNG.normal(size=N),
            "visits": RNG.integers(0, 30, N),
            "shop": pd.Categorical(RNG.choice(["north", "south", "west"], N), categories=["west", "north", "south"]),
            "member": RNG.random(N) < 0.4,
            "rating": pd.array(np.where(RNG.random(N) < 0.2, None, RNG.integers(1, 6, N)), dtype="Int64"),
        },
        index=pd.RangeIndex(1000, 1000 + N),
    )
    frame.loc[1005:1030, "amount"] = np.nan
    return frame


FRAME = _frame()
SCORE = FRAME["amount"].fillna(0) + FRAME["visits"] / 15 + 1.5 * (FRAME["shop"] == "north") - FRAME["member"]
THREE = np.digitize(SCORE + RNG.normal(scale=0.6, size=N), [0.8, 2.0])
TWO = (THREE > 0).astype(int)
FIT, VALIDATION, TEST = slice(0, 160), slice(160, 260), slice(260, N)


def catboost_frame(frame):
    """CatBoost takes categories as text or integers, and numbers as floats."""
    return frame.assign(rating=frame["rating"].astype("float64"))


def lightgbm_classifier(y=THREE, **options):
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=12, num_leaves=6, n_jobs=1, verbose=-1, **options).fit(FRAME[FIT], y[FIT])


def lightgbm_native(y=THREE, **options):
    import lightgbm

    settings = {"objective": "multiclass", "num_class": 3, "num_leaves": 6, "verbose": -1, "num_threads": 1, **options}
    return lightgbm.train(settings, lightgbm.Dataset(FRAME[FIT], y[FIT]), 12)


def xgboost_classifier(y=THREE):
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=12, max_depth=3, n_jobs=1, enable_categorical=True).fit(FRAME[FIT], y[FIT])


def xgboost_native(y=THREE, **options):
    import xgboost

    settings = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3, "nthread": 1, **options}
    return xgboost.train(settings, xgboost.DMatrix(FRAME[FIT], y[FIT], enable_categorical=True), 12)


def catboost_classifier(y=THREE):
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(iterations=12, depth=3, thread_count=1, verbose=0, allow_writing_files=False)
    return model.fit(catboost_frame(FRAME[FIT]), y[FIT], cat_features=["shop", "member"])


def catboost_native(y=THREE, **options):
    from catboost import CatBoost, Pool

    settings = {
        "loss_function": "MultiClass", "iterations": 12, "depth": 3, "thread_count": 1, "verbose": 0, "allow_writing_files": False,
        **options,
    }  # fmt: skip
    return CatBoost(settings).fit(Pool(catboost_frame(FRAME[FIT]), y[FIT], cat_features=["shop", "member"]))


def pipeline(y=THREE):
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer((numbers, ["amount", "visits", "rating"]), (OneHotEncoder(), ["shop", "member"]))
    return make_pipeline(columns, LogisticRegression(max_iter=500)).fit(catboost_frame(FRAME[FIT]), y[FIT])
