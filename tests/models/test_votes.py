"""Forests and neighbours give shares of votes: temperature scaling is usable on them, and the explanation says how."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import driftcal
from driftcal.models.votes import n_votes

X, Y = make_classification(900, 10, n_informative=5, n_classes=3, flip_y=0.1, random_state=0)
FOREST = RandomForestClassifier(20, random_state=0).fit(X[:300], Y[:300])
MODELS = {
    "forest": FOREST,
    "extra trees": ExtraTreesClassifier(15, random_state=0).fit(X[:300], Y[:300]),
    "bagging": BaggingClassifier(n_estimators=12, random_state=0).fit(X[:300], Y[:300]),
    "neighbours": KNeighborsClassifier(9).fit(X[:300], Y[:300]),
    "pipeline": make_pipeline(StandardScaler(), RandomForestClassifier(11, random_state=0)).fit(X[:300], Y[:300]),
    "search": GridSearchCV(RandomForestClassifier(random_state=0), {"n_estimators": [8]}, cv=2).fit(X[:300], Y[:300]),
}
VOTES = {"forest": 20, "extra trees": 15, "bagging": 12, "neighbours": 9, "pipeline": 11, "search": 8}


@pytest.mark.parametrize("name", MODELS)
def test_temperature_scaling_is_usable_and_says_what_changed(name):
    model = MODELS[name]
    assert n_votes(model) == VOTES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrated = driftcal.tune(model, X[300:600], Y[300:600], method="ts", shift=None)
    assert f"averages {VOTES[name]} votes" in calibrated.explanation
    votes = model.predict_proba(X[600:])
    assert (votes == 0).any()
    smoothed = np.exp(driftcal.open_model(model).logits(X[600:]).astype(np.float64))
    np.testing.assert_allclose(smoothed.sum(axis=1), 1, atol=1e-6)
    assert np.abs(smoothed - votes).max() <= 1 / (VOTES[name] + 1) + 1e-6
    assert (np.argsort(-smoothed, kind="stable")[:, 0] == votes.argmax(axis=1)).all()
    p = calibrated.predict_proba(X[600:])
    uniform = np.log(3)
    assert driftcal.metrics.negative_log_likelihood(Y[600:], p) < 0.85 * uniform  # 0 votes gave a nearly uniform map
    assert 0.2 < calibrated.calibrator.temperature_ < 1.5


def test_the_classifier_of_scikit_learn_does_the_same():
    fitted = driftcal.DriftCalibratedClassifier(FOREST, method="ts", cv="prefit", shift=None).fit(
        X[300:600], Y[300:600]
    )
    calibrated = driftcal.tune(FOREST, X[300:600], Y[300:600], method="ts", shift=None)
    np.testing.assert_allclose(fitted.predict_proba(X[600:]), calibrated.predict_proba(X[600:]), atol=1e-6)
    assert "averages 20 votes" in fitted.explanation_


def test_other_models_stay_as_they_are():
    model = LogisticRegression().fit(X[:300], Y[:300])
    assert n_votes(model) is None
    assert driftcal.open_model(model).note == ""
    assert "averages 20 votes" in driftcal.open_model(FOREST).note
