"""Calibrators out of the notebook: as torch modules, as ONNX graphs, at the end of a user's own ONNX model.

Frameworks are imported when a function that needs one is called.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "DriftCalibratedClassifier": "driftcal.deploy.classifier",
    "append_to_onnx": "driftcal.deploy.append",
    "Monitor": "driftcal.deploy.monitor",
    "OnnxExport": "driftcal.deploy.onnx_file",
    "to_onnx": "driftcal.deploy.onnx_file",
    "to_torch": "driftcal.deploy.torch_module",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'driftcal.deploy' has no attribute {name!r}")
