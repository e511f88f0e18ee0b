"""DriftCalibratedClassifier is a scikit-learn classifier, and its confidence stays calibrated under shift."""

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
from driftcal.errors import InputError, LabelsError, ModelError, SuspiciousInputWarning, UnknownName

X, Y = make_classification(600, 8, n_informative=5, n_classes=3, flip_y=0.1, random_state=0)
TRAIN, TEST = slice(0, 400), slice(400, 600)
LR = LogisticRegression(max_iter=500)


@pytest.mark.parametrize("method", ["irm", "ts", "auto"])
@pytest.mark.parametrize(
    "estimator",
    [LR, RandomForestClassifier(20, random_state=0), make_pipeline(StandardScaler(), LR), LinearSVC(random_state=0)],
    ids=["logistic", "forest", "pipeline", "svm"],
)
def test_fits_and_predicts(estimator, method):
    calibrated = DriftCalibratedClassifier(estimator, method, cv=3, n_levels=3).fit(X[TRAIN], Y[TRAIN])
    probabilities = calibrated.predict_proba(X[TEST])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(calibrated.predict_log_proba(X[TEST])), probabilities)
    assert calibrated.score(X[TEST], Y[TEST]) > 0.6
    if calibrated.calibrator_.keeps_accuracy:
        np.testing.assert_array_equal(
            calibrated.predict(X[TEST]), clone(estimator).fit(X[TRAIN], Y[TRAIN]).predict(X[TEST])
        )
    assert calibrated.n_features_in_ == 8
    assert len(calibrated.perturbation_["levels"]) == 3


def test_names_of_classes_and_prefit():
    names = np.array(["pear", "apple", "fig"])[Y]
    fitted = clone(LR).fit(X[:200], names[:200])
    calibrated = DriftCalibratedClassifier(fitted, cv="prefit", n_levels=3).fit(X[200:400], names[200:400])
    assert calibrated.estimator_ is fitted
    assert calibrated.classes_.tolist() == ["apple", "fig", "pear"]
    assert set(calibrated.predict(X[TEST])) <= {"apple", "fig", "pear"}
    # the same as fitting a calibrator directly
    logits = np.log(fitted.predict_proba(X[200:400]))
    direct = driftcal.make_calibrator("irm").fit(logits, calibrated.classes_.searchsorted(names[200:400]))
    plain = DriftCalibratedClassifier(fitted, "irm", cv="prefit", shift=None).fit(X[200:400], names[200:400])
    np.testing.assert_array_equal(plain.predict_proba(X[:5]), direct.predict_proba(np.log(fitted.predict_proba(X[:5]))))
    assert plain.perturbation_ is None


class Reordered(LogisticRegression):
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
def test_columns_are_matched_by_the_names_of_their_classes(cv):
    names = np.array(["a", "b", "c"])[Y]
    reordered, in_order = (
        DriftCalibratedClassifier(kind(max_iter=500).fit(X[:200], names[:200]), "ts", cv=cv, shift=None)
        for kind in (Reordered, LogisticRegression)
    )
    for calibrated in (reordered, in_order):
        calibrated.fit(X[200:400], names[200:400])
    order = [reordered.classes_.tolist().index(name) for name in in_order.classes_]
    np.testing.assert_allclose(reordered.predict_proba(X[TEST])[:, order], in_order.predict_proba(X[TEST]), atol=1e-9)
    np.testing.assert_array_equal(reordered.predict(X[TEST]), in_order.predict(X[TEST]))


@pytest.mark.parametrize("most", [False, True], ids=["balanced", "mostly the first class"])
def test_scores_of_pairs_are_not_those_of_classes(most):
    keep = (Y == 0) | (np.arange(600) % 10 == 0) if most else np.full(600, True)
    for shape, refused in (("ovo", True), ("ovr", False)):
        calibrated = DriftCalibratedClassifier(SVC(decision_function_shape=shape), "ts", cv=3, shift=None)
        if refused:
            with pytest.raises(ModelError, match=r"score per class.*decision_function_shape='ovr'"):
                calibrated.fit(X[keep], Y[keep])
        else:
            calibrated.fit(X[keep], Y[keep])


