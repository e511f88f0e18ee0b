"""Write data/paper_subset.npz and .json: a part of the recorded CIFAR-10 logits, and reference results for it.

    python tests/data/golden/make_paper_subset.py ../shared/golden/cifar10_resnet20.npz

The reference uses numpy, scipy and scikit-learn only, and nothing of driftcal.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.isotonic import IsotonicRegression

SHIFTS, VALIDATION, TEST = ("test_rot_left", "test_shear", "test_yshift"), 300, 120


def best_temperature(loss, cap):
    """The least loss over T, capped as in the published code or not: a grid in log T, then a bounded search."""
    high = np.log(cap) if cap else 8.0
    grid = np.linspace(-4, high, 300)
    best = int(np.argmin([loss(np.exp(t)) for t in grid]))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, 299)])
    refined = minimize_scalar(lambda t: loss(np.exp(t)), bounds=bounds, method="bounded", options={"xatol": 1e-12})
    return float(np.exp(refined.x if refined.fun < loss(np.exp(grid[best])) else grid[best]))


def curve(scores, hits):
    values, ranks = np.unique(scores, return_inverse=True)
    fit = IsotonicRegression(y_min=0, y_max=1).fit(ranks.astype(float), hits)
    ends, heights = values[np.round(fit.X_thresholds_).astype(int)], fit.y_thresholds_
    return lambda new: np.interp(new, ends, heights)


def normalised(values):
    total = values.sum(axis=1, keepdims=True)
    return np.where(total > 0, values / np.where(total > 0, total, 1), 1 / values.shape[1])


def maps(z, y, cap):
    """Every calibrator of the paper's Table 1 as a function from logits to probabilities, and its temperature."""
    n_classes = z.shape[1]
    hits, samples = np.eye(n_classes)[y], np.arange(len(y))
    nll_t = best_temperature(lambda t: -log_softmax(z / t, axis=1)[samples, y].mean(), cap)
    t = best_temperature(lambda t: ((softmax(z / t, axis=1) - hits) ** 2).sum(), cap)
    parts = [softmax(z / t, axis=1), softmax(z, axis=1), np.full(z.shape, 1 / n_classes)]
    ends = [
        minimize(
            lambda w: ((sum(a * p for a, p in zip(w, parts, strict=True)) - hits) ** 2).sum(axis=1).mean(),
            start, method="SLSQP", bounds=[(0, 1)] * 3, constraints={"type": "eq", "fun": lambda w: sum(w) - 1},
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        for start in ([1.0, 0.0, 0.0], [0.6, 0.3, 0.1])
    ]  # fmt: skip
    w = min(ends, key=lambda end: end.fun).x
    ir = [curve(softmax(z, axis=1)[:, c], hits[:, c]) for c in range(n_classes)]
    ts_ir = [curve(softmax(z / t, axis=1)[:, c], hits[:, c]) for c in range(n_classes)]
    irm = curve(softmax(z, axis=1).ravel(), hits.ravel())

    def per_class(curves, p):
        return normalised(np.stack([f(p[:, c]) for c, f in enumerate(curves)], axis=1))

    return {
        "ts": (nll_t, lambda z: softmax(z / nll_t, axis=1)),
        "ets": (t, lambda z: w[0] * softmax(z / t, axis=1) + w[1] * softmax(z, axis=1) + w[2] / n_classes),
        "ts-ir": (t, lambda z: per_class(ts_ir, softmax(z / t, axis=1))),
        "ir": (None, lambda z: per_class(ir, softmax(z, axis=1))),
        "irm": (None, lambda z: normalised(irm(softmax(z, axis=1)) + 1e-9 * softmax(z, axis=1))),
    }


def ece10(p, y):
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == y
    index = np.clip(np.searchsorted(np.linspace(0, 1, 11), confidence, side="left") - 1, 0, 9)
    return float(np.abs(np.bincount(index, confidence - correct, 10)).sum() / len(y))


def main():
    full = np.load(sys.argv[1])
    part = {"val_labels": full["val_labels"][:VALIDATION], "test_labels": full["test_labels"][:TEST]}
    part["ladder_logits"] = full["ladder_logits"][:, :VALIDATION]
    part |= {name: full[name][:, :TEST] for name in SHIFTS}
    data = Path(__file__).parent
    np.savez_compressed(data / "paper_subset.npz", **part)

    ladder, val, test = part["ladder_logits"].astype(float), part["val_labels"], part["test_labels"]
    tuning = {"": (ladder[0], val), "-p": (ladder.reshape(-1, 10), np.tile(val, 10))}
    figures = {}
    for cap in (5.0, None):
        calibrators = {"base": (None, lambda z: softmax(z, axis=1))}
        for suffix, samples in tuning.items():
            calibrators |= {name + suffix: fitted for name, fitted in maps(*samples, cap).items()}
        for name, (temperature, function) in calibrators.items():
            pooled = [ece10(function(part[s].astype(float).reshape(-1, 10)), np.tile(test, 10)) for s in SHIFTS]
            clean = ece10(function(part[SHIFTS[0]][0].astype(float)), test)
            figures[name + ("" if cap is None else ", T at most 5")] = {
                "mean_ece10": float(np.mean(pooled)), "in_domain_ece10": clean, "temperature": temperature
            }  # fmt: skip
    made = {"by": "tests/data/golden/make_paper_subset.py"}
    made |= {package: version(package) for package in ("numpy", "scipy", "scikit-learn")}
    (data / "paper_subset.json").write_text(json.dumps({"made": made, "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
