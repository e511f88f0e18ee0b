"""The MLflow example gives the outputs of the model; mlflow itself is replaced by a stub."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from export_cases import fitted, probes

from driftcal.export import to_onnx

pytest.importorskip("onnxruntime")
EXAMPLE = Path(__file__).parents[2] / "examples" / "deploy" / "mlflow_pyfunc.py"


def test_mlflow_pyfunc(tmp_path, monkeypatch):
    mlflow, pyfunc = ModuleType("mlflow"), ModuleType("mlflow.pyfunc")
    pyfunc.PythonModel, mlflow.pyfunc = object, pyfunc
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", pyfunc)
    spec = importlib.util.spec_from_file_location("mlflow_pyfunc", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    calibrator, logits = fitted("irm", 5), probes(5, 20, 20)
    path = to_onnx(calibrator, tmp_path / "calibrated.onnx").path
    served = module.CalibratedClassifier()
    context = SimpleNamespace(artifacts={"model": str(path)})
    served.load_context(context)
    outputs = served.predict(context, logits)
    np.testing.assert_allclose(outputs["probabilities"], calibrator.predict_proba(logits), atol=1e-9)
    assert outputs["label"] == calibrator.predict(logits).tolist()
