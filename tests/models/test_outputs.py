"""Outputs of models, their inputs and batches, and their fingerprints."""

from __future__ import annotations

import numpy as np
import pytest

from driftcal.errors import ImagesError, InputError, ModelError, UnknownName
from driftcal.models import SMALLEST_PROBABILITY, batch_size, open_model
from driftcal.models.batch_size import choose_batch_size

X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
Y = np.arange(40) % 3
W = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)


def linear(batch):
    return batch @ W


def probabilities(batch):
    e = np.exp(batch @ W)
    return e / e.sum(1, keepdims=True)


# probabilities or logits


def test_softmax_outputs_must_be_declared():
    with pytest.raises(ModelError, match=r'look like probabilities.*outputs="probabilities"'):
        open_model(probabilities).logits(X)
    logits = open_model(probabilities, outputs="probabilities").logits(X)
    np.testing.assert_allclose(np.exp(logits).sum(1), 1, atol=1e-6)
    assert np.array_equal(logits.argmax(1), linear(X).argmax(1))
    with pytest.raises(ModelError, match="needs values in"):
        open_model(linear, outputs="probabilities").logits(X)


def test_a_probability_of_zero_becomes_the_smallest_float():
    hard = open_model(lambda batch: np.eye(3)[np.arange(len(batch)) % 3], outputs="probabilities")
    logits = hard.logits(X)
    assert np.isfinite(logits).all()
    assert logits.min() == np.float32(np.log(SMALLEST_PROBABILITY))


def test_one_column_is_a_binary_model():
    two = open_model(lambda batch: batch[:, 0] * 5).logits(X)
    assert two.shape == (40, 2)
    np.testing.assert_allclose(two[:, 1] - two[:, 0], X[:, 0] * 5, rtol=1e-6)
    sigmoid = open_model(lambda batch: 1 / (1 + np.exp(-batch[:, :1])), outputs="probabilities").logits(X)
    np.testing.assert_allclose(sigmoid[:, 1] - sigmoid[:, 0], X[:, 0], rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelError, match="single column lies in"):
        open_model(lambda batch: 1 / (1 + np.exp(-batch[:, 0]))).logits(X)


def test_log_odds_between_0_and_1_are_no_probabilities():
    """The first inputs of a loaded model may be one sample, and all log-odds of a weak model may lie in [0, 1]."""
    from sklearn.linear_model import LogisticRegression

    few = open_model(lambda batch: np.full(len(batch), 0.5)).logits(X[:9])
    assert few.tolist() == [[0, 0.5]] * 9
    weak = LogisticRegression(C=1e-3).fit(X, np.arange(len(X)) % 5 > 1)
    odds = weak.decision_function(X)
    assert ((odds > 0) & (odds < 1)).all()
    np.testing.assert_allclose(open_model(weak).logits(X)[:, 1], odds, rtol=1e-6)


def test_unusable_outputs_name_the_sample():
    def broken(batch):
        out = linear(batch).copy()
        out[batch[:, 0] == X[30, 0]] = np.nan
        return out

    with pytest.raises(ModelError, match="sample 30 has NaN"):
        open_model(broken, batch_size=8).logits(X)
    masked = open_model(lambda b: np.where(np.arange(3) == 1, -np.inf, linear(b)))
    assert np.isneginf(masked.logits(X)[:, 1]).all(), "-inf is a masked class"
    with pytest.raises(ModelError, match=r"must return \(n, classes\)"):
        open_model(lambda batch: np.zeros((len(batch), 2, 2))).logits(X)
    with pytest.raises(ModelError, match=r"returned 2. Wrap it"):
        open_model(lambda batch: (linear(batch), linear(batch))).logits(X)
    assert open_model(lambda batch: {"logits": linear(batch), "aux": 1}).logits(X).shape == (40, 3)


def test_the_error_of_a_failing_model_names_its_inputs():
    with pytest.raises(
        ModelError, match=r"failed on a batch of shape \(16, 6\).*ZeroDivisionError.*shape that the model takes"
    ):
        open_model(lambda batch: 1 / 0).logits(X)

    def needs_memory(batch):
        if len(batch) > 4:
            raise MemoryError
        return linear(batch)

    with pytest.raises(ModelError, match=r"does not fit into memory.*batch_size=8"):
        open_model(needs_memory, batch_size=32).logits(X)


# inputs and batches


def test_batches_begin_at_fixed_positions():
    sizes = []

    def spy(batch):
        sizes.append(len(batch))
        return linear(batch)

    model = open_model(spy, batch_size=16).prepare(X)
    sizes.clear()
    logits = model.logits(X)
    assert sizes == [16, 16, 8]
    assert np.array_equal(logits, linear(X))
    assert model.logits(X[:0]).shape == (0, 3)


def test_the_automatic_batch_size_is_repeatable():
    model = open_model(linear).prepare(X)
    assert model.batch_size == 256
    large = open_model(lambda batch: batch.mean(axis=(1, 2)) @ np.eye(3) - 2)
    size = large.prepare(np.zeros((2, 512, 512, 3), np.float32)).batch_size
    assert 1 <= size <= 256
    assert size & (size - 1) == 0
    with pytest.raises(ModelError, match="prepare"):
        _ = open_model(linear).batch_size
    with pytest.raises(ModelError, match="prepare"):
        _ = open_model(linear).n_classes


