"""The examples of serving give the probabilities that Python gives: FastAPI, MLflow and BentoML run, Triton's file is parsed."""

import importlib.util
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from tiny_model import make_data, make_onnx

import driftcal
from driftcal.export import to_onnx

FOLDER = Path(__file__).parents[2] / "examples" / "deploy"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """A folder with the files that the examples name, and the calibrated model."""
    folder = tmp_path_factory.mktemp("deployed")
    make_onnx(folder / "model.onnx", 2 * np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32))
    make_data(folder / "val.npz", 300, 1)
    calibrated = driftcal.tune(folder / "model.onnx", folder / "val.npz", method="level-ts", n_levels=3)
    calibrated.save(folder / "cal.safetensors")
    driftcal.export.append_to_onnx(folder / "model.onnx", folder / "cal.safetensors", folder / "calibrated.onnx")
    return folder, calibrated


@pytest.fixture
def inputs():
    return np.random.default_rng(2).random((40, 1, 8, 8), np.float32)


def test_fastapi_serves_both_forms(deployed, inputs, monkeypatch):
    folder, calibrated = deployed
    monkeypatch.setenv("FOLDER", str(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fastapi's own imports
        from fastapi.testclient import TestClient

        spec = importlib.util.spec_from_file_location("fastapi_service", FOLDER / "fastapi_service.py")
        service = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "fastapi_service", service)
        spec.loader.exec_module(service)
        client = TestClient(service.app)
    pixels = inputs.transpose(0, 2, 3, 1)
    alone = client.post("/predict", json={"inputs": inputs.tolist()}).json()
    np.testing.assert_allclose(alone["probabilities"], calibrated.predict_proba(pixels), atol=1e-6)
    live = calibrated.windowed(100)
    for name in ("a", "b"):  # each client has a window of its own
        answer = client.post("/predict", params={"client": name}, json={"inputs": inputs.tolist()}).json()
        np.testing.assert_allclose(answer["probabilities"], live.predict_proba(pixels, key=name), atol=1e-6)
    assert client.post("/predict", json={"images": []}).status_code == 422


def test_mlflow_gives_the_outputs_of_the_model(deployed, inputs, tmp_path):
    folder, calibrated = deployed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mlflow
        import mlflow

        mlflow.pyfunc.save_model(
            tmp_path / "model",
            python_model=str(FOLDER / "mlflow_pyfunc.py"),
            artifacts={"model": str(folder / "calibrated.onnx")},
            pip_requirements=["onnxruntime"],
        )
        outputs = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(inputs)
    assert not list((tmp_path / "model").rglob("*.pkl"))
    expected = calibrated.predict_proba(inputs.transpose(0, 2, 3, 1))
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-6)
    assert outputs["label"] == expected.argmax(axis=1).tolist()


def test_bentoml_serves_the_export(deployed, inputs, monkeypatch):
    folder, calibrated = deployed
    monkeypatch.setenv("FOLDER", str(folder))
    monkeypatch.setenv("BENTOML_DO_NOT_TRACK", "True")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of bentoml's own imports
        from starlette.testclient import TestClient

        spec = importlib.util.spec_from_file_location("bentoml_service", FOLDER / "bentoml_service.py")
        service = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "bentoml_service", service)
        spec.loader.exec_module(service)
        with TestClient(service.CalibratedClassifier.to_asgi()) as client:
            answer = client.post("/predict", json={"inputs": inputs.tolist()}).json()
            assert client.post("/predict", json={"images": []}).status_code == 400
    expected = calibrated.predict_proba(inputs.transpose(0, 2, 3, 1))
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-6)
    assert answer["label"] == expected.argmax(axis=1).tolist()


def test_triton_names_the_outputs_of_an_export(deployed):
    """There is no Triton server here: the file is read, and its names and types are compared with an exported model."""
    import onnxruntime

    text = re.sub(r"#.*", "", (FOLDER / "triton" / "calibrated" / "config.pbtxt").read_text())
    assert text.count("{") == text.count("}")
    assert text.count("[") == text.count("]")
    session = onnxruntime.InferenceSession(deployed[0] / "calibrated.onnx", providers=["CPUExecutionProvider"])
    types = {"tensor(double)": "TYPE_FP64", "tensor(int64)": "TYPE_INT64", "tensor(float)": "TYPE_FP32"}
    outputs = text[text.index("output [") :]
    declared = dict(re.findall(r'name: "(\w+)" data_type: (\w+)', outputs))
    exported = {output.name: types[output.type] for output in session.get_outputs()}
    assert declared.items() <= exported.items()
    assert set(declared) == {"probabilities", "label", "confidence"}
    assert re.search(r"max_batch_size: [1-9]", text)


def test_a_calibrator_alone_is_a_graph_for_any_server(deployed, tmp_path):
    calibrated = deployed[1]
    written = to_onnx(calibrated.calibrator, tmp_path / "calibrator.onnx")
    assert written.difference <= 1e-6
