"""The end of a report: how to load, deploy and monitor the calibrated model, with the paths of this run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from driftcal.models.opening import FILES
from driftcal.pipeline.evaluating.results import WINDOWED, Results

#: Names of files in the snippets, if the run did not record its own.
_MODEL, _CALIBRATOR = "model.onnx", "calibrator.safetensors"
#: The usual file of a model of these frameworks; other objects are passed as they are.
_FILES = {
    "onnx": _MODEL,
    "lightgbm": "trees.txt",
    "xgboost": "trees.json",
    "catboost": "trees.cbm",
    "keras": "model.keras",
}


def next_steps(results: Results) -> list[tuple[str, str, str]]:
    """Title, one sentence and snippet of each step. Paths are those in ``metadata["files"]``."""
    recorded = results.metadata.get("files")
    files: Mapping[str, Any] = recorded if isinstance(recorded, Mapping) else {}
    model, calibrator = _model_file(results, files), str(files.get("calibrator", _CALIBRATOR))
    windowed = next((info for info in results.calibrators if info.form == WINDOWED), None)
    load = [
        "import driftcal",
        "",
        f"calibrated = driftcal.CalibratedModel.load({calibrator!r}, {model!r})"
        if model
        else f"calibrated = driftcal.CalibratedModel.load({calibrator!r}, model)  # the model that it was tuned for",
        "probabilities = calibrated.predict_proba(inputs)",
    ]
    if results.in_domain_only:  # recorded scores: there is no model
        load = ["import driftcal", "", f"probabilities = driftcal.load({calibrator!r}).predict_proba(logits)"]
    elif windowed is not None:
        load += [
            f"live = calibrated.windowed({windowed.window_size or ''})  # follows the last inputs",
            "probabilities = live.predict_proba(batch)",
        ]
    shell_model, shell_calibrator = shlex.quote(model), shlex.quote(calibrator)
    deploy = f"driftcal export {shell_model} {shell_calibrator} -o calibrated.onnx"
    if results.in_domain_only or not model.endswith(".onnx"):
        deploy = "\n".join(
            [
                "import driftcal",
                "",
                f"calibrator = driftcal.load({calibrator!r})  # takes the logits of your model",
                'driftcal.export.to_onnx(calibrator, "calibrator.onnx")',
            ]
        )
    monitor = (
        f"tail -F predictions.jsonl | driftcal monitor {shell_calibrator} --window-size 500 --report timeline.html"
    )
    return [
        (
            "Load",
            "The file holds every calibrator of this page and names the model that it belongs to.",
            "\n".join(load),
        ),
        ("Deploy", "The per-sample form becomes a part of the model, or a model of its own.", deploy),
        ("Monitor", 'One line per prediction: {"logits": [1.2, 0.3]}, perhaps with "id", "time" and "label".', monitor),
    ]


def _model_file(results: Results, files: Mapping[str, Any]) -> str:
    """The file of the model; empty for an object of a framework without one."""
    if "model" in files:
        return str(files["model"])
    recorded = results.metadata.get("model")
    model: Mapping[str, Any] = recorded if isinstance(recorded, Mapping) else {}
    name, framework = str(model.get("name", "")), str(model.get("framework", "onnx"))
    return name if PurePath(name).suffix in FILES else _FILES.get(framework, "")