@pytest.mark.parametrize("method", ["auto", "level-ts", driftcal.Selection(candidates=["level-ts", "ts"])])
def test_each_sample_is_predicted_alone(method):
    calibrated = DriftCalibratedClassifier(LR, method, cv=3, n_levels=3).fit(X[TRAIN], Y[TRAIN])
    assert not calibrated.calibrator_.needs_window
    assert "window" not in calibrated.explanation_
    np.testing.assert_array_equal(calibrated.predict_proba(X[TEST])[:3], calibrated.predict_proba(X[TEST][:3]))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [(X, np.random.default_rng(0).permutation(Y), "near chance"), (X[:60], Y[:60], "only 60 validation samples")],
)
def test_suspicious_data_give_a_warning_and_the_accuracy_is_in_the_explanation(x, y, message):
    with pytest.warns(SuspiciousInputWarning, match=message):
        calibrated = DriftCalibratedClassifier(LR, "ts", cv=3, shift=None).fit(x, y)
    assert calibrated.explanation_.startswith("Validation accuracy 0.")
    assert message in calibrated.explanation_


def test_works_where_scikit_learn_puts_estimators():
    calibrated = DriftCalibratedClassifier(LR, "ts", cv=3, n_levels=2)
    assert is_classifier(calibrated)
    again = clone(calibrated)
    assert again.get_params()["estimator__max_iter"] == 500
    assert cross_val_score(make_pipeline(StandardScaler(), calibrated), X, Y, cv=3).mean() > 0.6
    grid = GridSearchCV(calibrated, {"estimator__C": [0.1, 1.0], "method": ["ts", "irm"]}, cv=2).fit(X, Y)
    assert set(grid.best_params_) == {"estimator__C", "method"}
    assert not hasattr(LR, "classes_"), "the estimator itself is not fitted"
    first, second = (clone(calibrated).fit(X[TRAIN], Y[TRAIN]).predict_proba(X[TEST]) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.filterwarnings("ignore")
def test_passes_the_checks_of_scikit_learn():
    calibrated = DriftCalibratedClassifier(LR, cv=3, n_levels=2)
    results = check_estimator(calibrated, on_fail=None, on_skip=None)
    assert len(results) > 40
    assert [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"] == []


def test_data_frames_with_categories():
    pd = pytest.importorskip("pandas")
    colour = np.array(["red", "green", "blue"])[np.random.default_rng(0).integers(3, size=600)]
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(colour=colour)
    from sklearn.compose import make_column_transformer

    columns = make_column_transformer((OneHotEncoder(), ["colour"]), (StandardScaler(), ["a", "b", "c"]))
    calibrated = DriftCalibratedClassifier(make_pipeline(columns, LR), "ts", cv=3, n_levels=3, categorical=["colour"])
    calibrated.fit(frame, pd.Series(Y))
    assert calibrated.predict_proba(frame).shape == (600, 3)
    assert calibrated.feature_names_in_.tolist() == ["a", "b", "c", "colour"]
    with pytest.raises(UnknownName, match="did you mean 'colour'"):
        clone(calibrated).set_params(categorical=["color"]).fit(frame, Y)


def test_a_fold_may_miss_a_class():
    labels = np.where(np.arange(600) == 7, 3, Y)
    calibrated = DriftCalibratedClassifier(LR, cv=StratifiedKFold(3).split(X, Y), n_levels=2).fit(X, labels)
    assert calibrated.predict_proba(X).shape == (600, 4)


def test_confidence_stays_calibrated_under_shift():
    digits = load_digits()
    x, y = digits.data / 16, digits.target
    net = make_pipeline(StandardScaler(), LogisticRegression(C=100, max_iter=300))
    plain = clone(net).fit(x[:1200], y[:1200])
    calibrated = DriftCalibratedClassifier(net, "irm", cv=3, n_levels=5).fit(x[:1200], y[:1200])
    noise = TabularNoise().fit(x[:1200])
    errors = {"plain": [], "calibrated": []}
    for level in (1, 4, 16):
        shifted = noise(x[1200:], level, seed=5)
        for name, model in {"plain": plain, "calibrated": calibrated}.items():
            errors[name].append(driftcal.expected_calibration_error(y[1200:], model.predict_proba(shifted)))
    assert np.mean(errors["calibrated"]) < 0.5 * np.mean(errors["plain"])


def test_bad_calls_are_refused():
    with pytest.raises(NotFittedError):
        DriftCalibratedClassifier(LR).predict_proba(X)
    with pytest.raises(NotFittedError):
        DriftCalibratedClassifier(clone(LR), cv="prefit").fit(X, Y)
    with pytest.raises(UnknownName, match="irm"):
        DriftCalibratedClassifier(LR, "irn").fit(X, Y)
    with pytest.raises(UnknownName, match="prefit"):
        DriftCalibratedClassifier(LR, cv="perfit").fit(X, Y)
    with pytest.raises(InputError, match="every sample exactly once"):
        DriftCalibratedClassifier(LR, cv=ShuffleSplit(2, random_state=0)).fit(X, Y)
    with pytest.raises(LabelsError, match="one label per sample"):
        DriftCalibratedClassifier(LR).fit(X, Y[:-1])
    with pytest.raises(LabelsError, match="two classes"):
        DriftCalibratedClassifier(LR).fit(X, np.zeros(len(X)))
    with pytest.raises(LabelsError, match=r"0\.\.2.*9"):
        DriftCalibratedClassifier(clone(LR).fit(X, Y), cv="prefit").fit(X, np.full(len(X), 9))
    with pytest.raises(ModelError, match="neither"):
        DriftCalibratedClassifier(StandardScaler(), cv=2).fit(X, Y)


def test_a_linear_model_keeps_its_confidence_on_clean_samples():
    """Its logits must not grow with the noise, or a temperature for the last level makes the first one uniform."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order].astype(np.float32) / 16, y[order]
    model = LogisticRegression(C=100, max_iter=3000).fit(x[:800], y[:800])
    window, truth = x[1300:], y[1300:]
    scaled = driftcal.tune(model, x[800:1300], y[800:1300], method="ts")
    assert scaled.calibrator.temperature_ < 10
    live = driftcal.tune(model, x[800:1300], y[800:1300], method="level-ts").windowed(100)
    assert driftcal.metrics.expected_calibration_error(truth, live.predict_proba(window)) < 0.05


@pytest.mark.parametrize("method", ["ts", "auto"])
def test_columns_of_a_data_frame_keep_their_dtypes(method):
    """A booster that reads categories, truth values and missing values from the dtypes of the frame."""
    pd = pytest.importorskip("pandas")
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(
        colour=pd.Categorical(np.array(["red", "green", "blue"])[rng.integers(3, size=600)]),
        count=rng.integers(0, 9, 600),
        flag=rng.random(600) < 0.5,
    )
    frame.loc[::7, "a"] = np.nan
    calibrated = DriftCalibratedClassifier(HistGradientBoostingClassifier(max_iter=20), method, cv=3, n_levels=3)
    calibrated.fit(frame, Y)
    assert calibrated.predict_proba(frame).shape == (600, 3)
    assert len(calibrated.perturbation_["levels"]) == 3


@pytest.mark.parametrize("categorical", [(), ["visits"]])
def test_a_booster_on_a_frame_with_categories(categorical):
    """Columns that are categorical by their dtype need not be named; margins are the logits."""
    from lightgbm import LGBMClassifier

    from tests.helpers.tables import FRAME, TEST, THREE

    before = FRAME.copy()
    booster = LGBMClassifier(n_estimators=8, num_leaves=6, n_jobs=1, verbose=-1)
    names = np.array(["high", "low", "mid"])[THREE]
    calibrated = DriftCalibratedClassifier(booster, "ts", cv=2, n_levels=3, categorical=categorical).fit(FRAME, names)
    assert calibrated.perturbation_["shift"] == "tabular_noise"
    assert FRAME.equals(before)
    raw = calibrated.estimator_.predict(FRAME[TEST], raw_score=True)
    np.testing.assert_allclose(
        calibrated.predict_proba(FRAME[TEST]), calibrated.calibrator_.predict_proba(raw), atol=1e-12
    )
    assert set(calibrated.predict(FRAME[TEST])) <= {"high", "low", "mid"}
