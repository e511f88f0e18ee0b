"""A calibrated ONNX model behind FastAPI: per sample, and with a window of recent inputs per client.

driftcal export model.onnx cal.safetensors -o calibrated.onnx
uvicorn fastapi_service:app            # needs fastapi, uvicorn, onnxruntime, driftcal

curl localhost:8000/predict -d '{"inputs": [[...]]}' -H 'content-type: application/json'
curl 'localhost:8000/predict?client=camera-3' -d ...   # calibrated by the last 100 inputs of this client
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from fastapi import FastAPI
from pydantic import BaseModel

import driftcal

FOLDER = Path(os.environ.get("FOLDER", "."))

app = FastAPI(title="calibrated classifier")
session = onnxruntime.InferenceSession(FOLDER / "calibrated.onnx", providers=["CPUExecutionProvider"])
live = driftcal.CalibratedModel.load(FOLDER / "cal.safetensors", FOLDER / "model.onnx").windowed(100)


class Batch(BaseModel):
    inputs: list[Any]


@app.post("/predict")
def predict(batch: Batch, client: str | None = None) -> dict[str, list[Any]]:
    inputs = np.asarray(batch.inputs, np.float32)
    if client is None:
        names = ["label", "confidence", "probabilities"]
        outputs = session.run(names, {session.get_inputs()[0].name: inputs})
        return {name: values.tolist() for name, values in zip(names, outputs, strict=True)}
    images = inputs.transpose(0, 2, 3, 1)  # driftcal takes images with channels last
    probabilities = live.predict_proba(images, key=client)
    return {
        "label": probabilities.argmax(axis=1).tolist(),
        "confidence": probabilities.max(axis=1).tolist(),
        "probabilities": probabilities.tolist(),
    }
