"""A user's ONNX model with a calibrator at the end: same input, new outputs, the calibrator's probabilities."""

from pathlib import Path

import numpy as np
import pytest
from export_cases import NAMES, fitted, probes, write_model

import driftcal
from driftcal.errors import ArtefactError, InputError, ModelError
from driftcal.export import append_to_onnx
from driftcal.export.checked_map import export_map_of
from driftcal.export.onnx.verification import open_session

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
HALF, DOUBLE = onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE


def linear(path, n_classes=5, seed=0, **options):
    weights = {"w": np.random.default_rng(seed).normal(size=(6, n_classes)).astype(np.float32)}
    return write_model(path, [("MatMul", ["x", "w"], ["logits"])], ["n", 6], ["n", n_classes], weights, **options)


def run(path, x):
    session = open_session(Path(path).read_bytes())
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": x}), strict=True))


def check(path, calibrator, logits, x):
    outputs = run(path, x)
    assert np.abs(outputs["probabilities"] - calibrator.predict_proba(logits)).max() < 1e-9
    if calibrator.keeps_accuracy:
        np.testing.assert_array_equal(outputs["label"], np.asarray(logits).argmax(axis=1))
    np.testing.assert_array_equal(outputs["confidence"], outputs["probabilities"][np.arange(len(x)), outputs["label"]])
    return outputs


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("kind", "n_classes"), [("float16", 10), ("int8", 10), ("float64", 10), ("float16", 1000), ("int8", 1000)]
)
def test_parity_on_the_logits_of_a_model(name, kind, n_classes, tmp_path):
    rng = np.random.default_rng(0)
    w, path, declared = rng.normal(size=(6, n_classes)), tmp_path / "net.onnx", (["n", 6], ["n", n_classes])
    if kind == "float16":
        nodes = [("Cast", ["x"], ["h"], {"to": HALF}), ("MatMul", ["h", "w"], ["logits"])]
        write_model(path, nodes, *declared, {"w": w.astype(np.float16)}, out_kind=HALF)
    elif kind == "float64":
        nodes = [("MatMul", ["x", "w"], ["logits"])]
        write_model(path, nodes, *declared, {"w": w}, kind=DOUBLE, out_kind=DOUBLE)
    else:
        nodes = [
            ("QuantizeLinear", ["x", "s", "z"], ["q"]),
            ("DequantizeLinear", ["q", "s", "z"], ["d"]),
            ("DequantizeLinear", ["w", "s", "z"], ["v"]),
            ("MatMul", ["d", "v"], ["logits"]),
        ]
        weights = {"w": np.round(w * 30).astype(np.int8), "s": np.float32(0.03), "z": np.int8(0)}
        write_model(path, nodes, *declared, {k: np.asarray(v) for k, v in weights.items()})
    calibrator = fitted(name, n_classes)
    append_to_onnx(path, calibrator, tmp_path / "out.onnx")
    x = rng.normal(size=(11_000 if n_classes == 10 else 1_100, 6))
    x = x.astype(np.float64 if kind == "float64" else np.float32)
    x[len(x) * 10 // 11 :] *= 1_000
    emitted = run(path, x)["logits"]
    assert emitted.dtype == (kind if kind != "int8" else np.float32)
    outputs = check(tmp_path / "out.onnx", calibrator, emitted.astype(np.float32), x)
    np.testing.assert_array_equal(outputs["logits"], emitted)


def tuned_file(tmp_path):
    x = np.random.default_rng(1).normal(size=(300, 6)).astype(np.float32)
    model = driftcal.open_model(linear(tmp_path / "net.onnx"))
    y = (model.logits(x) + np.random.default_rng(2).gumbel(size=(300, 5))).argmax(axis=1)
    return driftcal.tune(model, x, y, method="ts", n_levels=2)


def test_another_model_is_refused_unless_forced(tmp_path):
    tuned = tuned_file(tmp_path)
    saved = tuned.save(tmp_path / "cal.safetensors")
    export = append_to_onnx(tmp_path / "net.onnx", saved, tmp_path / "out.onnx")
    x = np.random.default_rng(3).normal(size=(20, 6)).astype(np.float32)
    np.testing.assert_allclose(run(export.path, x)["probabilities"], tuned.predict_proba(x), atol=1e-6)
    append_to_onnx(tmp_path / "net.onnx", tuned, tmp_path / "out2.onnx")
    other = linear(tmp_path / "other.onnx", seed=9)
    for calibrator in (saved, tuned):
        with pytest.raises(ModelError, match="another model"):
            append_to_onnx(other, calibrator, tmp_path / "no.onnx")
    assert not (tmp_path / "no.onnx").exists()
    assert append_to_onnx(other, saved, tmp_path / "yes.onnx", force=True).path.is_file()


def test_trees_are_not_exported_but_the_calibrator_alone_is(tmp_path):
    (tmp_path / "trees.txt").write_text("tree\n")
    with pytest.raises(ModelError, match=r"holds trees\. Export the calibrator alone.*driftcal export CALIBRATOR -o"):
        append_to_onnx(tmp_path / "trees.txt", fitted("ts", 5), tmp_path / "out.onnx")


def test_a_file_that_names_no_model_is_refused_unless_forced(tmp_path):
    saved = fitted("ts", 5).save(tmp_path / "cal.safetensors")
    with pytest.raises(ArtefactError, match="which model"):
        append_to_onnx(linear(tmp_path / "net.onnx"), saved, tmp_path / "out.onnx")
    append_to_onnx(tmp_path / "net.onnx", saved, tmp_path / "out.onnx", force=True)


def test_names_that_are_taken_are_not_used_again(tmp_path):
    nodes = [
        ("Identity", ["x"], ["probabilities"]),
        ("Identity", ["probabilities"], ["driftcal/Cast_0"]),
        ("Identity", ["driftcal/Cast_0"], ["label"]),
    ]
    path = write_model(tmp_path / "net.onnx", nodes, ["n", 5], ["n", 5], out="label")
    export = append_to_onnx(path, fitted("irm", 5), tmp_path / "out.onnx")
    assert export.outputs == ("calibrated_probabilities", "calibrated_label", "confidence")
    outputs = run(export.path, probes(5, 50, 20))
    assert list(outputs) == ["label", *export.outputs]


def test_weights_beside_the_model_move_into_the_new_file(tmp_path):
    (tmp_path / "model").mkdir()
    path = linear(tmp_path / "model" / "net.onnx", save_as_external_data=True, location="net.bin", size_threshold=0)
    assert (tmp_path / "model" / "net.bin").is_file()
    append_to_onnx(path, fitted("ts", 5), tmp_path / "out.onnx")
    x = np.ones((3, 6), np.float32)
    np.testing.assert_array_equal(
        run(tmp_path / "out.onnx", x)["logits"], run(linear(tmp_path / "whole.onnx"), x)["logits"]
    )
    (tmp_path / "model" / "net.bin").unlink()
    with pytest.raises(ModelError):
        append_to_onnx(path, fitted("ts", 5), tmp_path / "lost.onnx")


def test_a_model_too_large_for_one_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("driftcal.export.onnx.model_graph._MAX_BYTES", 100)
    with pytest.raises(ModelError, match="2 GB"):
        append_to_onnx(linear(tmp_path / "net.onnx"), fitted("ts", 5), tmp_path / "out.onnx")


@pytest.mark.parametrize("opset", [9, 11, 13, 16, 18, 21])
def test_old_and_new_opsets(opset, tmp_path):
    path = linear(tmp_path / "net.onnx", opset=opset)
    for name in ("hb", "ps", "hts", "pts"):
        append_to_onnx(path, fitted(name, 5), tmp_path / "out.onnx")
        x = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32)
        check(tmp_path / "out.onnx", fitted(name, 5), run(path, x)["logits"], x)


