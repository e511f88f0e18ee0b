"""A calibrator as an ONNX model: standard operators, the same numbers, or no file."""

import copy
import json

import numpy as np
import pytest
from export_cases import STATIC, fitted, rows

import driftcal.export.onnx.file
from driftcal.errors import InputError, ModelError, NotFittedError
from driftcal.export import to_onnx
from driftcal.export.lookup import Buckets, Search
from driftcal.export.onnx.file import open_session

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def check_parity(calibrator, logits, kind="float32"):
    session = open_session(to_onnx(calibrator, logits=kind).model.SerializeToString())
    probabilities = session.run(None, {"logits": logits})[0]
    assert np.abs(probabilities - calibrator.predict_proba(logits)).max() < 1e-9


@pytest.mark.parametrize("name", STATIC)
def test_standard_operators_and_a_free_batch(name):
    model = to_onnx(fitted(name, 10)).model
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert {node.domain for node in model.graph.node} == {""}
    assert {node.op_type for node in model.graph.node}.isdisjoint({"Loop", "Scan", "If"})
    onnx.checker.check_model(model, full_check=True)
    session = open_session(model.SerializeToString())
    for n in (0, 1, 7):
        found = session.run(None, {"logits": np.zeros((n, 10), np.float32)})
        assert [part.shape for part in found] == [(n, 10), (n,), (n,)]


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_any_float_type_of_logits(kind):
    calibrator, logits = fitted("ets", 10), rows(10, 100, 100).astype(kind)
    check_parity(calibrator, logits, kind)


@pytest.mark.parametrize(
    ("name", "params"), [("hb", {"n_bins": 1}), ("hb", {"n_bins": 100}), ("pbmc", {"normalise": False})]
)
def test_options_of_binning(name, params):
    calibrator, logits = fitted(name, 10, **params), rows(10, 500, 500)
    check_parity(calibrator, logits)


@pytest.mark.parametrize("least", [0.3, 0.0, -0.5])
def test_slopes_of_vector_scaling_may_have_any_sign(least):
    calibrator, logits = copy.deepcopy(fitted("vs", 10)), rows(10, 500, 500)
    assert np.isinf(logits).any(), "masked classes"
    calibrator.slopes_ = np.linspace(least, 2, 10)
    check_parity(calibrator, logits)


def test_buckets_lead_to_the_same_place():
    rng = np.random.default_rng(0)
    numbers = np.unique(np.concatenate([[0.0, 1.0, 5e-324], rng.random(300) ** 6, 1 - rng.random(5) / 1e6]))
    search = Search.among(numbers, np.array([0, len(numbers)]))
    buckets = Buckets.of(search)
    assert len(buckets.above) <= len(search.above) - 2
    scores = np.concatenate(
        [numbers, np.nextafter(numbers, 0), np.minimum(np.nextafter(numbers, 2), 1), rng.random(999)]
    )
    at = buckets.start[(np.sqrt(np.sqrt(scores)) * buckets.scale).astype(np.int64)]
    for above, below in zip(buckets.above, buckets.below, strict=True):
        at = at + np.where(buckets.sorted[at] < scores, above, below)
    np.testing.assert_array_equal(at, np.searchsorted(numbers, scores))
    assert Buckets.of(Search.among(np.linspace(0.99999999, 1, 300), np.array([0, 300]))) is None, "all in one bucket"


def test_the_file_says_what_it_is(tmp_path):
    logits = np.random.default_rng(0).normal(size=(50, 2))
    calibrator = fitted("hb", 2).__class__(classes=["no", "yes"]).fit(logits, np.where(logits[:, 1] > 0, "yes", "no"))
    export = to_onnx(calibrator, tmp_path / "hb.onnx")
    note = {entry.key: entry.value for entry in onnx.load(export.path).metadata_props}
    assert json.loads(note["driftcal.classes"]) == ["no", "yes"]
    assert note["driftcal.calibrator"] == "hb"
    assert export.to_dict()["max_difference"] == export.difference < 1e-9


def test_a_graph_that_differs_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(
        driftcal.export.onnx.file, "export_map_of", lambda _: driftcal.export.maps.export_map_of(fitted("ts", 5))
    )
    with pytest.raises(ModelError, match="largest difference"):
        to_onnx(fitted("base", 5), tmp_path / "wrong.onnx")
    assert list(tmp_path.iterdir()) == []


def test_bad_calls_are_refused():
    with pytest.raises(NotFittedError):
        to_onnx(fitted("ts", 5).__class__())
    with pytest.raises(InputError, match="float16, float32, float64"):
        to_onnx(fitted("ts", 5), logits="int8")

    class Own(type(fitted("ts", 5))):
        pass

    own = Own()
    own.__dict__.update(fitted("ts", 5).__dict__)
    with pytest.raises(InputError, match="its own calibrators"):
        to_onnx(own)
