"""A calibrated ONNX model behind BentoML, each sample by itself.

driftcal export model.onnx cal.safetensors -o calibrated.onnx
FOLDER=. bentoml serve bentoml_service:CalibratedClassifier            # needs bentoml, onnxruntime

curl localhost:3000/predict -d '{"inputs": [[...]]}' -H 'content-type: application/json'
"""

import os
from pathlib import Path
from typing import Any

import bentoml
import numpy as np
import onnxruntime

FOLDER = Path(os.environ.get("FOLDER", "."))


@bentoml.service
class CalibratedClassifier:
    """Label, confidence and probabilities of a batch of preprocessed inputs."""

    def __init__(self) -> None:
        self.session = onnxruntime.InferenceSession(FOLDER / "calibrated.onnx", providers=["CPUExecutionProvider"])

    @bentoml.api
    def predict(self, inputs: list[Any]) -> dict[str, Any]:
        batch = np.asarray(inputs, np.float32)
        names = ["label", "confidence", "probabilities"]
        outputs = self.session.run(names, {self.session.get_inputs()[0].name: batch})
        return {name: values.tolist() for name, values in zip(names, outputs, strict=True)}