@pytest.mark.parametrize(
    ("shape", "nodes"), [(["n"], [("Squeeze", ["x", "a"], ["logits"])]), (["n", 1], [("Identity", ["x"], ["logits"])])]
)
def test_one_score_for_two_classes(shape, nodes, tmp_path):
    path = write_model(tmp_path / "net.onnx", nodes, ["n", 1], shape, {"a": np.array([1])})
    with pytest.raises(ModelError, match=r"single column lies in \[0, 1\]"):  # as random inputs do, which it echoes
        append_to_onnx(path, fitted("ps", 2), tmp_path / "out.onnx")
    append_to_onnx(path, fitted("ps", 2), tmp_path / "out.onnx", outputs="logits")
    x = np.linspace(-5, 5, 21, dtype=np.float32)[:, None]
    check(tmp_path / "out.onnx", fitted("ps", 2), np.concatenate([np.zeros_like(x), x], axis=1), x)


def softmax(path):
    weights = {"w": np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)}
    nodes = [("MatMul", ["x", "w"], ["z"]), ("Softmax", ["z"], ["p"])]
    return write_model(path, nodes, ["n", 6], ["n", 5], weights, out="p")


def test_a_model_that_ends_in_a_softmax(tmp_path):
    path = softmax(tmp_path / "net.onnx")
    x = np.random.default_rng(1).normal(size=(200, 6)).astype(np.float32)
    model = driftcal.open_model(path, outputs="probabilities")
    y = (model.logits(x) + np.random.default_rng(2).gumbel(size=(200, 5))).argmax(axis=1)
    tuned = driftcal.tune(model, x, y, method="irm", shift=None)
    append_to_onnx(path, tuned.save(tmp_path / "cal.safetensors"), tmp_path / "out.onnx")
    np.testing.assert_allclose(run(tmp_path / "out.onnx", x)["probabilities"], tuned.predict_proba(x), atol=1e-6)


