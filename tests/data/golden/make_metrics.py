"""Write data/metrics.json: the metrics that other libraries compute from the same few logits.

Run it where the peers of the `bench` dependency group are installed:

    python tests/data/golden/make_metrics.py

Where a peer follows another convention than driftcal, the file says so under "conventions".
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import calibration
import netcal.metrics
import numpy as np
import relplot
import torch
from probmetrics.distributions import CategoricalDirac, CategoricalLogits
from probmetrics.metrics import (
    Accuracy,
    BrierLoss,
    CalibrationError,
    KolmogorovSmirnovCalibrationMetric,
    LogLoss,
    SmoothCalibrationError,
)

PACKAGES = ("netcal", "uncertainty-calibration", "relplot", "probmetrics", "torchmetrics", "numpy", "torch")

CONVENTIONS = [
    "netcal: bins as np.histogram puts them, [lo, hi) with the last closed; driftcal's are (lo, hi]. No confidence here is on an edge.",
    "uncertainty-calibration: lower_bound_scaling_ce with 15 equal-mass bins; get_calibration_error would guess the binning from the data.",
    "relplot: the bandwidth is rounded up to a multiple of 1/1024 and the integral is a mean over at least 200 points; "
    "driftcal solves for the fixed point. Both are close: at most 0.001 apart, and at most 0.0015 at relplot's own bandwidth.",
    "probmetrics: float32 inside torchmetrics; its two-class ECE, smooth ECE and KS are those of class 1; KS is only meant for two classes.",
]


def softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def make_case(n: int, n_classes: int, scale: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are over-confident by the factor `scale`."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes)) * 1.5
    p = softmax(logits)
    y = np.array([rng.choice(n_classes, p=row) for row in p])
    return np.round(scale * logits, 4), y


def of_confidence(confidence: np.ndarray, outcome: np.ndarray) -> dict[str, float]:
    """Peers that take a probability and whether it came true."""
    smooth, bandwidth = relplot.smECE(confidence, outcome.astype(float), return_width=True)
    return {
        "relplot smECE": smooth,
        "relplot smECE bandwidth": bandwidth,
        "uncertainty-calibration equal-mass ECE": calibration.get_ece_em(confidence, outcome, num_bins=15),
        "uncertainty-calibration debiased": calibration.lower_bound_scaling_ce(confidence, outcome),
    }


def judge(logits: np.ndarray, y: np.ndarray) -> dict[str, dict[str, float]]:
    p = softmax(logits)
    top, correct = p.max(axis=1), (p.argmax(axis=1) == y).astype(int)
    n_classes = p.shape[1]
    x = p[:, 1] if n_classes == 2 else p
    top_label = {f"netcal ECE {m}": netcal.metrics.ECE(m).measure(top, correct) for m in (10, 15)}
    top_label |= {f"netcal MCE {m}": netcal.metrics.MCE(m).measure(top, correct) for m in (10, 15)}
    top_label |= of_confidence(top, correct)
    top_label["uncertainty-calibration ECE"] = calibration.get_ece(p, y, num_bins=15)
    top_label["uncertainty-calibration debiased marginal"] = calibration.lower_bound_scaling_ce(p, y, mode="marginal")
    labels = CategoricalDirac(torch.as_tensor(y), n_classes)
    scores = CategoricalLogits(torch.as_tensor(logits))
    peers = [
        Accuracy(),
        LogLoss(),
        BrierLoss(),
        CalibrationError(15),
        CalibrationError(15, "max"),
        SmoothCalibrationError(),
    ]
    if n_classes == 2:
        peers.append(KolmogorovSmirnovCalibrationMetric())
    result = {
        "top-label": top_label,
        "probmetrics": {peer.get_name(): float(peer.compute(labels, scores)) for peer in peers},
    }
    if n_classes == 2:
        result["positive"] = {f"netcal ECE {m}": netcal.metrics.ECE(m).measure(x, y) for m in (10, 15)}
        result["positive"] |= of_confidence(x, y)
    return result


def main() -> None:
    cases = []
    for n, n_classes, scale, seed in [(150, 2, 1.5, 0), (40, 3, 1.0, 1), (250, 3, 2.0, 2), (200, 10, 1.4, 3)]:
        logits, y = make_case(n, n_classes, scale, seed)
        values = {kind: {k: float(v) for k, v in peers.items()} for kind, peers in judge(logits, y).items()}
        cases.append({"logits": logits.tolist(), "labels": y.tolist(), "peers": values})
    made = {
        "made by": "tests/data/golden/make_metrics.py",
        "python": sys.version.split()[0],
        "versions": {name: version(name) for name in PACKAGES},
        "conventions": CONVENTIONS,
        "cases": cases,
    }
    path = Path(__file__).parent / "metrics.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(made, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
