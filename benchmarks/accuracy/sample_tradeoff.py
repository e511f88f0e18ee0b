"""The trade-off between errors in domain and under shift of per-sample temperatures: clean weights and an augmented view.

    python -m benchmarks.accuracy.sample_tradeoff DIR/resnet20.npz > benchmarks/accuracy/sample_tradeoff.md

The file is a full one, recorded by `collect_study --views`. A network of two small layers predicts the temperature of a sample from
its sorted logit margins (as PTS does), with a view also from the logits of the mirrored image. It is trained on the simulated
shifts, where clean samples have a share of the weight. The share and the view are chosen by cross-validation in which a fold
holds out images and families of shifts together: the lowest error under shift with an error in domain of at most TS plus 0.005.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.accuracy.study_data import StudyData
from benchmarks.measure import table_head, table_row
from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.metrics import expected_calibration_error, null_ece

CLEAN_WEIGHTS = (0.9, 0.8, 0.7, 0.5)
TOLERANCE = 0.005
N_FOLDS, HIDDEN, N_MARGINS, STEPS = 4, 8, 5, 60
#: Of each shifted condition every n-th image is used: all of them give the same network, later.
EVERY = 4
#: Penalties on squared weights.
PENALTIES = (1e-3, 1e-2)
MIRROR = "views/mirror/"
#: Views by their number of additional model passes.
VIEWS = (0, 1)


#: (views, clean weight, penalty)
Candidate = tuple[int, float, float]


@dataclass(frozen=True, eq=False)
class Samples:
    """One condition: logits of the images and of their mirrored views, and labels."""

    logits: np.ndarray
    mirrored: np.ndarray
    labels: np.ndarray

    def take(self, chosen: np.ndarray) -> Samples:
        """Some of the images."""
        return Samples(self.logits[chosen], self.mirrored[chosen], self.labels[chosen])


def samples(data: StudyData, name: str, labels: str) -> Samples:
    """A condition with its view."""
    return Samples(data.logits(name), data.logits(MIRROR + name), data.labels(labels))


def inputs(part: Samples, n_views: int) -> np.ndarray:
    """Logarithms of sorted margins; with a view also its margins, its rank of the predicted class, and agreement."""
    columns = [_margins(part.logits)]
    if n_views:
        predicted, rows = part.logits.argmax(axis=1), np.arange(len(part.logits))
        of_view = part.mirrored.max(axis=1) - part.mirrored[rows, predicted]
        distance = np.abs(_softmax(part.logits) - _softmax(part.mirrored)).sum(axis=1) / 2
        agreement = (part.mirrored.argmax(axis=1) == predicted).astype(float)
        columns += [_margins(part.mirrored)[:, :2], np.stack([np.log1p(of_view), distance, agreement], axis=1)]
    return np.concatenate(columns, axis=1)


def _margins(logits: np.ndarray) -> np.ndarray:
    ordered = -np.sort(-logits, axis=1)
    return np.log1p(ordered[:, :1] - ordered[:, 1 : N_MARGINS + 1])


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


class SampleTemperatures:
    """T = T0 exp(g), g from a network of the inputs; trained on the squared error."""

    def __init__(self, candidate: Candidate) -> None:
        self.n_views, self.clean_weight, self.penalty = candidate

    def fit(self, clean: Samples, shifted: Iterable[Samples], seed: int = 0) -> SampleTemperatures:
        """Train with the clean samples' share of the weight."""
        parts = [clean, *(part.take(np.arange(k % EVERY, len(part.labels), EVERY)) for k, part in enumerate(shifted))]
        x = np.concatenate([inputs(part, self.n_views) for part in parts])
        weights = np.full(len(x), (1 - self.clean_weight) / (len(x) - len(clean.labels)))
        weights[: len(clean.labels)] = self.clean_weight / len(clean.labels)
        self.centre, self.scale = x.mean(axis=0), x.std(axis=0) + 1e-9
        self.t0 = TemperatureScaling().fit(clean.logits, clean.labels).temperature_
        torch.manual_seed(seed)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(x.shape[1], HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.Tanh(),
            torch.nn.Linear(HIDDEN, 1),
        )  # fmt: skip
        torch.nn.init.zeros_(self.network[-1].weight)
        torch.nn.init.zeros_(self.network[-1].bias)
        tensors = [torch.tensor((x - self.centre) / self.scale, dtype=torch.float32)]
        z = torch.tensor(np.concatenate([part.logits for part in parts]) / self.t0, dtype=torch.float32)
        y = torch.nn.functional.one_hot(
            torch.tensor(np.concatenate([part.labels for part in parts])), z.shape[1]
        ).float()
        w = torch.tensor(weights, dtype=torch.float32)
        optimiser = torch.optim.LBFGS(self.network.parameters(), max_iter=STEPS, line_search_fn="strong_wolfe")

        def closure() -> torch.Tensor:
            optimiser.zero_grad()
            p = torch.softmax(z * torch.exp(-self.network(tensors[0])), dim=1)
            penalty = self.penalty * sum((q**2).sum() for q in self.network.parameters())
            loss = (w * ((p - y) ** 2).sum(dim=1)).sum() + penalty
            loss.backward()
            return loss

        optimiser.step(closure)
        return self

    def predict(self, part: Samples) -> np.ndarray:
        """Probabilities."""
        x = torch.tensor((inputs(part, self.n_views) - self.centre) / self.scale, dtype=torch.float32)
        with torch.no_grad():
            factor = torch.exp(-self.network(x)).numpy().astype(np.float64)
        return _softmax(part.logits / self.t0 * factor)