def test_probabilities_are_not_read_as_logits(tmp_path):
    path, saved = softmax(tmp_path / "sm.onnx"), tuned_file(tmp_path).save(tmp_path / "cal.safetensors")
    for calibrator, options in ((fitted("irm", 5), {}), (saved, {"force": True})):
        for declared in ({}, {"outputs": "logits"}):
            with pytest.raises(ModelError, match="these look like probabilities"):
                append_to_onnx(path, calibrator, tmp_path / "no.onnx", **options, **declared)
        with pytest.raises(ModelError, match='outputs="probabilities" needs values'):
            append_to_onnx(tmp_path / "net.onnx", calibrator, tmp_path / "no.onnx", **options, outputs="probabilities")
    assert not (tmp_path / "no.onnx").exists()
    # the logarithm of the softmax is the logits minus a constant, which calibrators ignore
    x = np.random.default_rng(1).normal(size=(200, 6)).astype(np.float32)
    append_to_onnx(path, fitted("ts", 5), tmp_path / "out.onnx", outputs="probabilities")
    expected = fitted("ts", 5).predict_proba(run(tmp_path / "net.onnx", x)["logits"])
    np.testing.assert_allclose(run(tmp_path / "out.onnx", x)["probabilities"], expected, atol=1e-6)


def test_a_fixed_batch_and_the_users_inputs(tmp_path):
    path = write_model(tmp_path / "net.onnx", [("Identity", ["x"], ["logits"])], [3, 5], [3, 5])
    export = append_to_onnx(path, fitted("ts", 5), tmp_path / "out.onnx", inputs=probes(5, 2, 20)[-3:])
    declared = {item.name: item.type.tensor_type.shape.dim[0].dim_value for item in export.model.graph.output}
    assert declared == {"logits": 3, "probabilities": 3, "label": 3, "confidence": 3}
    with pytest.raises(ModelError, match="Pass inputs="):
        append_to_onnx(path, fitted("ts", 5), tmp_path / "no.onnx", inputs=np.zeros((4, 5)))


def test_inputs_that_cannot_be_generated_are_requested(tmp_path):
    weights = {"w": np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)}
    for shape, message in ((["n", "f"], r"inputs of shape \(8, 224\)"), (None, "declare the shape")):
        path = write_model(tmp_path / "net.onnx", [("MatMul", ["x", "w"], ["logits"])], shape, ["n", 5], weights)
        with pytest.raises(ModelError, match=f"{message}.*--inputs FILE"):
            append_to_onnx(path, fitted("ts", 5), tmp_path / "out.onnx")
        append_to_onnx(path, fitted("ts", 5), tmp_path / "out.onnx", inputs=np.ones((3, 6)))
    for inputs in (np.array([["a"]]), np.ones((0, 6))):
        with pytest.raises(InputError, match="samples of numbers"):
            append_to_onnx(path, fitted("ts", 5), tmp_path / "out.onnx", inputs=inputs)


def test_another_kind_of_file_is_refused_by_name(tmp_path):
    (tmp_path / "net.pt2").write_bytes(b"PK")
    with pytest.raises(ModelError, match=r"ends in \.onnx; it is .*net\.pt2.*to_torch"):
        append_to_onnx(tmp_path / "net.pt2", fitted("ts", 5), tmp_path / "out.onnx")
    (tmp_path / "net.onnx").write_bytes(b"no ONNX")
    with pytest.raises(ModelError, match="cannot be opened"):
        append_to_onnx(tmp_path / "net.onnx", fitted("ts", 5), tmp_path / "out.onnx")


def test_a_refused_export_writes_nothing(tmp_path, monkeypatch):
    path = linear(tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="it has 10 and the model outputs 5"):
        append_to_onnx(path, fitted("ts", 10), tmp_path / "out.onnx")
    with pytest.raises(InputError, match="another file"):
        append_to_onnx(path, fitted("ts", 5), path)
    saved = fitted("ts", 5).save(tmp_path / "cal.safetensors")
    with pytest.raises(InputError, match="another file than the calibrator"):
        append_to_onnx(path, saved, saved, force=True)
    saved.unlink()
    with pytest.raises(InputError, match="is a folder"):
        append_to_onnx(path, fitted("ts", 5), tmp_path)
    with pytest.raises(InputError, match="calibrator"):
        append_to_onnx(path, 3, tmp_path / "out.onnx")
    with pytest.raises(ModelError, match="no model file"):
        append_to_onnx(tmp_path / "none.onnx", fitted("ts", 5), tmp_path / "out.onnx")
    other = export_map_of(fitted("ets", 5))
    monkeypatch.setattr("driftcal.export.onnx.append.export_map_of", lambda _: other)
    with pytest.raises(ModelError, match="largest difference"):
        append_to_onnx(path, fitted("base", 5), tmp_path / "out.onnx")
    assert [item.name for item in tmp_path.iterdir()] == ["net.onnx"]
