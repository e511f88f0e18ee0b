"""The check at the end of every export: the graph gives the calibrator's probabilities, or no file is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.core.messages import first_line
from driftcal.decisions import Threshold
from driftcal.errors import ModelError, need
from driftcal.types import Array, Logits

#: The largest allowed difference between the probabilities of an exported graph and those of the calibrator.
TOLERANCE = 1e-6


def open_session(content: bytes) -> Any:
    """An onnxruntime session on the CPU; an error of onnxruntime becomes a ModelError."""
    runtime = need("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    # verification is short: threads that wait for more work should not occupy a core
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # fatal errors only; warnings are about the style of a graph, errors are raised
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has many classes of errors
        raise ModelError(f"onnxruntime cannot open the calibrated model: {first_line(error)}") from error


def probe_logits(n_classes: int) -> Logits:
    """Fixed float32 logits that cover ordinary and extreme samples.

    There are ordinary and confident samples, ties, ±1e4, scores that underflow and masked classes. In the next samples
    one class leads the others by up to 1.5e4, with the first classes masked or not. In the last samples any number of
    classes is masked and the others are far apart, below 0 or above, with every class at the top.
    """
    rng = np.random.default_rng(0)
    usual = rng.normal(size=(256, n_classes)) * np.repeat([1, 3, 10, 100], 64)[:, None]
    usual[64:96] = np.round(usual[64:96])
    usual[192:224] = rng.uniform(-1e4, 1e4, size=(32, n_classes))
    usual[224:240] = rng.uniform(-800, 0, size=(16, n_classes))
    masked = rng.random((16, n_classes)) < 0.5
    masked[np.arange(16), rng.integers(n_classes, size=16)] = False
    usual[240:] = np.where(masked, -np.inf, usual[:16])
    usual[0], usual[255] = 0, -np.inf
    usual[255, -1] = 2
    # one class leads by 1 to 1.5e4: exponentials underflow, also in samples that begin with a masked class
    sizes = np.concatenate([np.geomspace(1, 300, 32), np.geomspace(800, 1.5e4, 32)])
    leads = -sizes[:, None] * np.arange(n_classes)[::-1].clip(0, 2)
    leads[1::4, 0] = -np.inf
    leads[2::4, : n_classes - 1 : 2] = -np.inf
    leads[3::4] -= 1e4
    leads[3::8, 0] = -np.inf
    # classes far from each other, from 0 or far below, and masked ones
    far = rng.normal(size=(128, n_classes)) * np.geomspace(10, 1e4, 128)[:, None] - rng.choice([0, 1e4], (128, 1))
    far[::4] = -1e4 - np.abs(far[::4])
    masked = rng.random(far.shape) < rng.choice([0.3, 0.7, 0.95], (128, 1))
    masked[np.arange(128), np.arange(128) % n_classes] = False
    masked[::3, 0] = True
    masked[::3, -1] = False
    far[masked] = -np.inf
    far[1::16] = -np.inf
    far[1::16, -1] = -1e4
    probe: Logits = np.concatenate([usual, leads, far]).astype(np.float32)
    return probe


def probe_features(export_map: ExportMap, n_samples: int) -> list[Array]:
    """Fixed features of each layer of a map: ordinary, long and short vectors, zeros, and those of training samples."""
    rng, neighbours = np.random.default_rng(0), getattr(export_map.scores, "neighbours", None)
    layers = []
    for k, width in enumerate(export_map.layer_widths):
        features = rng.normal(size=(n_samples, width))
        features *= np.repeat([1, 1e-30, 1e30, 1], -(-n_samples // 4))[:n_samples, None]
        features[::3] = np.maximum(features[::3], 0)  # as after a ReLU
        features[::17] = 0
        if neighbours is not None:
            training = neighbours.references[k]
            features[1::5] = training[rng.integers(len(training), size=len(features[1::5]))]
        layers.append(features.astype(np.float32))
    return layers


def verify(calibrator: Calibrator, logits: Logits, outputs: Sequence[Array], features: Sequence[Array] = ()) -> float:
    """The largest difference between the outputs of a graph and those of the calibrator; raises above the tolerance.

    `outputs` are probabilities, label and confidence for `logits`. `features` are those of each layer, if the
    calibrator reads layer features.
    """
    probabilities, label, confidence = outputs
    options: dict[str, Any] = {"features": list(features)} if features else {}
    expected = calibrator.predict_proba(logits, **options)
    samples = np.arange(len(expected))
    difference = float(np.abs(probabilities - expected).max(initial=0.0))
    difference = max(difference, float(np.abs(confidence - probabilities[samples, label]).max(initial=0.0)))
    if calibrator.keeps_accuracy:
        label_differs = calibrator.classes_[label] != calibrator.predict(logits)
    else:  # two classes may be equally probable up to rounding
        label_differs = np.abs(expected[samples, label] - expected.max(axis=1)) > TOLERANCE
    if not difference <= TOLERANCE or label_differs.any():
        raise ModelError(
            f"the exported graph must agree with the calibrator to {TOLERANCE:g}; on {len(samples)} probe samples the largest difference "
            f"is {difference:.3g} and {int(label_differs.sum())} labels differ. Nothing was written. Please report this calibrator."
        )
    return difference


def verify_accept(threshold: Threshold, accept: Array, confidence: Array, expected: Array) -> None:
    """Refuse a graph that accepts other samples than the threshold does.

    `accept` and `confidence` are outputs of the graph, `expected` is the confidence of the calibrator. Where it is as
    near to the threshold as rounding, only the confidence of the graph decides.
    """
    decided = ~(np.abs(expected - threshold.confidence) <= TOLERANCE)
    differs = (accept != threshold.accepts(confidence)) | (decided & (accept != threshold.accepts(expected)))
    if differs.any():
        raise ModelError(
            f"the exported graph must accept the samples that the threshold accepts; {int(differs.sum())} of {len(differs)} probe samples "
            "differ. Nothing was written. Please report this calibrator."
        )
