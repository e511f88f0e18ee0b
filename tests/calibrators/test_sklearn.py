"""Calibrators are scikit-learn estimators: its checks, pipelines and cross-validation."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from driftcal.calibrators import CALIBRATORS, make_calibrator

NAMES = sorted(name for name, kind in CALIBRATORS.items() if not kind.needs_features)

FEATURES = "passes features with fewer columns than classes; calibrators take logits, one column per class"
MESSAGE = "refused as it should be, but with a message in driftcal's style"
MEANING = "the check's rule does not hold for logits: "
#: check of scikit-learn -> why it cannot pass for any calibrator
REASONS = {
    "check_estimators_overwrite_params": FEATURES,
    "check_estimators_fit_returns_self": FEATURES,
    "check_readonly_memmap_input": FEATURES + " (read-only memory maps are tested in test_inputs)",
    "check_sample_weights_pandas_series": FEATURES + " (pandas weights are tested below)",
    "check_sample_weights_not_an_array": FEATURES,
    "check_sample_weights_shape": FEATURES,
    "check_sample_weights_not_overwritten": FEATURES,
    "check_classifier_data_not_an_array": FEATURES,
    "check_classifiers_classes": FEATURES,
    "check_classifiers_train": FEATURES,
    "check_n_features_in_after_fitting": MESSAGE,
    "check_complex_data": MESSAGE,
    "check_estimators_empty_data_messages": MESSAGE,
    "check_classifiers_regression_target": MESSAGE,
    "check_requires_y_none": MESSAGE,
    "check_fit2d_1feature": MEANING + "one column is the log-odds of a binary problem",
    "check_fit2d_predict1d": MEANING + "one axis is the log-odds of a binary problem",
    "check_supervised_y_2d": MEANING + "a column of labels is accepted without a warning",
    "check_dtype_object": MEANING + "numbers held as Python objects are refused, not converted",
}
UNRELATED = "labels are unrelated to the features, so the best temperature is infinite and the fit raises"
#: further checks that cannot pass for calibrators that need a finite temperature
NEED_T = dict.fromkeys(
    [
        "check_dont_overwrite_parameters",
        "check_estimators_dtypes",
        "check_estimators_nan_inf",
        "check_f_contiguous_array_estimator",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_dict_unchanged",
    ],
    UNRELATED,
)
KEEPS_ACCURACY = {
    "check_classifiers_one_label": MEANING
    + "a calibrator that keeps the accuracy predicts the class of the largest logit"
}


def reasons_of(name):
    reasons = dict(REASONS)
    if name in ("ts", "ets", "ts-ir", "hts", "pts", "window-ts", "level-ts"):
        reasons |= NEED_T
    if CALIBRATORS[name].keeps_accuracy:
        reasons |= KEEPS_ACCURACY
    return reasons


@pytest.mark.parametrize("name", NAMES)
def test_the_checks_of_scikit_learn_pass_where_they_apply(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks warn about what they skip
        results = check_estimator(make_calibrator(name), on_skip=None, on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert {check: str(e) for check, e in failed.items() if check not in reasons_of(name)} == {}
    assert set(reasons_of(name)) - set(failed) == set(), "these checks pass now: remove them from the list"
    assert sum(r["status"] == "passed" for r in results) >= 28


@pytest.fixture(scope="module")
def data():
    x, y = make_classification(400, 12, n_informative=6, n_classes=4, flip_y=0.2, random_state=0)
    logits = LogisticRegression().fit(x[:200], y[:200]).decision_function(x) * 3  # over-confident
    return x, logits, y


class Logits(TransformerMixin, BaseEstimator):
    """A model as a step of a pipeline: features in, logits out."""

    def fit(self, x, y):
        self.model_ = LogisticRegression().fit(x, y)
        return self

    def transform(self, x):
        return self.model_.decision_function(x)


@pytest.mark.parametrize("name", NAMES)
def test_pipelines_and_cross_validation(name, data):
    x, logits, y = data
    pipeline = make_pipeline(Logits(), make_calibrator(name))
    p = pipeline.fit(x[:200], y[:200]).predict_proba(x[200:])
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    assert pipeline.score(x[200:], y[200:]) > 0.4
    before = cross_val_score(make_calibrator("base"), logits, y, scoring="neg_brier_score", cv=4).mean()
    after = cross_val_score(make_calibrator(name), logits, y, scoring="neg_brier_score", cv=4)
    assert after.shape == (4,)
    assert after.mean() >= before - 0.02
    assert cross_val_predict(make_calibrator(name), logits, y, method="predict_proba", cv=4).shape == (400, 4)


def test_a_grid_search_over_parameters(data):
    _, logits, y = data
    search = GridSearchCV(
        make_calibrator("hb"), {"n_bins": [3, 10], "strategy": ["mass", "width"]}, scoring="neg_log_loss", cv=3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(logits, y)
    assert search.best_params_["n_bins"] in (3, 10)


@pytest.mark.parametrize("name", NAMES)
def test_further_rules_of_scikit_learn(name, data):
    import pandas as pd

    _, logits, y = data
    cal = make_calibrator(name)
    assert is_classifier(cal)
    with pytest.raises(NotFittedError):
        cal.predict(logits)
    weights = pd.Series(np.arange(400) % 3 + 1.0)
    assert cal.fit(logits, y, sample_weight=weights) is cal
    same = clone(cal).fit(logits, y, sample_weight=weights.to_numpy())
    assert np.array_equal(cal.predict_proba(logits), same.predict_proba(logits))
    assert cal.score(logits, y) == pytest.approx((cal.predict(logits) == y).mean())
    assert repr(clone(cal)) == f"{type(cal).__name__}()"
