"""Classes are matched by name: a missing class or another order of names does not renumber the others."""

import os

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tiny_model import make_onnx

import driftcal
from driftcal import CalibratedModel, open_model, open_source, tune
from driftcal.errors import DataError, InputError, LabelsError
from driftcal.shifts import Suite, get_shift

os.environ.setdefault("KERAS_BACKEND", "torch")

X, Y = load_wine(return_X_y=True)
TRAIN, VALIDATION, TEST = np.split(np.random.default_rng(0).permutation(len(Y)), [60, 120])


def fitted(labels, kind=LogisticRegression):
    return make_pipeline(StandardScaler(), kind()).fit(X[TRAIN], labels[TRAIN])


@pytest.mark.parametrize(
    "names",
    [["c_high", "a_low", "b_mid"], [2, 0, 5], [-1, 1, 4], [1.0, 2.0, 3.0]],
    ids=["text", "not consecutive", "negative", "floats"],
)
def test_labels_are_the_classes_of_the_model(names):
    labels = np.array(names)[Y]
    model = fitted(labels)
    without_last = VALIDATION[labels[VALIDATION] != max(names)]  # the last class has no sample
    for indices in (VALIDATION, without_last):
        tuned = tune(model, X[indices], labels[indices], method="ts", n_levels=4)
        assert tuned.class_names == tuple(str(name) for name in model.classes_)
        accuracy = model.score(X[indices], labels[indices])
        assert tuned.perturbation["levels"][0]["accuracy"] == pytest.approx(accuracy)
        results = driftcal.evaluate(tuned, X[TEST], labels[TEST], n_resamples=0)
        assert results.summary()[0].in_domain_accuracy == pytest.approx(model.score(X[TEST], labels[TEST]))
    unknown = labels[VALIDATION].copy()
    unknown[3] = "zebra" if isinstance(names[0], str) else 77
    with pytest.raises(LabelsError, match=r"must be among class_names.*sample 3 has ('zebra'|77)"):
        tune(model, X[VALIDATION], unknown)


def network(kind, weights, folder):
    """A network that multiplies its inputs by `weights`."""
    if kind == "torch":
        import torch

        net = torch.nn.Linear(*weights.shape, bias=False)
        net.weight.data = torch.from_numpy(weights.T.copy())
        return net
    if kind == "keras":
        import keras

        net = keras.Sequential([keras.Input(weights.shape[:1]), keras.layers.Dense(weights.shape[1], use_bias=False)])
        net.set_weights([weights])
        return net
    make_onnx(folder / "net.onnx", weights)
    return folder / "net.onnx"


@pytest.mark.parametrize("kind", ["torch", "onnx", "keras"])
def test_text_labels_of_a_network_need_class_names_in_the_order_of_its_outputs(kind, tmp_path):
    rng = np.random.default_rng(0)
    names = np.array(["owl", "cat", "dog", "ant"])  # sorted, they would be other columns
    weights = rng.normal(size=(64, 4)).astype(np.float32)
    shape = (300, 8, 8, 1) if kind == "onnx" else (300, 64)
    x = rng.random(shape).astype(np.float32)
    columns = (x.reshape(300, -1) @ weights).argmax(axis=1)
    columns[::10] = rng.integers(0, 4, 30)
    accuracy = np.mean((x.reshape(300, -1) @ weights).argmax(axis=1) == columns)
    net = network(kind, weights, tmp_path)
    with pytest.raises(InputError, match=r"open_model\(model, class_names=\[\.\.\.\]\)"):
        tune(net, x, names[columns], method="ts", shift=None)
    named = tune(open_model(net, class_names=list(names)), x, names[columns], method="ts", shift=None)
    assert named.metadata["accuracy"] == pytest.approx(accuracy)
    as_text = tune(net, x, columns.astype(str), method="ts", shift=None)
    assert as_text.metadata["accuracy"] == pytest.approx(accuracy)


def test_numbers_in_a_file_are_classes_of_the_model(tmp_path):
    labels = np.array([1, 2, 7])[Y]
    np.savez(tmp_path / "val.npz", x=X[VALIDATION], y=labels[VALIDATION])
    model = fitted(labels)
    tuned = tune(model, tmp_path / "val.npz", method="ts", n_levels=4)
    assert tuned.perturbation["levels"][0]["accuracy"] == pytest.approx(model.score(X[VALIDATION], labels[VALIDATION]))


def pictures(folder, names):
    rng = np.random.default_rng(0)
    for name in names:
        (folder / name).mkdir(parents=True)
        for k in range(6):
            grey = np.full((8, 8, 3), {"circle": 20, "cross": 120, "square": 220}[name]) + rng.integers(0, 9, (8, 8, 3))
            Image.fromarray(grey.astype(np.uint8)).save(folder / name / f"{k}.png")
    return str(folder)


