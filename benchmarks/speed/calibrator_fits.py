"""driftcal's calibrators and metrics beside other packages on the same logits, alternating in one run.

python -m benchmarks.speed.calibrator_fits            # about 25 minutes, most of it other packages with 1,000 classes
python -m benchmarks.speed.calibrator_fits --rounds 1 --only ts,metrics
"""

from __future__ import annotations

import argparse
import contextlib
import os
import warnings
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

import driftcal
from benchmarks.measure import Timing, alternate, machine, table_head, table_row

#: (samples, classes) -> tasks. Platt scaling and histogram binning with 1,000 classes are left out: other packages take one to
#: eight minutes a round.
SIZES = {
    (50_000, 10): ("ts", "ets", "ir", "irm", "ps", "hb", "pbmc", "metrics"),
    (20_000, 1000): ("ts", "ets", "ir", "irm", "pbmc", "metrics"),
}
#: Task -> required speed-up over the fastest other package at 20,000 × 1000.
REQUIRED = {"ts": 10, "ets": 20, "ir": 15, "irm": 25, "pbmc": 100}

#: A task to time.
Run = Callable[[], object]


def make_logits(n: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Over-confident logits of a model with an accuracy of about two thirds."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.standard_normal((n, n_classes), np.float32)
    labels = rng.integers(0, n_classes, n)
    logits[np.arange(n), labels] += 2.0 + 2.5 * np.log10(n_classes)
    return logits, labels


def softmax(logits: np.ndarray) -> np.ndarray:
    """The usual numpy code."""
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def temperature_peers(logits: np.ndarray, labels: np.ndarray) -> dict[str, Run]:
    import torch
    from netcal.scaling import TemperatureScaling
    from probmetrics.calibrators import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits
    from sklearn.calibration import _TemperatureScaling

    probs = softmax(logits.astype(np.float64))  # on float32 netcal stops at once with T = 1
    distribution = CategoricalLogits(torch.from_numpy(logits))
    target = torch.from_numpy(labels)
    return {
        "scikit-learn": lambda: _TemperatureScaling().fit(logits, labels),
        "probmetrics": lambda: TemperatureScalingCalibrator().fit_torch(distribution, target),
        "netcal": lambda: TemperatureScaling().fit(probs, labels, tensorboard=False),
    }


def ensemble_peers(logits: np.ndarray, labels: np.ndarray) -> dict[str, Run]:
    from scipy.optimize import minimize

    one_hot = np.zeros(logits.shape, np.float32)
    one_hot[np.arange(len(labels)), labels] = 1

    def slsqp() -> object:
        """T, then the weights, by SLSQP on the squared error, as the published code does."""
        found = minimize(
            lambda t: float(((softmax(logits / t[0]) - one_hot) ** 2).sum(axis=1).mean()),
            [1.0], method="SLSQP", bounds=[(0.05, 100)], options={"ftol": 1e-10},
        )  # fmt: skip
        parts = [softmax(logits / found.x[0]), softmax(logits), np.full(logits.shape, 1 / logits.shape[1], np.float32)]
        return minimize(
            lambda w: float(((sum(a * p for a, p in zip(w, parts, strict=True)) - one_hot) ** 2).sum(axis=1).mean()),
            [1.0, 0.0, 0.0], method="SLSQP", bounds=[(0, 1)] * 3,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1}, options={"ftol": 1e-10},
        )  # fmt: skip

    return {"SLSQP": slsqp}


def isotonic_peers(logits: np.ndarray, labels: np.ndarray) -> dict[str, Run]:
    from sklearn.isotonic import IsotonicRegression

    probs = softmax(logits)

    def per_class() -> None:
        for c in range(logits.shape[1]):
            IsotonicRegression(out_of_bounds="clip").fit(probs[:, c], labels == c)

    return {"scikit-learn": per_class}


def pooled_isotonic_peers(logits: np.ndarray, labels: np.ndarray) -> dict[str, Run]:
    from sklearn.isotonic import IsotonicRegression

    probs = softmax(logits)
    one_hot = np.zeros(logits.shape, np.float32)
    one_hot[np.arange(len(labels)), labels] = 1
    return {"scikit-learn": lambda: IsotonicRegression(out_of_bounds="clip").fit(probs.ravel(), one_hot.ravel())}


def platt_peers(logits: np.ndarray, labels: np.ndarray) -> dict[str, Run]:
    from sklearn.linear_model import LogisticRegression

    log_p = np.log(np.clip(softmax(logits.astype(np.float64)), 1e-300, 1))
    odds = log_p - np.log1p(-np.exp(np.minimum(log_p, -1e-16)))

    def per_class() -> None:
        for c in range(logits.shape[1]):
            LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(odds[:, c : c + 1], labels == c)

    return {"scikit-learn": per_class}


