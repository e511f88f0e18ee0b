"""A calibrator as an ONNX model: standard operators, the same numbers, or no file."""

import copy
import json

import numpy as np
import pytest
from export_cases import NAMES, fitted, probes

from driftcal.calibrators import CALIBRATORS
from driftcal.errors import InputError, ModelError, NotFittedError
from driftcal.export import ExportMap, curve_table, to_onnx
from driftcal.export.checked_map import export_map_of
from driftcal.export.onnx.verification import open_session

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def check_parity(calibrator, logits, kind="float32"):
    session = open_session(to_onnx(calibrator, logits=kind).model.SerializeToString())
    probabilities = session.run(None, {"logits": logits})[0]
    assert np.abs(probabilities - calibrator.predict_proba(logits)).max() < 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_standard_operators_and_a_free_batch(name):
    model = to_onnx(fitted(name, 10)).model
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert {node.domain for node in model.graph.node} == {""}
    assert {node.op_type for node in model.graph.node}.isdisjoint({"Loop", "Scan", "If"})
    onnx.checker.check_model(model, full_check=True)
    session = open_session(model.SerializeToString())
    for n in (0, 1, 7):
        outputs = session.run(None, {"logits": np.zeros((n, 10), np.float32)})
        assert [part.shape for part in outputs] == [(n, 10), (n,), (n,)]


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_any_float_type_of_logits(kind):
    calibrator, logits = fitted("ets", 10), probes(10, 100, 100).astype(kind)
    check_parity(calibrator, logits, kind)


@pytest.mark.parametrize(
    ("name", "params"), [("hb", {"n_bins": 1}), ("hb", {"n_bins": 100}), ("pbmc", {"normalise": False})]
)
def test_options_of_binning(name, params):
    calibrator, logits = fitted(name, 10, **params), probes(10, 500, 500)
    check_parity(calibrator, logits)


@pytest.mark.parametrize("least", [0.3, 0.0, -0.5])
def test_slopes_of_vector_scaling_may_have_any_sign(least):
    calibrator, logits = copy.deepcopy(fitted("vs", 10)), probes(10, 500, 500)
    assert np.isinf(logits).any(), "masked classes"
    calibrator.slopes_ = np.linspace(least, 2, 10)
    check_parity(calibrator, logits)


def test_the_metadata_say_which_calibrator_the_file_holds(tmp_path):
    logits = np.random.default_rng(0).normal(size=(50, 2))
    calibrator = fitted("hb", 2).__class__(classes=["no", "yes"]).fit(logits, np.where(logits[:, 1] > 0, "yes", "no"))
    export = to_onnx(calibrator, tmp_path / "hb.onnx")
    metadata = {entry.key: entry.value for entry in onnx.load(export.path).metadata_props}
    assert json.loads(metadata["driftcal.classes"]) == ["no", "yes"]
    assert metadata["driftcal.calibrator"] == "hb"
    assert metadata["driftcal.form"] == "per-sample"
    assert export.to_dict()["max_difference"] == export.difference < 1e-9


def test_a_graph_that_differs_is_not_written(tmp_path, monkeypatch):
    other = export_map_of(fitted("ts", 5))
    monkeypatch.setattr("driftcal.export.onnx.to_onnx.export_map_of", lambda _: other)
    with pytest.raises(ModelError, match="largest difference"):
        to_onnx(fitted("base", 5), tmp_path / "wrong.onnx")
    assert list(tmp_path.iterdir()) == []


def test_calibrators_that_cannot_be_exported_are_refused():
    with pytest.raises(NotFittedError):
        to_onnx(fitted("ts", 5).__class__())
    with pytest.raises(InputError, match="float16, float32, float64"):
        to_onnx(fitted("ts", 5), logits="int8")
    on_probabilities = fitted("ts", 5).__class__().fit([0.9, 0.1, 0.8], [1, 0, 0], score_type="probabilities")
    with pytest.raises(
        InputError, match=r"takes logits; .* score_type='probabilities'\. Fit it on driftcal\.from_probabilities"
    ):
        to_onnx(on_probabilities)

    class NotRegistered(type(fitted("ts", 5))):
        pass

    not_registered = NotRegistered()
    not_registered.__dict__.update(fitted("ts", 5).__dict__)
    with pytest.raises(InputError, match="must be registered"):
        to_onnx(not_registered)

    class WithoutMap(NotRegistered):
        def export_map(self):
            return None

    without_map = WithoutMap()
    without_map.__dict__.update(fitted("ts", 5).__dict__)
    with pytest.raises(InputError, match="WithoutMap has no export"):
        to_onnx(without_map)


def test_a_table_can_give_the_probabilities_themselves(monkeypatch):
    class Tabulated(CALIBRATORS["base"]):
        def export_map(self):
            return ExportMap(table=curve_table(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0, 2])))

    monkeypatch.setitem(CALIBRATORS, "tabulated", Tabulated)
    calibrator = Tabulated()
    calibrator.__dict__.update(fitted("base", 5).__dict__)
    check_parity(calibrator, probes(5, 50, 50))
