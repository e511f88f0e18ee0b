"""Layer features in the per-sample trade-off of a ResNet-20, on validation data and simulated shifts only.

    python -m benchmarks.accuracy.layer_tradeoff --weights cifar10_resnet20.safetensors --cifar10 FOLDER

log T is linear in the log entropy of a sample, as in HTS, or also in its distances to training images inside the network: in each
stage the distance to the 50th nearest of 3,000 training images, as in density-aware calibration. Both are fitted on clean and shifted
samples by the same loss (NLL), and predict images and families of shifts that they have not seen. Writes layer_tradeoff.md.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from benchmarks.measure import table_head, table_row, write_page
from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.data import Source, cifar10
from driftcal.metrics import expected_calibration_error
from driftcal.models import pooled_features
from driftcal.paper.networks.registry import Network, open_cifar10_network
from driftcal.pipeline.collecting.simulated import assign_samples
from driftcal.pipeline.tuning.cross_validation import N_FAMILY_GROUPS, N_FOLDS, fold_of_samples
from driftcal.shifts import simulated_conditions

PAGE = Path(__file__).with_suffix(".md")
N_IMAGES, N_TRAINING, NEIGHBOUR, N_PASSES = 600, 3000, 50, 14
CLEAN_WEIGHTS = (0.97, 0.95, 0.93, 0.9, 0.8)
CLEAN = "clean"


@dataclass(frozen=True, eq=False)
class Samples:
    """Logits, labels, images, families and distances to training images of clean and shifted samples."""

    logits: np.ndarray
    labels: np.ndarray
    images: np.ndarray
    families: np.ndarray
    distances: np.ndarray


def collect(network: Network, validation: Source, training: np.ndarray) -> Samples:
    """Clean samples, then the simulated shifts as `tune` collects them."""
    reference = pooled_features(network.model, training, network.layers)
    inputs, labels = validation.inputs(), validation.labels
    everything = np.arange(len(labels))
    parts = [(CLEAN, inputs, everything)]
    for condition, part in assign_samples(simulated_conditions(), len(labels), N_PASSES, 0):
        shifted = condition.shift(inputs[part], condition.level, seed=0, indices=part)
        parts.append((condition.family, shifted, part))
    return Samples(
        np.concatenate([network.model.logits(shifted) for _, shifted, _ in parts]).astype(np.float64),
        np.concatenate([labels[part] for _, _, part in parts]),
        np.concatenate([part for _, _, part in parts]),
        np.repeat([family for family, _, _ in parts], [len(part) for _, _, part in parts]),
        np.concatenate([distances(network, shifted, reference) for _, shifted, _ in parts]),
    )


def distances(network: Network, inputs: np.ndarray, reference: dict[str, np.ndarray]) -> np.ndarray:
    """(n, stages): the distance to the 50th nearest training image in each stage; features have length 1."""
    features = pooled_features(network.model, inputs, network.layers)
    squared = [2 - 2 * features[layer] @ reference[layer].T for layer in network.layers]
    nearest = [np.partition(d, NEIGHBOUR - 1, axis=1)[:, NEIGHBOUR - 1] for d in squared]
    return np.sqrt(np.maximum(np.stack(nearest, axis=1), 0))


def probabilities(logits: np.ndarray, log_t: np.ndarray | float) -> np.ndarray:
    """softmax(z / T)."""
    scaled = (logits - logits.max(axis=1, keepdims=True)) * np.exp(-np.asarray(log_t))
    powers = np.exp(scaled)
    return powers / powers.sum(axis=1, keepdims=True)


def inputs_of(samples: Samples, with_layers: bool, log_t: float) -> np.ndarray:
    """The inputs of log T: the log entropy under TS, and the distances."""
    p = probabilities(samples.logits, log_t)
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1) / np.log(p.shape[1])
    column = np.log(np.maximum(entropy, 1e-3))[:, None]
    return np.concatenate([column, samples.distances], axis=1) if with_layers else column


def fit_log_t(samples: Samples, x: np.ndarray, weights: np.ndarray, log_t: float) -> np.ndarray:
    """Coefficients and intercept of log T - log T of TS, the lowest weighted NLL."""
    z = (samples.logits - samples.logits.max(axis=1, keepdims=True)) * np.exp(-log_t)
    true = z[np.arange(len(z)), samples.labels]

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        beta = np.exp(-(x @ line[:-1] + line[-1]))
        scaled = beta[:, None] * z
        powers = np.exp(scaled)
        total = powers.sum(axis=1)
        slope = weights * (beta * true - (powers * scaled).sum(axis=1) / total)
        penalty = 1e-4 * float(line[:-1] @ line[:-1])
        gradient = np.append(x.T @ slope + 2e-4 * line[:-1], slope.sum())
        return float(weights @ (np.log(total) - beta * true)) + penalty, gradient

    return minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B").x


def out_of_fold(samples: Samples, clean_weight: float | None, with_layers: bool) -> np.ndarray:
    """Probabilities of each sample by a fit without its image and its family; TS if there is no clean weight."""
    predicted = np.empty(samples.logits.shape)
    clean = samples.families == CLEAN
    families = list(dict.fromkeys(samples.families[~clean]))
    fold = fold_of_samples(int(clean.sum()))[samples.images]
    for k in range(N_FOLDS):
        kept = fold != k
        ts = TemperatureScaling().fit(samples.logits[clean & kept], samples.labels[clean & kept])
        log_t = float(np.log(ts.temperature_))
        x = inputs_of(samples, with_layers, log_t)
        for group in range(N_FAMILY_GROUPS):
            left_out = np.isin(samples.families, families[group::N_FAMILY_GROUPS])
            tested = ~kept & (left_out | (clean & (group == k % N_FAMILY_GROUPS)))
            if clean_weight is None:
                predicted[tested] = probabilities(samples.logits[tested], log_t)
                continue
            used = kept & ~left_out
            weights = np.where(clean, clean_weight / (clean & used).sum(), (1 - clean_weight) / (~clean & used).sum())
            weights *= used
            mean, std = np.average(x, axis=0, weights=weights), x[used].std(axis=0)
            low, high = x[used].min(axis=0), x[used].max(axis=0)
            standard = (np.clip(x, low, high) - mean) / std
            line = fit_log_t(samples, standard, weights, log_t)
            moved = log_t + standard[tested] @ line[:-1] + line[-1]
            predicted[tested] = probabilities(samples.logits[tested], moved[:, None])
    return predicted


def row(samples: Samples, p: np.ndarray, ts: np.ndarray) -> list[str]:
    """ECE in domain and under shift, Brier scores, and the distance of clean confidences to TS."""
    clean = samples.families == CLEAN
    families = list(dict.fromkeys(samples.families[~clean]))
    brier = ((p - np.eye(p.shape[1])[samples.labels]) ** 2).sum(axis=1)
    ece = {
        f: expected_calibration_error(samples.labels[samples.families == f], p[samples.families == f])
        for f in [CLEAN, *families]
    }
    confidence, reference = p[clean].max(axis=1), ts[clean].max(axis=1)
    bins = np.minimum((confidence * 15).astype(int), 14)
    moved = np.abs(np.bincount(bins, confidence - reference, 15)).sum() / clean.sum()
    shifted = [ece[family] for family in families]
    values = (ece[CLEAN], np.mean(shifted), max(shifted), brier[clean].mean(), brier[~clean].mean(), moved)
    return [f"{value:.3f}" for value in values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--cifar10", type=Path, required=True)
    options = parser.parse_args()
    network = open_cifar10_network(f"resnet20={options.weights}", None)
    validation = cifar10(str(options.cifar10)).split(0.5, random_state=0)[0].subset(np.arange(N_IMAGES))
    training = cifar10(str(options.cifar10), part="train").subset(np.arange(N_TRAINING)).inputs()
    samples = collect(network, validation, training)
    ts = out_of_fold(samples, None, False)
    columns = ["in domain", "under shift", "worst family", "Brier in domain", "Brier under shift", "distance to TS"]
    lines = [table_head(["inputs of T, clean weight", *columns]), table_row(["TS", *row(samples, ts, ts)])]
    for with_layers in (False, True):
        for weight in CLEAN_WEIGHTS:
            name = f"{'entropy and layers' if with_layers else 'entropy'}, {weight:g}"
            lines.append(table_row([name, *row(samples, out_of_fold(samples, weight, with_layers), ts)]))
    parts = [
        "# Layer features in the per-sample trade-off\n",
        "`python -m benchmarks.accuracy.layer_tradeoff --weights cifar10_resnet20.safetensors --cifar10 FOLDER`\n",
        f"ResNet-20, {N_IMAGES} validation images, {len(samples.labels) - N_IMAGES:,} shifted samples; stages: {', '.join(network.layers)}. ECE with 15 "
        "bins, out of fold: images and families of shifts left out together; under shift: mean over the families. No test condition is read.\n",
        *lines,
    ]
    write_page(PAGE, "\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
