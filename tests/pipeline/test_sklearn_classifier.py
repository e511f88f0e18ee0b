"""DriftCalibratedClassifier is a scikit-learn classifier, and its confidence outlives drift."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import check_estimator

import driftcal
from driftcal import DriftCalibratedClassifier, TabularNoise
from driftcal.errors import InputError, LabelsError, ModelError, UnknownName

X, Y = make_classification(600, 8, n_informative=5, n_classes=3, flip_y=0.1, random_state=0)
TRAIN, TEST = slice(0, 400), slice(400, 600)
LR = LogisticRegression(max_iter=500)


@pytest.mark.parametrize("method", ["irm", "ts", "auto"])
@pytest.mark.parametrize(
    "estimator",
    [LR, RandomForestClassifier(20, random_state=0), make_pipeline(StandardScaler(), LR), LinearSVC(random_state=0)],
    ids=["logistic", "forest", "pipeline", "svm"],
)
def test_fits_and_answers(estimator, method):
    honest = DriftCalibratedClassifier(estimator, method, cv=3, levels=3).fit(X[TRAIN], Y[TRAIN])
    probabilities = honest.predict_proba(X[TEST])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(honest.predict_log_proba(X[TEST])), probabilities)
    assert honest.score(X[TEST], Y[TEST]) > 0.6
    if honest.calibrator_.keeps_accuracy:
        np.testing.assert_array_equal(
            honest.predict(X[TEST]), clone(estimator).fit(X[TRAIN], Y[TRAIN]).predict(X[TEST])
        )
    assert honest.n_features_in_ == 8
    assert len(honest.ladder_["levels"]) == 3


def test_names_of_classes_and_prefit():
    names = np.array(["pear", "apple", "fig"])[Y]
    fitted = clone(LR).fit(X[:200], names[:200])
    honest = DriftCalibratedClassifier(fitted, cv="prefit", levels=3).fit(X[200:400], names[200:400])
    assert honest.estimator_ is fitted
    assert honest.classes_.tolist() == ["apple", "fig", "pear"]
    assert set(honest.predict(X[TEST])) <= {"apple", "fig", "pear"}
    # the same as tuning by hand
    logits = np.log(fitted.predict_proba(X[200:400]))
    by_hand = driftcal.make_calibrator("irm").fit(logits, honest.classes_.searchsorted(names[200:400]))
    plain = DriftCalibratedClassifier(fitted, cv="prefit", shift=None).fit(X[200:400], names[200:400])
    np.testing.assert_array_equal(
        plain.predict_proba(X[:5]), by_hand.predict_proba(np.log(fitted.predict_proba(X[:5])))
    )
    assert plain.ladder_ is None


class Turned(LogisticRegression):
    """A classifier whose classes are not sorted, such as a net behind scikit-learn's interface."""

    def fit(self, x, y):
        super().fit(x, y)
        self.inner_, self.classes_ = self.classes_, self.classes_[[2, 0, 1]]
        return self

    def predict_proba(self, x):
        return super().predict_proba(x)[:, [2, 0, 1]]

    def predict(self, x):
        return self.classes_[self.predict_proba(x).argmax(axis=1)]


@pytest.mark.parametrize("cv", ["prefit", 3])
def test_columns_are_known_by_the_names_of_their_classes(cv):
    names = np.array(["a", "b", "c"])[Y]
    turned, sorted_ = (
        DriftCalibratedClassifier(kind(max_iter=500).fit(X[:200], names[:200]), "ts", cv=cv, shift=None)
        for kind in (Turned, LogisticRegression)
    )
    for honest in (turned, sorted_):
        honest.fit(X[200:400], names[200:400])
    order = [turned.classes_.tolist().index(name) for name in sorted_.classes_]
    np.testing.assert_allclose(turned.predict_proba(X[TEST])[:, order], sorted_.predict_proba(X[TEST]), atol=1e-9)
    np.testing.assert_array_equal(turned.predict(X[TEST]), sorted_.predict(X[TEST]))


@pytest.mark.parametrize("most", [False, True], ids=["balanced", "mostly the first class"])
def test_scores_of_pairs_are_not_those_of_classes(most):
    keep = (Y == 0) | (np.arange(600) % 10 == 0) if most else np.full(600, True)
    for shape, refused in (("ovo", True), ("ovr", False)):
        honest = DriftCalibratedClassifier(SVC(decision_function_shape=shape), "ts", cv=3, shift=None)
        if refused:
            with pytest.raises(ModelError, match=r"score per class.*decision_function_shape='ovr'"):
                honest.fit(X[keep], Y[keep])
        else:
            honest.fit(X[keep], Y[keep])


def test_nothing_that_follows_a_window_is_chosen(monkeypatch):
    monkeypatch.setattr("driftcal.pipeline.select.CANDIDATES", ("ladder-ts", "ts"))
    honest = DriftCalibratedClassifier(LR, "auto", cv=3, levels=3).fit(X[TRAIN], Y[TRAIN])
    assert isinstance(honest.calibrator_, driftcal.TemperatureScaling)
    assert "static map" not in honest.explanation_
    named = DriftCalibratedClassifier(LR, "ladder-ts", cv=3, levels=3).fit(X[TRAIN], Y[TRAIN])
    assert "predict_proba answers each row by itself, with its static map" in named.explanation_


