"""Calibrators that read layer features: equal probabilities as torch module, as ONNX model, and appended to one."""

import numpy as np
import pytest
from export_cases import (
    NEED_FEATURES,
    WIDTHS,
    echo_with_layers,
    fitted,
    fitted_on_features,
    layer_values,
    probes,
    write_model,
)

import driftcal
from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.errors import InputError, ModelError
from driftcal.export import append_to_onnx, to_onnx, to_torch
from driftcal.export.checked_map import export_map_of
from driftcal.export.onnx.calibration import OUTPUTS
from driftcal.export.onnx.maps.layer_pooling import add_means, add_unit
from driftcal.export.onnx.nodes import Nodes
from driftcal.export.onnx.verification import open_session
from driftcal.models.features import pooled
from driftcal.models.onnx.onnx_backend import with_more_outputs

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
HALF = onnx.TensorProto.FLOAT16
LAYERS = ["flat", "maps"]


@pytest.mark.parametrize("n_classes", [2, 10, 1000])
@pytest.mark.parametrize("name", NEED_FEATURES)
def test_parity(name, n_classes, tmp_path):
    calibrator, logits, values = (
        fitted_on_features(name, n_classes),
        probes(n_classes, 10_000, 1_000),
        layer_values(11_000),
    )
    features = [pooled(part, channels_first=True) for part in values]
    module, alone = to_torch(calibrator), to_onnx(calibrator)
    path = echo_with_layers(tmp_path / "net.onnx", n_classes)
    appended = append_to_onnx(path, calibrator, tmp_path / "out.onnx", layers=LAYERS)
    assert max(alone.difference, appended.difference) < 1e-9
    one, two = open_session(alone.model.SerializeToString()), open_session(appended.path.read_bytes())
    for start in range(0, len(logits), 1_000):
        batch = slice(start, start + 1_000)
        z, side_by_side = logits[batch], np.concatenate([part[batch] for part in features], axis=1)
        expected = calibrator.predict_proba(z, features=[part[batch] for part in features])
        with torch.no_grad():
            p = module(torch.from_numpy(z), torch.from_numpy(side_by_side)).numpy()
        assert np.abs(p - expected).max() < 1e-9
        check(z, expected, *one.run(OUTPUTS, {"logits": z, "features": side_by_side}))
        whole = np.concatenate([z, *(part[batch].reshape(len(z), -1) for part in values)], axis=1)
        check(z, expected, *two.run(OUTPUTS, {"x": whole}))


