"""Frames of logits and of features, lists of chunks, and files in folders that do not exist yet."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import driftcal
from driftcal import load, make_calibrator, metrics, tune
from driftcal.core.numerics import softmax
from driftcal.errors import InputError, LabelsError, LogitsError

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(300, 3)) * 2
Y = np.argmax(Z + RNG.gumbel(size=Z.shape), axis=1)
NAMES = ["zebra", "ant", "mole"]


@pytest.mark.parametrize("name", ["ir", "vs", "ts"])
def test_columns_must_be_in_the_order_of_the_fit(name):
    frame = pd.DataFrame(Z, columns=NAMES)
    fitted = make_calibrator(name).fit(frame, Y)
    assert fitted.feature_names_in_.tolist() == NAMES
    with pytest.raises(LogitsError, match=r"same order, \['zebra', 'ant', 'mole'\].*they have \['mole'"):
        fitted.predict_proba(frame[NAMES[::-1]])
    ordered = frame[NAMES[::-1]][fitted.feature_names_in_]
    np.testing.assert_array_equal(fitted.predict_proba(ordered), fitted.predict_proba(Z))
    assert not hasattr(fitted.fit(Z, Y), "feature_names_in_")


def test_columns_that_are_named_like_the_classes_are_those_classes():
    y = np.array(NAMES)[Y]
    fitted = make_calibrator("ts").fit(pd.DataFrame(Z, columns=NAMES), y)
    assert fitted.classes_.tolist() == NAMES
    np.testing.assert_array_equal(fitted.predict(Z), np.array(NAMES)[Z.argmax(axis=1)])
    with pytest.raises(LabelsError, match=r"pass classes=\['ant', 'mole', 'zebra'\]"):
        make_calibrator("base").fit(pd.DataFrame(Z, columns=["a", "b", "c"]), y)


@pytest.mark.parametrize("dtype", ["Float32", "Float64"])
def test_nullable_numbers_are_numbers(dtype):
    frame = pd.DataFrame(Z.astype(dtype.lower()), columns=NAMES).astype(dtype)
    expected = make_calibrator("irm").fit(Z.astype(dtype.lower()), Y).predict_proba(Z)
    np.testing.assert_allclose(make_calibrator("irm").fit(frame, Y).predict_proba(Z), expected, atol=1e-6)
    frame.iloc[3, 1] = pd.NA
    with pytest.raises(LogitsError):
        make_calibrator("irm").fit(frame, Y)


def test_a_list_of_chunks_is_a_source():
    chunks = [(Z[:100], Y[:100]), (Z[100:], Y[100:])]
    expected = make_calibrator("irm").fit(Z, Y).predict_proba(Z)
    np.testing.assert_array_equal(make_calibrator("irm").fit(chunks).predict_proba(Z), expected)
    np.testing.assert_array_equal(make_calibrator("irm").fit(tuple(chunks)).predict_proba(Z), expected)


def test_a_missing_folder_is_created(tmp_path):
    path = tmp_path / "deep" / "down" / "ts.safetensors"
    assert load(make_calibrator("ts").fit(Z, Y).save(path)).temperature_ > 0


PLAIN = LogisticRegression().fit(pd.DataFrame(Z, columns=NAMES), Y)
CHOSEN = make_column_transformer((StandardScaler(), ["mole", "zebra"]), remainder="drop")
PIPELINE = make_pipeline(CHOSEN, LogisticRegression()).fit(pd.DataFrame(Z, columns=NAMES), Y)


@pytest.mark.parametrize("model", [PLAIN, PIPELINE], ids=["plain", "pipeline"])
def test_models_of_frames_check_the_names_of_columns(model, recwarn):
    frame = pd.DataFrame(Z, columns=NAMES)
    tuned = tune(model, frame, Y, method="ts")
    np.testing.assert_allclose(tuned.logits(frame), model.decision_function(frame), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(tuned.logits(frame), tuned.logits(Z))
    reversed_frame = frame[NAMES[::-1]]
    for act in (tuned.predict_proba, tuned.model.logits, tuned.model.prepare):
        with pytest.raises(InputError, match=r"columns of fit in the same order.*inputs\[model.feature_names_in_\]"):
            act(reversed_frame)
    for act in (lambda: tune(model, reversed_frame, Y), lambda: driftcal.evaluate(tuned, reversed_frame, Y)):
        with pytest.raises(InputError, match="columns of fit in the same order"):
            act()
    assert not [warning for warning in recwarn if "feature names" in str(warning.message)]


FRAME = pd.DataFrame(Z, columns=NAMES)
NAMED = np.array(NAMES)[Y]
ACCURACY = float((Z.argmax(axis=1) == Y).mean())


def test_metrics_match_columns_by_name():
    p = pd.DataFrame(softmax(Z), columns=NAMES)
    assert metrics.evaluate(NAMED, FRAME).accuracy == ACCURACY
    assert metrics.evaluate(NAMED, p, score_type="probabilities").accuracy == ACCURACY
    assert metrics.accuracy(NAMED, p) == ACCURACY
    assert metrics.Statistics.of(NAMED, FRAME).accuracy == ACCURACY
    assert metrics.accuracy(NAMED, p.to_numpy(), classes=NAMES) == ACCURACY
    with pytest.raises(LabelsError, match="pass classes="):
        metrics.accuracy(NAMED, p.to_numpy())
    expected = metrics.expected_calibration_error(Y, softmax(Z))
    assert metrics.expected_calibration_error(NAMED, softmax(Z), classes=NAMES) == expected
    assert metrics.prepare_reliability(NAMED, softmax(Z), classes=NAMES).ece == expected


def test_one_hot_frames_are_matched_by_name():
    one_hot = pd.get_dummies(pd.Series(NAMED))
    assert one_hot.columns.tolist() != NAMES
    fitted = make_calibrator("vs").fit(FRAME, one_hot)
    np.testing.assert_array_equal(fitted.slopes_, make_calibrator("vs").fit(Z, Y).slopes_)
    assert fitted.classes_.tolist() == NAMES
    assert metrics.evaluate(one_hot, FRAME).accuracy == ACCURACY
    assert fitted.score(FRAME, one_hot) == fitted.score(FRAME, NAMED) == (fitted.predict(Z) == NAMED).mean()


def test_classes_that_contradict_the_columns_are_refused():
    with pytest.raises(InputError, match="order of the frame's columns"):
        make_calibrator("vs", classes=sorted(NAMES)).fit(FRAME, NAMED)
    with pytest.raises(LogitsError, match=r"a later chunk must have.*into one order"):
        make_calibrator("ts").fit([(FRAME, Y), (FRAME[NAMES[::-1]], Y)])
    with pytest.raises(InputError, match="a set has none"):
        make_calibrator("ts", classes=set(NAMES)).fit(Z, NAMED)


def test_a_saved_calibrator_checks_its_columns(tmp_path):
    loaded = load(make_calibrator("vs").fit(FRAME, NAMED).save(tmp_path / "vs.safetensors"))
    np.testing.assert_array_equal(loaded.predict(FRAME), np.array(NAMES)[loaded.predict_proba(Z).argmax(axis=1)])
    with pytest.raises(LogitsError, match="same order"):
        loaded.predict(FRAME[NAMES[::-1]])


@pytest.mark.parametrize("names", [[1.0, 2.0, 3.0], [3, 1, 2]])
def test_numbers_that_name_classes_are_names(names):
    selected = np.flatnonzero(Y < 2)  # the last class never occurs
    y = np.array(names)[Y[selected]]
    fitted = make_calibrator("vs", classes=names).fit(Z[selected], y)
    np.testing.assert_array_equal(fitted.slopes_, make_calibrator("vs").fit(Z[selected], Y[selected]).slopes_)
    assert (
        metrics.evaluate(y, Z[selected], classes=names).accuracy == metrics.evaluate(Y[selected], Z[selected]).accuracy
    )


def test_truth_values_that_name_classes_are_names():
    two, y = Z[:, :2], Z[:, 0] + RNG.logistic(size=len(Z)) > Z[:, 1]
    fitted = make_calibrator("ps", classes=[True, False]).fit(two, y)
    assert (fitted.predict(two) == y).mean() > 0.8
