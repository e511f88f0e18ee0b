"""LightGBM, XGBoost and CatBoost: margins are logits, of wrappers, native objects and files."""

import warnings

import numpy as np
import pandas as pd
import pytest

from driftcal.errors import InputError, ModelError
from driftcal.models import open_model
from tests.helpers import tables
from tests.helpers.tables import FRAME, TEST, TWO, catboost_frame


def softmax(logits):
    e = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def xgboost_probabilities(model, frame):
    import xgboost

    return model.predict(xgboost.DMatrix(frame, enable_categorical=True))


MODELS = {
    "lightgbm": (tables.lightgbm_classifier, lambda model, frame: model.predict_proba(frame)),
    "lightgbm native": (tables.lightgbm_native, lambda model, frame: model.predict(frame)),
    "xgboost": (tables.xgboost_classifier, lambda model, frame: model.predict_proba(frame)),
    "xgboost native": (tables.xgboost_native, xgboost_probabilities),
    "catboost": (tables.catboost_classifier, lambda model, frame: model.predict_proba(frame)),
    "catboost native": (
        tables.catboost_native, lambda model, frame: model.predict(frame, prediction_type="Probability"),
    ),
}  # fmt: skip
BINARY_OPTIONS = {
    "lightgbm native": {"objective": "binary", "num_class": 1, "sigmoid": 2.0},
    "xgboost native": {"objective": "binary:logistic", "num_class": 0},
    "catboost native": {"loss_function": "Logloss"},
}


def frame_for(name):
    return catboost_frame(FRAME[TEST]) if name.startswith("catboost") else FRAME[TEST]


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_the_margins_of_the_library(name):
    make, probabilities = MODELS[name]
    model, frame = make(), frame_for(name)
    opened = open_model(model)
    assert opened.framework == name.split()[0]
    logits = opened.logits(frame)
    np.testing.assert_allclose(softmax(logits), probabilities(model, frame), atol=1e-6)
    np.testing.assert_array_equal(open_model(model, batch_size=7).logits(frame), logits)
    as_probabilities = open_model(model, outputs="probabilities").logits(frame)
    np.testing.assert_allclose(softmax(as_probabilities), softmax(logits), atol=1e-6)

    binary = make(TWO, **BINARY_OPTIONS.get(name, {}))
    logits = open_model(binary).logits(frame)
    assert (logits[:, 0] == 0).all()
    expected = np.asarray(probabilities(binary, frame))
    np.testing.assert_allclose(softmax(logits)[:, 1], expected if expected.ndim == 1 else expected[:, 1], atol=1e-6)
    assert open_model(binary).fingerprint != opened.fingerprint


@pytest.mark.parametrize(("name", "ending"), [("lightgbm", ".txt"), ("xgboost", ".json"), ("xgboost", ".ubj"), ("catboost", ".cbm")])  # fmt: skip
def test_a_file_is_the_same_model(tmp_path, name, ending):
    for kind in (name, f"{name} native"):
        model, path = MODELS[kind][0](), tmp_path / f"trees{ending}"
        (model.booster_ if kind == "lightgbm" else model).save_model(str(path))
        opened = open_model(path)
        np.testing.assert_array_equal(opened.logits(frame_for(name)), open_model(model).logits(frame_for(name)))
        assert opened.fingerprint == open_model(model).fingerprint
        path.write_bytes(path.read_bytes()[:150] if ending != ".json" else b'{"learner": 3}')
        with pytest.raises(ModelError, match=f"intact model of {name}|must be fitted|must be that of a classifier"):
            open_model(path)
    path.write_text("1,2,3")
    with pytest.raises(ModelError, match=f"must be a model of {name}, which its ending says; it begins with b'1,2,3'"):
        open_model(path)


def test_one_against_the_rest_is_normalised():
    model = tables.lightgbm_native(objective="multiclassova")
    each = model.predict(FRAME[TEST])
    np.testing.assert_allclose(
        softmax(open_model(model).logits(FRAME[TEST])), each / each.sum(axis=1, keepdims=True), atol=1e-6
    )