@pytest.mark.parametrize("name", NEED_FEATURES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_sample_without_a_softmax_gets_nan_and_changes_no_other(name, bad):
    calibrator, logits = fitted_on_features(name, 10), probes(10, 20, 12).copy()
    features = np.concatenate([pooled(part, channels_first=True) for part in layer_values(len(logits))], axis=1)
    module, session = to_torch(calibrator), open_session(to_onnx(calibrator).model.SerializeToString())

    def outputs():
        with torch.no_grad():
            p = module(torch.from_numpy(logits), torch.from_numpy(features)).numpy()
        return session.run(OUTPUTS[:1], {"logits": logits, "features": features})[0], p

    expected = outputs()
    logits[3, 1] = bad
    for values, before in zip(outputs(), expected, strict=True):
        np.testing.assert_array_equal(np.delete(values, 3, axis=0), np.delete(before, 3, axis=0))
        assert np.isnan(values[3]).all()


def check(logits, expected, probabilities, label, confidence):
    assert np.abs(probabilities - expected).max() < 1e-9
    np.testing.assert_array_equal(label, logits.argmax(axis=1))
    np.testing.assert_array_equal(confidence, probabilities[np.arange(len(label)), label])


@pytest.mark.parametrize("low", [-12.0, -4.0, 0.0])
def test_large_inverse_temperatures_keep_their_digits(low):
    calibrator = CALIBRATORS["md-ts"]()
    calibrator.__dict__.update(
        fitted_on_features("md-ts", 10).__dict__, range_=np.array([low, low + 1]), intercept_=low
    )
    logits, values = probes(10, 900, 100), layer_values(1_000)
    features = [pooled(part, channels_first=True) for part in values]
    session = open_session(to_onnx(calibrator).model.SerializeToString())
    outputs = session.run(OUTPUTS, {"logits": logits, "features": np.concatenate(features, axis=1)})
    check(logits, calibrator.predict_proba(logits, features=features), *outputs)


@pytest.mark.parametrize("name", NEED_FEATURES)
def test_standard_operators_and_a_free_batch(name):
    model = to_onnx(fitted_on_features(name, 10)).model
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert {node.domain for node in model.graph.node} == {""}
    onnx.checker.check_model(model, full_check=True)
    session = open_session(model.SerializeToString())
    for n in (0, 1, 7):
        feed = {"logits": np.zeros((n, 10), np.float32), "features": np.ones((n, sum(WIDTHS)), np.float32)}
        assert [part.shape for part in session.run(None, feed)] == [(n, 10), (n,), (n,)]


def net(path, kind, n_classes=10):
    """A net with one hidden layer in float16, or with int8 weights."""
    rng = np.random.default_rng(0)
    w, v = rng.normal(size=(6, 8)), rng.normal(size=(8, n_classes))
    declared = (["n", 6], ["n", n_classes])
    if kind == "float16":
        nodes = [
            ("Cast", ["x"], ["h"], {"to": HALF}),
            ("MatMul", ["h", "w"], ["a"]),
            ("Relu", ["a"], ["flat"]),
            ("MatMul", ["flat", "v"], ["logits"]),
        ]
        weights = {"w": w.astype(np.float16), "v": v.astype(np.float16)}
        nodes.append(("Unsqueeze", ["a", "two"], ["u"]))
        nodes.append(("Slice", ["u", "zero", "five", "one"], ["maps"]))
        constants = {"two": [2, 3], "zero": [0], "five": [5], "one": [1]}
        weights |= {key: np.array(value) for key, value in constants.items()}
        return write_model(path, nodes, *declared, weights, out_kind=HALF)
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"]),
        ("DequantizeLinear", ["q", "s", "z"], ["d"]),
        ("DequantizeLinear", ["w", "s", "z"], ["w_"]),
        ("MatMul", ["d", "w_"], ["a"]),
        ("Relu", ["a"], ["b"]),
        ("QuantizeLinear", ["b", "t", "z"], ["flat"]),  # int8 itself
        ("DequantizeLinear", ["flat", "t", "z"], ["c"]),
        ("DequantizeLinear", ["v", "s", "z"], ["v_"]),
        ("MatMul", ["c", "v_"], ["logits"]),
        ("Slice", ["logits", "zero", "five", "one"], ["maps"]),
    ]
    weights = {"s": np.float32(0.03), "t": np.float32(0.1), "z": np.int8(0)}
    weights |= {"w": np.round(w * 30).astype(np.int8), "v": np.round(v * 30).astype(np.int8)}
    weights |= {"zero": np.array([0]), "five": np.array([5]), "one": np.array([1])}
    return write_model(path, nodes, *declared, {key: np.asarray(value) for key, value in weights.items()})