def test_no_more_samples_are_tried_than_will_fit(monkeypatch):
    sizes = []

    def run(n):
        sizes.append(n)
        return n << 30  # a gigabyte each

    monkeypatch.setattr(batch_size, "peak_memory", lambda action: action())
    monkeypatch.setattr(batch_size, "memory_limit", lambda: 24 << 30)
    assert (choose_batch_size(run, 100), sizes) == (4, [1])
    monkeypatch.setattr(batch_size, "memory_limit", lambda: 64 << 30)
    assert (choose_batch_size(run, 100), sizes) == (16, [1, 1, 8])


def test_unusable_inputs_and_options_are_refused():
    model = open_model(linear)
    with pytest.raises(ImagesError, match="uint8"):
        model.logits(np.zeros((2, 4, 4, 3), np.uint8))
    with pytest.raises(ImagesError, match=r"images \(n, H, W, C\), series \(n, length, channels\), features \(n, F\)"):
        model.logits(np.zeros((2, 4, 4, 3, 1), np.float32))
    with pytest.raises(InputError, match="inputs must be numbers, or a table as a pandas data frame") as raised:
        model.logits(np.array([[1, "north"], [2.5, "south"]], dtype=object))
    assert not isinstance(raised.value, ImagesError)
    with pytest.raises(ImagesError, match="at least one sample"):
        model.logits(X[:0])
    with pytest.raises(InputError, match="batch_size must be a number"):
        open_model(linear, batch_size=0)
    with pytest.raises(InputError, match="threads must be at least 1"):
        open_model(linear, threads=0)
    with pytest.raises(UnknownName, match="kind of outputs"):
        open_model(linear, outputs="probs")  # type: ignore[arg-type]


# fingerprints of callables


def test_callables_are_identified_by_name_or_by_their_outputs():
    a = open_model(linear).prepare(X)
    b = open_model(lambda batch: batch @ W).prepare(X)
    c = open_model(lambda batch: batch @ (W + 1e-4)).prepare(X)
    assert a.fingerprint == b.fingerprint != c.fingerprint
    assert open_model(linear, name="v1").fingerprint == open_model(lambda b: b * 0, name="v1").fingerprint
    assert open_model(linear, name="v1").fingerprint != open_model(linear, name="v2").fingerprint
    with pytest.raises(ModelError, match="prepare"):
        _ = open_model(linear).fingerprint


# scikit-learn


def test_sklearn_models_give_a_logit_per_class():
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, LinearSVC

    names = np.array(["cat", "dog", "eel"])[Y]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, names)
    model = open_model(pipeline)
    np.testing.assert_allclose(model.logits(X), pipeline.decision_function(X), atol=1e-5)
    assert model.classes == ("cat", "dog", "eel")

    binary = LogisticRegression().fit(X, Y == 0)
    np.testing.assert_allclose(open_model(binary).logits(X)[:, 1], binary.decision_function(X), atol=1e-5)

    svm = LinearSVC().fit(X, Y)
    np.testing.assert_allclose(open_model(svm).logits(X), svm.decision_function(X), atol=1e-5)
    with pytest.raises(ModelError, match="gives no probabilities"):
        open_model(svm, outputs="probabilities").logits(X)
    four = np.arange(40) % 4
    with pytest.raises(ModelError, match="neither probabilities nor one score per class"):
        open_model(SVC(decision_function_shape="ovo").fit(X, four)).logits(X)
    with pytest.raises(ModelError, match="decision_function_shape='ovr'"):  # three pairs are not three classes
        open_model(SVC(decision_function_shape="ovo").fit(X, Y)).logits(X)
    np.testing.assert_array_equal(open_model(SVC().fit(X, Y)).logits(X).argmax(axis=1), SVC().fit(X, Y).predict(X))

    forest = RandomForestClassifier(10, random_state=0).fit(X, Y)
    assert (forest.predict_proba(X) == 0).any()
    for options in ({}, {"outputs": "probabilities"}):  # smoothed by one more vote
        expected = (10 * forest.predict_proba(X) + 1 / 3) / 11
        np.testing.assert_allclose(np.exp(open_model(forest, **options).logits(X)), expected, atol=1e-6)
    with pytest.raises(ModelError, match="fitted classifier"):
        open_model(LogisticRegression())


def test_sklearn_fingerprints_depend_on_the_fit():
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    for kind in (
        LogisticRegression(),
        RandomForestClassifier(3, random_state=0),
        HistGradientBoostingClassifier(max_iter=2, random_state=0),
        KNeighborsClassifier(),
    ):
        fingerprints = [
            open_model(type(kind)(**kind.get_params()).fit(X[:n], Y[:n]), outputs="probabilities").fingerprint
            for n in (40, 40, 30)
        ]
        assert fingerprints[0] == fingerprints[1] != fingerprints[2], type(kind).__name__


@pytest.mark.parametrize("algorithm", ["kd_tree", "ball_tree", "brute"])
def test_queries_do_not_change_the_fingerprint_of_nearest_neighbours(algorithm):
    from sklearn.neighbors import KNeighborsClassifier

    neighbours = KNeighborsClassifier(algorithm=algorithm).fit(X, Y)
    before = open_model(neighbours).fingerprint
    neighbours.predict_proba(X)
    assert open_model(neighbours).fingerprint == before
    assert open_model(neighbours.fit(X[:30], Y[:30])).fingerprint != before
