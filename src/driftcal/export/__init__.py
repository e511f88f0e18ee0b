"""Calibrators out of the notebook: as torch modules, as ONNX graphs, at the end of a user's own ONNX model.

Frameworks are imported when a function that needs one is called.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "DriftCalibratedClassifier": "driftcal.pipeline.sklearn",
    "append_to_onnx": "driftcal.export.onnx.append",
    "Monitor": "driftcal.monitor.monitor",
    "OnnxExport": "driftcal.export.onnx.file",
    "to_onnx": "driftcal.export.onnx.file",
    "to_torch": "driftcal.export.torch.module",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'driftcal.export' has no attribute {name!r}")