def test_works_where_scikit_learn_puts_estimators():
    honest = DriftCalibratedClassifier(LR, "ts", cv=3, levels=2)
    assert is_classifier(honest)
    again = clone(honest)
    assert again.get_params()["estimator__max_iter"] == 500
    assert cross_val_score(make_pipeline(StandardScaler(), honest), X, Y, cv=3).mean() > 0.6
    grid = GridSearchCV(honest, {"estimator__C": [0.1, 1.0], "method": ["ts", "irm"]}, cv=2).fit(X, Y)
    assert set(grid.best_params_) == {"estimator__C", "method"}
    assert not hasattr(LR, "classes_"), "the given estimator is left alone"
    first, second = (clone(honest).fit(X[TRAIN], Y[TRAIN]).predict_proba(X[TEST]) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.filterwarnings("ignore")
def test_passes_scikit_learns_own_checks():
    honest = DriftCalibratedClassifier(LR, cv=3, levels=2)
    results = check_estimator(honest, on_fail=None, on_skip=None)
    assert len(results) > 40
    assert [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"] == []


def test_data_frames_with_categories():
    pd = pytest.importorskip("pandas")
    colour = np.array(["red", "green", "blue"])[np.random.default_rng(0).integers(3, size=600)]
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(colour=colour)
    from sklearn.compose import make_column_transformer

    columns = make_column_transformer((OneHotEncoder(), ["colour"]), (StandardScaler(), ["a", "b", "c"]))
    honest = DriftCalibratedClassifier(make_pipeline(columns, LR), "ts", cv=3, levels=3, categorical=["colour"])
    honest.fit(frame, pd.Series(Y))
    assert honest.predict_proba(frame).shape == (600, 3)
    assert honest.feature_names_in_.tolist() == ["a", "b", "c", "colour"]
    with pytest.raises(UnknownName, match="did you mean 'colour'"):
        clone(honest).set_params(categorical=["color"]).fit(frame, Y)


def test_a_fold_may_miss_a_class():
    labels = np.where(np.arange(600) == 7, 3, Y)
    honest = DriftCalibratedClassifier(LR, cv=StratifiedKFold(3).split(X, Y), levels=2).fit(X, labels)
    assert honest.predict_proba(X).shape == (600, 4)


def test_confidence_stays_honest_under_drift():
    digits = load_digits()
    x, y = digits.data / 16, digits.target
    net = make_pipeline(StandardScaler(), LogisticRegression(C=100, max_iter=300))
    plain = clone(net).fit(x[:1200], y[:1200])
    honest = DriftCalibratedClassifier(net, "irm", cv=3, levels=5).fit(x[:1200], y[:1200])
    noise = TabularNoise().fit(x[:1200])
    errors = {"plain": [], "honest": []}
    for level in (1, 4, 16):
        drifted = noise(x[1200:], level, seed=5)
        for name, model in {"plain": plain, "honest": honest}.items():
            errors[name].append(driftcal.expected_calibration_error(y[1200:], model.predict_proba(drifted)))
    assert np.mean(errors["honest"]) < 0.5 * np.mean(errors["plain"])


def test_bad_calls_are_refused():
    with pytest.raises(NotFittedError):
        DriftCalibratedClassifier(LR).predict_proba(X)
    with pytest.raises(NotFittedError):
        DriftCalibratedClassifier(clone(LR), cv="prefit").fit(X, Y)
    with pytest.raises(UnknownName, match="irm"):
        DriftCalibratedClassifier(LR, "irn").fit(X, Y)
    with pytest.raises(UnknownName, match="prefit"):
        DriftCalibratedClassifier(LR, cv="perfit").fit(X, Y)
    with pytest.raises(InputError, match="every row exactly once"):
        DriftCalibratedClassifier(LR, cv=ShuffleSplit(2, random_state=0)).fit(X, Y)
    with pytest.raises(LabelsError, match="one label per row"):
        DriftCalibratedClassifier(LR).fit(X, Y[:-1])
    with pytest.raises(LabelsError, match="two classes"):
        DriftCalibratedClassifier(LR).fit(X, np.zeros(len(X)))
    with pytest.raises(LabelsError, match=r"0\.\.2.*9"):
        DriftCalibratedClassifier(clone(LR).fit(X, Y), cv="prefit").fit(X, np.full(len(X), 9))
    with pytest.raises(ModelError, match="neither"):
        DriftCalibratedClassifier(StandardScaler(), cv=2).fit(X, Y)


def test_a_linear_model_keeps_its_confidence_on_clean_rows():
    """Its logits must not grow with the ladder's noise, or a temperature for the last rung leaves nothing of the first."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order].astype(np.float32) / 16, y[order]
    model = LogisticRegression(C=100, max_iter=3000).fit(x[:800], y[:800])
    window, truth = x[1300:], y[1300:]
    scaled = driftcal.tune(model, x[800:1300], y[800:1300], method="ts")
    assert scaled.calibrator.temperature_ < 10
    following = driftcal.tune(model, x[800:1300], y[800:1300], method="ladder-pts")
    assert driftcal.metrics.expected_calibration_error(truth, following.predict_proba(window)) < 0.05
