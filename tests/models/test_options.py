"""Options of open_model: for open models, class names, devices, training mode."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

from driftcal.errors import ImagesError, InputError, ModelError
from driftcal.models import Model, Preprocessing, open_model
from driftcal.models.callable import CallableBackend

X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)


def linear(batch):
    return batch @ W


def softmax(batch):
    e = np.exp(batch @ W)
    return e / e.sum(axis=1, keepdims=True)


# open models


def test_options_of_an_open_model_are_applied():
    model = open_model(linear, batch_size=8, name="v1")
    other = open_model(
        model, batch_size=16, name="v2", preprocessing={"scale": 2.0}, class_names=["a", "b", "c"]
    ).prepare(X)
    assert (other.batch_size, other.name, other.class_names) == (16, "v2", ("a", "b", "c"))
    np.testing.assert_allclose(other.logits(X), 2 * linear(X), rtol=1e-5)
    assert (model.prepare(X).batch_size, model.name, model.class_names) == (8, "v1", None), "the first is unchanged"
    assert other.fingerprint == open_model(linear, name="v2", preprocessing=Preprocessing(scale=2.0)).fingerprint
    assert open_model(model) is model


def test_outputs_of_an_open_model_are_applied():
    from sklearn.linear_model import LogisticRegression

    logits = open_model(open_model(softmax), outputs="probabilities").logits(X)
    np.testing.assert_allclose(np.exp(logits), softmax(X), atol=1e-6)
    with pytest.raises(ModelError, match="look like probabilities"):
        open_model(open_model(softmax, outputs="probabilities"), outputs="logits").logits(X)
    estimator = LogisticRegression().fit(X, np.arange(40) % 3)
    model = open_model(open_model(estimator), outputs="probabilities")
    np.testing.assert_allclose(np.exp(model.logits(X)), estimator.predict_proba(X), atol=1e-6)


def test_threads_of_an_open_model_are_applied():
    import torch

    used = []

    class Net(torch.nn.Linear):
        def forward(self, x):
            used.append(torch.get_num_threads())
            return super().forward(x)

    model = open_model(open_model(Net(6, 3), batch_size=40, name="net"), threads=1).prepare(X)
    assert (model.batch_size, model.name) == (40, "net")
    assert set(used) == {1}


def test_options_that_an_open_model_cannot_take_are_refused():
    model = open_model(linear)
    with pytest.raises(InputError, match="weights belongs to a model that is not open yet"):
        open_model(model, weights="w.safetensors")
    with pytest.raises(InputError, match="trust belongs to"):
        open_model(model, trust=True)
    with pytest.raises(InputError, match="threads must be set when a model is opened"):
        open_model(Model(CallableBackend(linear)), threads=1)
    with pytest.raises(InputError, match="batch_size must be a number of samples"):
        open_model(model, batch_size=-1)


def test_a_factory_may_return_a_model_and_its_options_are_applied(tmp_path, monkeypatch):
    (tmp_path / "ready_for_test.py").write_text(
        "from driftcal import open_model\ndef make():\n    return open_model(lambda batch: batch[:, :3] - 2, name='ready')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    model = open_model("ready_for_test:make", batch_size=5, class_names=["a", "b", "c"]).prepare(X)
    assert (model.batch_size, model.name) == (5, "ready")
    again = pickle.loads(pickle.dumps(model))  # by the factory: a lambda could not be sent to another process
    assert (again.batch_size, again.class_names, again.n_classes) == (5, ("a", "b", "c"), 3)
    smaller = pickle.loads(pickle.dumps(open_model(model, batch_size=2)))
    assert (smaller.batch_size, smaller.class_names) == (2, ("a", "b", "c"))


# names of classes


def test_class_names_are_kept_and_recorded():
    model = open_model(linear, class_names=["cat", "dog", "eel"]).prepare(X)
    assert model.class_names == ("cat", "dog", "eel")
    assert model.metadata()["class_names"] == ["cat", "dog", "eel"]
    assert open_model(linear).class_names is None
    assert model.fingerprint == open_model(linear).prepare(X).fingerprint, "names do not change logits"
    assert pickle.loads(pickle.dumps(model)).class_names == ("cat", "dog", "eel")
    bare = Model(CallableBackend(linear), class_names=["cat", "dog", "eel"])
    assert pickle.loads(pickle.dumps(bare)).class_names == ("cat", "dog", "eel")


def test_scikit_learn_models_have_class_names():
    from sklearn.linear_model import LogisticRegression

    text = LogisticRegression().fit(X, np.array(["cat", "dog", "eel"])[np.arange(40) % 3])
    assert open_model(text).class_names == ("cat", "dog", "eel")
    numbers = LogisticRegression().fit(X, np.arange(40) % 3)
    assert open_model(numbers).class_names == ("0", "1", "2")
    assert open_model(numbers, class_names=["cat", "dog", "eel"]).class_names == ("cat", "dog", "eel")
    with pytest.raises(InputError, match="the classes that the model was fitted with, in their order, cat, dog, eel"):
        open_model(text, class_names=["dog", "cat", "eel"])
    with pytest.raises(InputError, match="each of the model's 3 outputs; it holds 2 names"):
        open_model(numbers, class_names=["cat", "dog"])


def test_a_wrong_number_of_class_names_is_refused():
    with pytest.raises(InputError, match="each of the model's 3 outputs; it holds 4 names"):
        open_model(linear, class_names=list("abcd")).logits(X)
    with pytest.raises(InputError, match="must be a list in the order of the model's outputs; it is a set"):
        open_model(linear, class_names={"a", "b", "c"})
    with pytest.raises(InputError, match="it is a str"):
        open_model(linear, class_names="abc")
    with pytest.raises(InputError, match="at least two"):
        open_model(linear, class_names=["a"])


# torch


def test_training_flags_are_restored():
    import torch

    frozen = torch.nn.BatchNorm1d(16).eval()
    net = torch.nn.Sequential(torch.nn.Linear(6, 16), frozen, torch.nn.Dropout(0.5), torch.nn.Linear(16, 3))
    net.train()
    frozen.eval()
    before = [part.training for part in net.modules()]
    model = open_model(net)
    first = model.logits(X)
    assert [part.training for part in net.modules()] == before
    assert np.array_equal(model.logits(X), first), "dropout is off while it runs"
    model.features(X, ["0"])
    assert [part.training for part in net.modules()] == before
    with pytest.raises(ModelError):
        model.logits(X[:, :5])
    assert [part.training for part in net.modules()] == before, "also after an error"
    assert not any(part.training for part in open_model(net.eval()).backend.module.modules())


def test_runs_in_several_threads_restore_training_flags_once():
    import torch

    barrier = threading.Barrier(2, timeout=20)

    class Slow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = torch.nn.Dropout(0.9)
            self.first = True

        def forward(self, x):
            barrier.wait()  # both are running
            if threading.current_thread().name == "second":
                one.join()  # the other one has finished
            return self.drop(x)

    net = Slow().train()
    models = [open_model(net, batch_size=40) for _ in range(2)]
    for model in models:
        model._n_classes, model._input_shape = 6, (6,)  # no probe: the barrier counts runs
    results = {}
    one, two = (
        threading.Thread(target=lambda m=m, n=n: results.update({n: m.logits(X)}), name=n)
        for m, n in zip(models, ("first", "second"), strict=True)
    )
    one.start()
    two.start()
    two.join()
    assert np.array_equal(results["second"], X), "still in evaluation mode after the first run has ended"
    assert net.training
    assert net.drop.training


def test_the_error_of_a_missing_device_names_the_way_out():
    import torch

    if not torch.cuda.is_available():
        with pytest.raises(
            ModelError, match=r"device must be one that torch can use.*'cuda'.*\w\. Leave .*device='cpu'"
        ):
            open_model(torch.nn.Linear(6, 3), device="cuda")
    with pytest.raises(ModelError, match='device must be "auto" or a torch device'):
        open_model(torch.nn.Linear(6, 3), device="gpu")
    with pytest.raises(InputError, match="a function chooses its device itself"):
        open_model(linear, device="cuda")
    assert open_model(linear, device="cpu").logits(X).shape == (40, 3)


# inputs


def test_samples_with_missing_values_are_named():
    with_nan = X.copy()
    with_nan[33, 2] = np.nan
    with pytest.raises(ImagesError, match="inputs must not hold NaN, which this model does not accept; sample 33 does"):
        open_model(linear, batch_size=8).logits(with_nan)

    def strict(batch):
        if np.isnan(batch).any():
            raise ValueError("no")
        return linear(batch)

    with pytest.raises(ModelError, match=r"ValueError: no.* The inputs hold NaN, first in sample 33"):
        open_model(strict, batch_size=8).logits(with_nan)
    tolerant = open_model(lambda batch: np.nan_to_num(batch) @ W)
    assert np.isfinite(tolerant.logits(with_nan)).all(), "a model that accepts NaN gets it"
