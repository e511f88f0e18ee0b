"""Calibrators for deployment: as torch modules, as ONNX graphs, at the end of a user's ONNX model.

The folders onnx/maps/ and torch/ have the same files, one per family of calibrators: `scaling`, `one_vs_rest`,
`isotonic_and_bins`, `top_class_spline`, `samplewise`. A calibrator of your own returns an `ExportMap` from
`export_map`. A framework is imported when a function that needs it is called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftcal.calibrators.export_maps.export_map import BetaCurves as BetaCurves
    from driftcal.calibrators.export_maps.export_map import Blended as Blended
    from driftcal.calibrators.export_maps.export_map import ExportMap as ExportMap
    from driftcal.calibrators.export_maps.export_map import Mixed as Mixed
    from driftcal.calibrators.export_maps.export_map import Scaled as Scaled
    from driftcal.calibrators.export_maps.export_map import ScaledPerClass as ScaledPerClass
    from driftcal.calibrators.export_maps.export_map import Sigmoids as Sigmoids
    from driftcal.calibrators.export_maps.export_map import TopCurve as TopCurve
    from driftcal.calibrators.export_maps.lookup import bin_table as bin_table
    from driftcal.calibrators.export_maps.lookup import curve_table as curve_table
    from driftcal.export.onnx.append import append_to_onnx as append_to_onnx
    from driftcal.export.onnx.append import export_file as export_file
    from driftcal.export.onnx.to_onnx import OnnxExport as OnnxExport
    from driftcal.export.onnx.to_onnx import to_onnx as to_onnx
    from driftcal.export.torch.to_torch import to_torch as to_torch

_PUBLIC = {
    **dict.fromkeys(
        ("BetaCurves", "Blended", "ExportMap", "Mixed", "Scaled", "ScaledPerClass", "Sigmoids", "TopCurve"),
        "driftcal.calibrators.export_maps.export_map",
    ),
    **dict.fromkeys(("bin_table", "curve_table"), "driftcal.calibrators.export_maps.lookup"),
    "OnnxExport": "driftcal.export.onnx.to_onnx",
    "append_to_onnx": "driftcal.export.onnx.append",
    "export_file": "driftcal.export.onnx.append",
    "to_onnx": "driftcal.export.onnx.to_onnx",
    "to_torch": "driftcal.export.torch.to_torch",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'driftcal.export' has no attribute {name!r}")