def brightness(images):
    level = images.mean(axis=(1, 2, 3))[:, None]
    return -40 * (level - np.array([[24, 124, 224]]) / 255) ** 2


def test_a_folder_without_a_class_does_not_renumber_the_others(tmp_path):
    complete = pictures(tmp_path / "complete", ["circle", "cross", "square"])
    part = pictures(tmp_path / "part", ["cross", "square"])
    model = open_model(brightness, name="brightness")
    tuned = tune(model, complete, method="ts", n_levels=3)
    assert driftcal.evaluate(tuned, part, n_resamples=0).summary()[0].in_domain_accuracy == 1
    with pytest.raises(InputError, match=r"name all 3 classes of the model.*names 2: cross, square.*--classes"):
        tune(model, part, method="ts")
    named = open_source(part).with_classes(["circle", "cross", "square"])
    assert tune(model, named, method="ts", n_levels=3).perturbation["levels"][0]["accuracy"] == 1
    unknown = pictures(tmp_path / "unknown", ["circle", "cross"])
    (tmp_path / "unknown" / "cross").rename(tmp_path / "unknown" / "kreuz")
    with pytest.raises(DataError, match=r"'kreuz' .* is not among class_names"):
        driftcal.evaluate(tuned, unknown)


def test_a_source_with_matching_classes_is_unchanged():
    source = open_source((np.zeros((4, 3)), [0, 2, 1, -1]))
    assert source.with_classes(["0", "1", "2"]) is source
    assert source.with_classes(["x", "y", "z"]) is source  # numbers are columns
    renumbered = open_source((np.zeros((4, 3)), np.array(["b", "a", "b", "a"])), class_names="ab").with_classes(
        ["b", "z", "a"]
    )
    assert (renumbered.labels.tolist(), renumbered.class_names) == ([0, 2, 0, 2], ("b", "z", "a"))
    assert source.with_classes(["2", "7", "0", "1"]).labels.tolist() == [2, 0, 3, -1]
    assert repr(source) == "Source('arrays', 4 samples, 3 classes)"


def test_probabilities_do_not_depend_on_the_first_batch(tmp_path):
    model = fitted(Y, lambda: OneVsRestClassifier(LogisticRegression()))
    path = tune(model, X[VALIDATION], Y[VALIDATION], method="ts", n_levels=3).save(tmp_path / "cal.safetensors")
    extreme = X[:1] + 20 * X.std(axis=0)
    plain, after = CalibratedModel.load(path, model), CalibratedModel.load(path, model)
    after.predict_proba(extreme)
    np.testing.assert_array_equal(after.predict_proba(X[TEST]), plain.predict_proba(X[TEST]))


def test_probabilities_of_0_at_prediction_are_finite():
    model = fitted(Y, GaussianNB)
    tuned = tune(model, X[VALIDATION], Y[VALIDATION], method="ts", n_levels=3)
    far = X[TEST] + 30 * X.std(axis=0)
    assert (model.predict_proba(far) == 0).any()
    assert np.isfinite(tuned.predict_proba(far)).all()


def test_models_and_suites_that_cannot_be_evaluated_are_refused():
    model = fitted(Y)
    with pytest.raises(InputError, match=r"must be a CalibratedModel; it is a Pipeline.*driftcal\.tune"):
        driftcal.evaluate(model, X[TEST], Y[TEST])
    tuned = tune(model, X[VALIDATION], Y[VALIDATION], method="ts", n_levels=3)
    noise = Suite("noise", "the tuning shift", (get_shift("tabular_noise").fit(X),))
    with pytest.raises(InputError, match="'tabular_noise' takes any number"):
        driftcal.evaluate(tuned, X[TEST], Y[TEST], suite=noise)


def test_features_are_not_rounded_to_float32():
    from sklearn.tree import DecisionTreeClassifier

    edge = np.float64(np.float32(0.1)) + 1e-12  # rounds down to a float32 on the other side of the tree's threshold
    x = np.array([[edge - 2e-12], [edge]] * 40)
    y = np.arange(80) % 2

    class Threshold(DecisionTreeClassifier):
        def predict_proba(self, X):
            above = np.asarray(X)[:, 0] > edge - 1e-12
            return np.column_stack([0.9 - 0.8 * above, 0.1 + 0.8 * above])

    tuned = tune(open_model(Threshold().fit(x, y), outputs="probabilities"), x, y, method="ts", shift=None)
    np.testing.assert_array_equal(tuned.predict(x), y)