@pytest.mark.parametrize("kind", ["float16", "int8"])
@pytest.mark.parametrize("name", NEED_FEATURES)
def test_parity_on_the_logits_and_layers_of_a_model(name, kind, tmp_path):
    path, calibrator = net(tmp_path / "net.onnx", kind), fitted_on_features(name, 10)
    export = append_to_onnx(path, calibrator, tmp_path / "out.onnx", layers=LAYERS)
    assert export.difference < 1e-9
    x = np.random.default_rng(1).normal(size=(11_000, 6)).astype(np.float32)
    x[10_000:] *= 1_000 if kind == "int8" else 100
    session = open_session(with_more_outputs(onnx.load(export.path), LAYERS))
    logits, probabilities, label, confidence, *values = session.run(["logits", *OUTPUTS, *LAYERS], {"x": x})
    assert {part.dtype.name for part in values} == ({"float16"} if kind == "float16" else {"int8", "float32"})
    z = logits.astype(np.float32)
    expected = calibrator.predict_proba(z, features=[pooled(part, True) for part in values])
    check(z, expected, probabilities, label, confidence)
    # the file itself, without its layers among the outputs
    alone = open_session(export.path.read_bytes()).run(["logits", "probabilities"], {"x": x})
    np.testing.assert_array_equal(alone[0], logits)
    assert np.abs(alone[1] - probabilities).max() < 1e-9


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8"])
@pytest.mark.parametrize("shape", [(), (4,), (3, 4), (4, 3, 2), (2, 3, 2, 3)])
@pytest.mark.parametrize("opset", [17, 18])
def test_layers_are_pooled_as_the_library_pools_them(shape, kind, opset):
    values = (20 * np.random.default_rng(0).normal(size=(9, *shape))).astype(kind)
    values[3] = 0
    for first in (True, False):
        nodes, helper = Nodes("p/", opset), onnx.helper
        name = add_unit(nodes, [add_means(nodes, "x", values, first)])
        declared = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(values.dtype), ["n", *shape])
        graph = helper.make_graph(nodes.nodes, "g", [declared], [onnx.ValueInfoProto(name=name)], nodes.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        features = open_session(model.SerializeToString()).run([name], {"x": values})[0]
        np.testing.assert_allclose(features, pooled(values, first), rtol=2e-7, atol=0)
        assert (features == features.astype(np.float32)).all()


@pytest.mark.parametrize("name", NEED_FEATURES)
def test_wide_layers(name, tmp_path):
    """The library divides pooled features by their length twice, and so does the graph."""
    rng, n, width = np.random.default_rng(5), 400, 96
    logits, values = probes(10, n, 10)[:n], rng.normal(size=(n, width)).astype(np.float32)
    values[::7], values[1::7, 0] = values[::7] * np.geomspace(1e-30, 1e30, len(values[::7]))[:, None], 50
    levels, training = np.arange(n) % 3, values[::2] + 0.1 * rng.normal(size=values[::2].shape)
    labels = np.argmax(0.6 / (1 + levels[:, None]) * logits + rng.gumbel(size=logits.shape), axis=1)
    extra = {"reference": training} if CALIBRATORS[name].needs_reference else {}
    calibrator = make_calibrator(name, **({"k": 5} if extra else {}))
    calibrator.fit(logits, labels, features=values, levels=levels, **extra)
    ends = {f"at{end}": np.array([end]) for end in (0, 10, 10 + width)} | {"one": np.array([1])}
    cuts = [
        ("Slice", ["x", f"at{low}", f"at{high}", "one"], [out])
        for low, high, out in ((0, 10, "logits"), (10, 106, "w"))
    ]
    path = write_model(tmp_path / "net.onnx", cuts, ["n", 106], ["n", 10], ends)
    export = append_to_onnx(path, calibrator, tmp_path / "out.onnx", layers=["w"])
    outputs = open_session(export.path.read_bytes()).run(OUTPUTS, {"x": np.concatenate([logits, values], axis=1)})
    assert np.abs(outputs[0] - calibrator.predict_proba(logits, features=pooled(values, True))).max() < 1e-7


@pytest.mark.parametrize("opset", [11, 13, 18, 21])
def test_old_and_new_opsets(opset, tmp_path):
    path = echo_with_layers(tmp_path / "net.onnx", 10, opset=opset)
    logits, values = probes(10, 50, 50), layer_values(100)
    whole = np.concatenate([logits, *(part.reshape(100, -1) for part in values)], axis=1)
    for name in NEED_FEATURES:
        calibrator = fitted_on_features(name, 10)
        export = append_to_onnx(path, calibrator, tmp_path / "out.onnx", layers=LAYERS)
        outputs = open_session(export.path.read_bytes()).run(OUTPUTS, {"x": whole})
        check(logits, calibrator.predict_proba(logits, features=[pooled(part, True) for part in values]), *outputs)


def test_training_samples_that_make_the_file_too_large_are_refused(tmp_path, monkeypatch):
    path = echo_with_layers(tmp_path / "net.onnx", 10)
    monkeypatch.setattr("driftcal.export.onnx.model_graph._MAX_BYTES", 5_000)
    assert path.stat().st_size < 5_000
    with pytest.raises(ModelError, match="2 GB with its weights and the calibrator"):
        append_to_onnx(path, fitted_on_features("dac", 10), tmp_path / "out.onnx", layers=LAYERS)
    assert not (tmp_path / "out.onnx").exists()


def conv_net(path):
    """A small convolutional net that tells apart which part of an image is bright."""
    rng = np.random.default_rng(0)
    nodes = [
        ("Conv", ["x", "k", "b"], ["c"], {"strides": [2, 2]}),
        ("Relu", ["c"], ["maps"]),
        ("Flatten", ["maps"], ["f"]),
        ("MatMul", ["f", "w"], ["a"]),
        ("Relu", ["a"], ["flat"]),
        ("MatMul", ["flat", "v"], ["logits"]),
    ]
    shapes = {"k": (6, 3, 3, 3), "b": (6,), "w": (54, 8), "v": (8, 3)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    weights["k"] /= 3
    return write_model(path, nodes, ["n", 3, 8, 8], ["n", 3], weights)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A convolutional net, images, and a calibrator that reads its layers, in a file."""
    folder, rng = tmp_path_factory.mktemp("tuned"), np.random.default_rng(0)
    path = conv_net(folder / "net.onnx")
    x = rng.random((500, 8, 8, 3), np.float32)
    logits = driftcal.open_model(path).logits(x)
    y = (logits + 2 * rng.gumbel(size=logits.shape)).argmax(axis=1)
    features = driftcal.LayerFeatures(["maps", "flat"], x[300:450])
    calibrated = driftcal.tune(path, x[:300], y[:300], method="dac-pts", n_levels=3, features=features)
    return calibrated, path, calibrated.save(folder / "cal.safetensors"), x[450:]


def test_tuned_saved_and_exported_on_the_command_line(tuned, tmp_path):
    from typer.testing import CliRunner

    from driftcal.cli.app import app

    model, path, saved, x = tuned
    ran = CliRunner().invoke(app, ["export", str(path), str(saved), "-o", str(tmp_path / "out.onnx")])
    assert ran.exit_code == 0, ran.output
    assert "largest difference" in ran.output
    session = open_session((tmp_path / "out.onnx").read_bytes())
    for n in (1, 7, len(x)):
        images = x[:n].transpose(0, 3, 1, 2)
        probabilities, label, _ = session.run(list(OUTPUTS), {"x": images})
        assert np.abs(probabilities - model.predict_proba(x[:n])).max() < 1e-6
        np.testing.assert_array_equal(label, model.predict(x[:n]))
    features = driftcal.pooled_features(model.model, x, model.layers)
    assert np.ptp(model.calibrator.temperatures(features, model.model.logits(x))) > 0.1, "a temperature per sample"
    assert [item.name for item in session.get_outputs()] == ["logits", *OUTPUTS], "layers stay inside"


def test_layers_are_found_or_the_way_out_is_named(tuned, tmp_path):
    model, path, saved, _ = tuned
    out = tmp_path / "out.onnx"
    with pytest.raises(InputError, match=r"layers must name the 2 values .* DensityAwareNetwork reads.*Save the Cal"):
        append_to_onnx(path, model.calibrator, out)
    append_to_onnx(path, model.calibrator, tmp_path / "fine.onnx", layers=["maps", "flat"])
    renamed = onnx.load(path)
    for node in renamed.graph.node:
        for names in (node.input, node.output):
            names[:] = [{"maps": "stage1"}.get(name, name) for name in names]
    onnx.save(renamed, tmp_path / "renamed.onnx")
    with pytest.raises(ModelError, match="another model"):
        append_to_onnx(tmp_path / "renamed.onnx", saved, out)
    with pytest.raises(
        ModelError, match=r"'maps', which DensityAwareNetwork reads, is not among its 6 .* Tune on this"
    ):
        append_to_onnx(tmp_path / "renamed.onnx", saved, out, force=True)
    with pytest.raises(
        InputError, match="must be those that the calibrator was tuned on, maps, flat; they are c, flat"
    ):
        append_to_onnx(path, saved, out, layers=["c", "flat"])
    with pytest.raises(ModelError, match="'flat' must have the width it had in the fit, 6; it has 8"):
        append_to_onnx(path, saved, out, layers=["flat", "maps"], force=True)
    with pytest.raises(InputError, match="a list of names; it is 'maps'"):
        append_to_onnx(path, saved, out, layers="maps", force=True)
    with pytest.raises(InputError, match="TemperatureScaling reads logits only"):
        append_to_onnx(path, fitted("ts", 3), out, layers=["maps"])
    assert not out.exists()
    append_to_onnx(tmp_path / "renamed.onnx", saved, out, layers=["stage1", "flat"], force=True)
    assert out.is_file()


def test_a_graph_that_differs_is_not_written(tuned, tmp_path, monkeypatch):
    model, path, _, _ = tuned
    other = driftcal.load(tuned[2])
    other.temperature_ = 1.01 * other.temperature_
    for module in ("append", "to_onnx"):
        monkeypatch.setattr(f"driftcal.export.onnx.{module}.export_map_of", lambda _: export_map_of(other))
    with pytest.raises(ModelError, match="largest difference"):
        append_to_onnx(path, model, tmp_path / "out.onnx")
    with pytest.raises(ModelError, match="largest difference"):
        to_onnx(model.calibrator, tmp_path / "out.onnx")
    assert list(tmp_path.iterdir()) == []