@dataclass(frozen=True, eq=False)
class Uniform:
    """Temperature scaling."""

    temperature: float

    def predict(self, part: Samples) -> np.ndarray:
        """Probabilities."""
        return _softmax(part.logits.astype(np.float64) / self.temperature)


def pooled_ece(predictions: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """ECE with 15 bins over several conditions together."""
    p, y = (np.concatenate(parts) for parts in zip(*predictions, strict=True))
    return float(expected_calibration_error(y, p, n_bins=15))


def cross_validated(data: StudyData, candidate: Candidate | None) -> tuple[float, float]:
    """ECE in domain and under held-out families."""
    clean, by_shift = samples(data, "val/clean", "val"), validation_shifts(data)
    families = list(dict.fromkeys(data.families.values()))
    fold_of_image = np.random.default_rng(0).permutation(len(clean.labels)) % N_FOLDS
    in_domain, under_shift = [], {shift: [] for shift in by_shift}
    for fold in range(N_FOLDS):
        held_out = set(families[fold::N_FOLDS])
        train, test = np.flatnonzero(fold_of_image != fold), np.flatnonzero(fold_of_image == fold)
        shown = [
            part.take(train)
            for shift, parts in by_shift.items()
            if data.families[shift] not in held_out
            for part in parts
        ]
        fitted = fit(clean.take(train), shown, candidate)
        tested = clean.take(test)
        in_domain.append((fitted.predict(tested), tested.labels))
        for shift, parts in by_shift.items():
            if data.families[shift] in held_out:
                under_shift[shift] += [(fitted.predict(part.take(test)), tested.labels) for part in parts]
    return pooled_ece(in_domain), float(np.mean([pooled_ece(found) for found in under_shift.values()]))


def fit(clean: Samples, shifted: list[Samples], candidate: Candidate | None) -> Uniform | SampleTemperatures:
    """The network; temperature scaling for None."""
    if candidate is None:
        return Uniform(TemperatureScaling().fit(clean.logits, clean.labels).temperature_)
    return SampleTemperatures(candidate).fit(clean, shifted)


def validation_shifts(data: StudyData) -> dict[str, list[Samples]]:
    """Simulated shifts of the validation images at the levels that have views."""
    return {
        shift: [
            samples(data, f"val/{shift}/{k}", "val") for k in by_level if MIRROR + f"val/{shift}/{k}" in data.arrays
        ]
        for shift, by_level in data.conditions("val").items()
    }


def tested(data: StudyData, fitted: Uniform | SampleTemperatures) -> dict[str, float]:
    """ECE on the test images: means over shifts, pooled over the levels that have views."""
    row = {}
    for name, labels in (("test/clean", "test"), ("natural", "natural")):
        part = samples(data, name, labels)
        row[name] = pooled_ece([(fitted.predict(part), part.labels)])
    for suite in ("affine", "corruptions", "simple"):
        by_shift = []
        for shift, by_level in data.conditions(f"test/{suite}").items():
            names = [f"test/{suite}/{shift}/{level}" for level in by_level]
            parts = [samples(data, name, "test") for name in names if MIRROR + name in data.arrays]
            by_shift.append(pooled_ece([(fitted.predict(part), part.labels) for part in parts]))
        row[suite] = float(np.mean(by_shift))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    data = StudyData.load(parser.parse_args().file)
    torch.set_num_threads(1)
    clean, shifted = samples(data, "val/clean", "val"), [p for parts in validation_shifts(data).values() for p in parts]
    candidates = [None, *((v, w, q) for v in VIEWS for w in CLEAN_WEIGHTS for q in PENALTIES)]
    validated = {candidate: cross_validated(data, candidate) for candidate in candidates}
    limit = validated[None][0] + TOLERANCE
    within = [candidate for candidate in candidates if validated[candidate][0] <= limit]
    chosen = {
        views: min((c for c in within if c is None or c[0] == views), key=lambda c: validated[c][1]) for views in VIEWS
    }
    print(f"# Per-sample trade-off on {data.network}\n")
    print(f"`python -m benchmarks.accuracy.sample_tradeoff DIR/{data.network}.npz`\n")
    columns = [
        "cross-validated: in domain",
        "under shift",
        "test: in domain",
        "affine",
        "corruptions",
        "simple",
        "natural",
    ]
    print(table_head(["views, clean weight, penalty", *columns]))
    for candidate in candidates:
        row = tested(data, fit(clean, shifted, candidate))
        name = "TS" if candidate is None else ", ".join(f"{value:g}" for value in candidate)
        marks = [f"chosen, views {views}" for views in VIEWS if chosen[views] == candidate]
        cells = [
            *validated[candidate],
            row["test/clean"],
            *(row[s] for s in ("affine", "corruptions", "simple", "natural")),
        ]
        print(
            table_row([f"{name} ({', '.join(marks)})" if marks else name, *(f"{value:.3f}" for value in cells)]),
            flush=True,
        )
    test = samples(data, "test/clean", "test")
    p = fit(clean, shifted, None).predict(test)
    print(f"\nNull ECE of TS on the {len(test.labels)} clean test images: {float(null_ece(test.labels, p)):.3f}.")


if __name__ == "__main__":
    main()