def histogram_peers(logits: np.ndarray, labels: np.ndarray) -> dict[str, Run]:
    import calibration

    probs = softmax(logits.astype(np.float64))
    one_hot = np.eye(logits.shape[1])[labels] if logits.shape[1] <= 10 else None
    peers: dict[str, Run] = {
        "uncertainty-calibration": lambda: calibration.HistogramMarginalCalibrator(
            len(labels), num_bins=10
        ).train_calibration(probs, labels)
    }
    if one_hot is not None:
        from netcal.binning import HistogramBinning

        peers["netcal"] = lambda: HistogramBinning(bins=10, equal_intervals=False).fit(probs, labels)
    return peers


def platt_binning_peers(logits: np.ndarray, labels: np.ndarray) -> dict[str, Run]:
    import calibration

    probs = softmax(logits.astype(np.float64))
    return {
        "uncertainty-calibration": lambda: calibration.PlattBinnerMarginalCalibrator(
            len(labels), num_bins=10
        ).train_calibration(probs, labels)
    }


PEERS: dict[str, Callable[[np.ndarray, np.ndarray], dict[str, Run]]] = {
    "ts": temperature_peers,
    "ets": ensemble_peers,
    "ir": isotonic_peers,
    "irm": pooled_isotonic_peers,
    "ps": platt_peers,
    "hb": histogram_peers,
    "pbmc": platt_binning_peers,
}


def fit_run(task: str, logits: np.ndarray, labels: np.ndarray) -> Run:
    return lambda: driftcal.make_calibrator(task).fit(logits, labels)


def time_metrics(logits: np.ndarray, labels: np.ndarray, rounds: int) -> dict[str, Timing]:
    """All one-pass metrics from logits; other packages for the same numbers, and a bare softmax of the same array."""
    import torch
    from netcal.metrics import ECE, MCE
    from sklearn.metrics import accuracy_score, log_loss

    tensor = torch.from_numpy(logits)
    samples = np.arange(len(labels))

    def by_peers() -> None:
        probs = softmax(logits)
        ECE(15).measure(probs, labels)
        MCE(15).measure(probs, labels)
        accuracy_score(labels, probs.argmax(axis=1))
        log_loss(labels, probs, labels=np.arange(logits.shape[1]))
        (probs**2).sum(axis=1).mean() - 2 * probs[samples, labels].mean() + 1

    return alternate(
        {
            "driftcal": lambda: driftcal.metrics.Statistics.of(labels, logits),
            "netcal, scikit-learn, numpy": by_peers,
            **({"torch.softmax alone": lambda: torch.softmax(tensor, dim=1)} if logits.shape[1] == 1000 else {}),
        },
        rounds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="tasks, separated by commas: " + ", ".join([*PEERS, "metrics"]))
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else [*PEERS, "metrics"]
    warnings.filterwarnings("ignore")
    os.environ.setdefault("TQDM_DISABLE", "1")
    names = ("driftcal", "scikit-learn", "probmetrics", "netcal", "uncertainty-calibration", "torch", "numpy")
    print(f"Median of {options.rounds} alternating rounds. " + ", ".join(f"{n} {version(n)}" for n in names) + ".\n")
    print(table_head(["samples × classes", "task", "driftcal", "MB", "peer", "seconds", "MB", "ratio", "required"], 2))
    for (n, n_classes), tasks in SIZES.items():
        logits, labels = make_logits(n, n_classes)
        small = make_logits(200, n_classes)
        for task in (task for task in tasks if task in chosen):
            with open(os.devnull, "w") as silence, contextlib.redirect_stdout(silence):  # other packages print
                if task == "metrics":
                    driftcal.metrics.Statistics.of(small[1], small[0])
                    table = time_metrics(logits, labels, max(options.rounds, 15))
                else:
                    driftcal.make_calibrator(task).fit(*small)
                    table = alternate(
                        {"driftcal": fit_run(task, logits, labels), **PEERS[task](logits, labels)}, options.rounds
                    )
            ours = table.pop("driftcal")
            for peer, timing in table.items():
                required = 0.25 if "softmax" in peer else REQUIRED.get(task, 1) if n_classes == 1000 else 1
                cells = [f"{n:,} × {n_classes}", task, f"{ours.seconds:.3f} s", f"{ours.memory:.0f}", peer]
                cells += [f"{timing.seconds:.3f} s", f"{timing.memory:.0f}", f"{timing.seconds / ours.seconds:.2f}×"]
                print(table_row([*cells, f"≥ {required}×"]), flush=True)
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
