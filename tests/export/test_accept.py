"""The output `accept`: a threshold in the ONNX graph and the torch module decides as the calibrated model does."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import driftcal
from driftcal.calibrators import make_calibrator
from driftcal.errors import ModelError
from driftcal.export import append_to_onnx, export_file, to_onnx, to_torch
from driftcal.export.onnx.verification import open_session, verify_accept


@pytest.fixture(scope="module")
def logits():
    return (4 * np.random.default_rng(1).normal(size=(300, 4))).astype(np.float32)


@pytest.fixture(scope="module")
def calibrated():
    rng = np.random.default_rng(0)
    scores = 4 * rng.normal(size=(800, 4))
    fitted = driftcal.fit(scores, (scores / 1.5 + rng.gumbel(size=scores.shape)).argmax(axis=1), method="irm")
    return fitted.with_threshold(fitted.threshold(accuracy=0.9))


@pytest.fixture(scope="module")
def with_window(calibrated):
    """The calibrated model with a windowed calibrator beside the per-sample one."""
    rng = np.random.default_rng(2)
    levels = np.repeat(range(4), 200)
    y = rng.integers(4, size=800)
    z = 3 * (1.6 * rng.normal(size=(800, 4)) + (4 - levels)[:, None] * np.eye(4)[y])
    return replace(calibrated, windowed_calibrator=make_calibrator("level-ts").fit(z, y, levels=levels))


@pytest.fixture
def net(tmp_path):
    """A model of logits that has a value named accept."""
    x = helper.make_tensor_value_info("accept", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 4])
    graph = helper.make_graph([helper.make_node("Identity", ["accept"], ["scores"])], "net", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_the_graph_of_a_file_accepts_what_the_model_accepts(calibrated, logits, tmp_path):
    written = export_file(calibrated.save(tmp_path / "cal.safetensors"), tmp_path / "cal.onnx")
    assert written.to_dict()["outputs"]["accept"] == "accept"
    session = open_session((tmp_path / "cal.onnx").read_bytes())
    (accept,) = session.run(["accept"], {"logits": logits})
    np.testing.assert_array_equal(accept, ~calibrated.predict_or_abstain(logits).mask)
    assert 0 < accept.mean() < 1
    stored = session.get_modelmeta().custom_metadata_map["driftcal.threshold"]
    assert json.loads(stored) == calibrated.decision_threshold.to_dict()


def test_a_confidence_equal_to_the_threshold_is_accepted(calibrated):
    graph = to_onnx(calibrated.calibrator, threshold=replace(calibrated.decision_threshold, confidence=0.25))
    (accept,) = open_session(graph.model.SerializeToString()).run(["accept"], {"logits": np.zeros((1, 4), np.float32)})
    assert accept.tolist() == [True]


def test_without_a_threshold_there_is_no_such_output(calibrated):
    export = to_onnx(calibrated.calibrator)
    assert [output.name for output in export.model.graph.output] == ["probabilities", "label", "confidence"]
    assert export.accept is None
    assert "accept" not in export.to_dict()["outputs"]


def test_a_model_with_its_calibrator_accepts(calibrated, logits, net, tmp_path):
    path = calibrated.save(tmp_path / "cal.safetensors")
    written = append_to_onnx(net, path, tmp_path / "out.onnx", force=True)
    assert written.accept == "calibrated_accept"
    assert "driftcal.threshold" in {entry.key for entry in written.model.metadata_props}
    (accept,) = open_session((tmp_path / "out.onnx").read_bytes()).run(["calibrated_accept"], {"accept": logits})
    np.testing.assert_array_equal(accept, ~calibrated.predict_or_abstain(logits).mask)


def test_the_windowed_form_accepts_with_its_own_confidence(with_window, logits, net, tmp_path):
    path = with_window.save(tmp_path / "cal.safetensors")
    append_to_onnx(net, path, tmp_path / "out.onnx", force=True, windowed=True)
    batch = logits[:100]
    window = {"window_sums": np.zeros(2), "sample_mask": np.ones(100, bool)}
    (accept,) = open_session((tmp_path / "out.onnx").read_bytes()).run(
        ["calibrated_accept"], {"accept": batch, **window}
    )
    expected = ~with_window.windowed(100).predict_or_abstain(batch).mask
    np.testing.assert_array_equal(accept, expected)
    assert (expected != ~with_window.predict_or_abstain(batch).mask).any(), "the window matters"
    alone = export_file(path, tmp_path / "alone.onnx", windowed=True)
    session = open_session(alone.model.SerializeToString())
    np.testing.assert_array_equal(session.run([alone.accept], {"logits": batch, **window})[0], expected)


def test_a_calibrator_that_reads_features_accepts(calibrated):
    rng = np.random.default_rng(0)
    z, features = rng.normal(size=(200, 4)), rng.normal(size=(200, 6)).astype(np.float32)
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    dac = make_calibrator("dac", k=5).fit(z, y, features=features, reference=features[:100])
    threshold = replace(calibrated.decision_threshold, confidence=0.5)
    graph = to_onnx(dac, threshold=threshold, logits="float64")
    feed = {"logits": z, "features": features}
    (accept,) = open_session(graph.model.SerializeToString()).run(["accept"], feed)
    np.testing.assert_array_equal(accept, threshold.accepts(dac.predict_proba(z, features=[features]).max(axis=1)))


def test_a_graph_that_accepts_other_samples_is_refused(calibrated):
    threshold = replace(calibrated.decision_threshold, confidence=0.5)
    confidence = np.array([0.3, 0.5 - 1e-12, 0.7, np.nan])
    accept = np.array([False, False, True, False])
    verify_accept(threshold, accept, confidence, np.array([0.3, 0.5, 0.7, np.nan]))  # rounding decides the second
    with pytest.raises(ModelError, match="1 of 4 probe samples differ"):
        verify_accept(threshold, np.array([False, False, True, True]), confidence, confidence)
    with pytest.raises(ModelError, match="1 of 4 probe samples differ"):
        verify_accept(threshold, accept, confidence, np.array([0.6, 0.5, 0.7, np.nan]))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_the_torch_module_accepts_also_when_it_is_scripted(calibrated, logits):
    module = to_torch(calibrated.calibrator, threshold=calibrated.decision_threshold)
    expected = ~calibrated.predict_or_abstain(logits).mask
    for form in (module, torch.jit.script(module)):
        np.testing.assert_array_equal(form.accept(torch.from_numpy(logits)).numpy(), expected)
    with pytest.raises(ValueError, match="no threshold"):
        to_torch(calibrated.calibrator).accept(torch.zeros(2, 4))
