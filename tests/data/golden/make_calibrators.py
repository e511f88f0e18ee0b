"""Write data/calibrators.json: the results of netcal, probmetrics and uncertainty-calibration on small problems.

python tests/data/golden/make_calibrators.py     in an environment with these peers, torch and numpy
"""

import json
import platform
import warnings
from importlib.metadata import version
from pathlib import Path

import calibration
import numpy as np
import torch
from netcal.scaling import TemperatureScaling
from probmetrics.calibrators import get_calibrator
from probmetrics.distributions import CategoricalLogits
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

PACKAGES = ["netcal", "probmetrics", "uncertainty-calibration", "torch", "scikit-learn", "numpy"]


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def problem(n, n_classes, seed, scale, temperature, dtype):
    rng = np.random.default_rng(seed)
    logits = (rng.normal(size=(n, n_classes)) * scale).round(3).astype(dtype)
    p = softmax(logits.astype(float) / temperature)
    return logits, (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def ratio(p, q):
    """T of a map p -> q that is a temperature, from the range of the log-probabilities of one sample."""
    p, q = np.log(p.astype(float)), np.log(q.astype(float))
    i = np.argsort(np.ptp(p, axis=1))[len(p) // 2]
    return float(np.ptp(p[i]) / np.ptp(q[i]))


def reference(logits, y):
    """The best temperature by a plain bounded search in float64."""
    z = logits.astype(float)

    def loss(log_t):
        return (logsumexp(z / np.exp(log_t), axis=1) - z[np.arange(len(y)), y] / np.exp(log_t)).mean()

    return float(np.exp(minimize_scalar(loss, bounds=(-5, 6), method="bounded", options={"xatol": 1e-10}).x))


def temperatures(logits, y):
    by_peer = {}
    p = softmax(logits)
    by_peer["netcal"] = ratio(p, TemperatureScaling().fit(p, y, random_state=0).transform(p))
    for name in ("temp-scaling", "guo-ts"):
        try:
            cal = get_calibrator(name)
            cal.fit_torch(CategoricalLogits(torch.tensor(logits)), torch.tensor(y))
            q = cal.predict_proba_torch(CategoricalLogits(torch.tensor(logits))).get_probs().detach().numpy()
            by_peer[f"probmetrics {name}"] = ratio(p, q)
        except Exception as error:
            print(name, "failed:", type(error).__name__, error)
    return {peer: temperature for peer, temperature in by_peer.items() if np.isfinite(temperature)}


def main():
    warnings.simplefilter("ignore")
    cases = []
    for name, args in {
        "float64, T about 2": (200, 4, 0, 3.0, 2.0, "float64"),
        "float32, T about 2": (200, 4, 0, 3.0, 2.0, "float32"),
        "float64, T about 8": (200, 10, 1, 20.0, 8.0, "float64"),
        "float32, T about 0.3": (150, 3, 2, 0.5, 0.3, "float32"),
        "float64, binary": (150, 2, 3, 4.0, 3.0, "float64"),
    }.items():
        logits, y = problem(*args)
        peers = {"temperature": temperatures(logits, y)}
        if name == "float64, T about 2":
            binner = calibration.PlattBinnerMarginalCalibrator(len(y), num_bins=10)
            p = softmax(logits)
            binner.train_calibration(p, y)
            peers["platt binning"] = np.round(binner.calibrate(p), 9).tolist()
            peers["platt binning tolerance"] = 0.0002  # its logistic regression stops early
        best = reference(logits, y)
        wrong = [peer for peer, temperature in peers["temperature"].items() if abs(temperature / best - 1) > 1e-3]
        cases.append({"name": name, "dtype": args[-1], "logits": [[float(v) for v in row] for row in logits],
                      "labels": y.tolist(), "peers": peers, "wrong": wrong})  # fmt: skip
        print(name, best, peers["temperature"], "wrong:", wrong)
    made = {"by": "tests/data/golden/make_calibrators.py", "python": platform.python_version()}
    made |= {package: version(package) for package in PACKAGES}
    out = Path(__file__).parent / "calibrators.json"
    out.write_text(json.dumps({"made": made, "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