def test_what_is_no_classifier_is_refused(tmp_path):
    from catboost import CatBoostRegressor
    from lightgbm import LGBMRegressor
    from xgboost import XGBClassifier

    small = FRAME[["amount", "visits"]].fillna(0)[:50]
    with pytest.raises(ModelError, match="it is LGBMRegressor"):
        open_model(LGBMRegressor(n_estimators=2, verbose=-1).fit(small, TWO[:50]))
    with pytest.raises(ModelError, match="it is CatBoostRegressor"):
        open_model(CatBoostRegressor(iterations=2, verbose=0, allow_writing_files=False).fit(small, TWO[:50]))
    with pytest.raises(ModelError, match=r"objective of the xgboost model must be that of a classifier.*squarederror"):
        open_model(tables.xgboost_native(objective="reg:squarederror", num_class=0))
    with pytest.raises(ModelError, match="must be fitted"):
        open_model(XGBClassifier())
    (tmp_path / "old.model").write_bytes(b"binf")
    with pytest.raises(ModelError, match=r"Write an XGBoost model as model\.ubj"):
        open_model(tmp_path / "old.model")


@pytest.mark.parametrize("name", MODELS)
def test_a_table_with_other_columns_is_refused(name):
    model = open_model(MODELS[name][0]())
    frame = frame_for(name)
    assert model.logits(frame).shape == (100, 3)
    with pytest.raises((ModelError, InputError), match="columns"):
        model.logits(frame[["visits", "amount", "shop", "member", "rating"]])
    with pytest.raises(InputError, match="preprocessing is for images and matrices; the inputs are a table"):
        open_model(MODELS[name][0](), preprocessing={"scale": 2}).logits(frame)


def test_columns_of_numbers_that_differ_are_named():
    """LightGBM took a frame of numbers as a matrix: other columns in the same number were not noticed."""
    from lightgbm import LGBMClassifier

    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(len(TWO), 3)), columns=["age", "net income", "debt"])
    model = open_model(LGBMClassifier(n_estimators=3, verbose=-1).fit(frame, TWO))
    assert model.logits(frame).shape == (len(TWO), 2)
    for changed, message in (
        (frame.drop(columns="debt"), r"; 'debt' is missing\. Add"),
        (frame.assign(height=0.0), r"; 'height' is not among them\. Pass inputs\[model"),
        (frame[["debt", "age", "net income"]], r"same order, \['age', 'net_income', 'debt'\]"),
    ):
        with pytest.raises(InputError, match=message):
            model.logits(changed)


def test_a_message_of_a_library_has_one_full_stop():
    from lightgbm import LGBMClassifier

    x = FRAME[["amount", "visits"]].to_numpy()
    model = open_model(LGBMClassifier(n_estimators=3, verbose=-1).fit(x, TWO))
    with pytest.raises(ModelError, match=r"[^.]\. Has the batch the columns"):
        model.logits(x[:, :1])


def test_a_matrix_with_missing_values():
    from lightgbm import LGBMClassifier

    x = FRAME[["amount", "visits"]].to_numpy()
    model = LGBMClassifier(n_estimators=5, verbose=-1).fit(x, TWO)
    logits = open_model(model).logits(x)
    assert np.isnan(x).any()
    np.testing.assert_allclose(softmax(logits), model.predict_proba(x), atol=1e-6)


def test_our_calls_of_lightgbm_do_not_warn():
    """LGBMClassifier compares column names before it replaces their spaces, and warned about its own training frame."""
    import lightgbm

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["one name", "another name"])
    y = (frame.sum(axis=1) > 0).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1).fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_name = open_model(model).logits(frame)
        by_position = open_model(model).logits(frame.to_numpy())
    np.testing.assert_array_equal(by_name, by_position)


@pytest.mark.parametrize("framework", ["lightgbm", "xgboost"])
def test_errors_of_the_libraries_are_ours(framework):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    if framework == "lightgbm":
        import lightgbm

        classifier = lightgbm.LGBMClassifier(n_estimators=2, num_leaves=3, n_jobs=1, verbose=-1)
    else:
        import xgboost

        classifier = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1)
    model = open_model(classifier.fit(x, y))
    with pytest.raises(ModelError, match=rf"the {framework} model must predict for this batch; it says: \w+: "):
        model.logits(x[:5, :2])


def test_a_damaged_file_of_catboost_gives_an_error_of_ours(tmp_path):
    import catboost

    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    options = {"iterations": 2, "depth": 2, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
    catboost.CatBoostClassifier(**options).fit(x, np.arange(60) % 2).save_model(str(tmp_path / "a.cbm"))
    content = (tmp_path / "a.cbm").read_bytes()
    assert b"Other info" in content
    (tmp_path / "a.cbm").write_bytes(content.replace(b"Other info", b"\xffther info"))
    with pytest.raises(ModelError, match="must write its trees"):
        _ = open_model(tmp_path / "a.cbm").fingerprint
