"""Thresholds of the confidence: does the bound hold on held-out samples, what coverage is lost, what happens under shift?

    python -m benchmarks.accuracy.thresholds ../shared/golden/cifar10_resnet20.npz benchmarks/data/resnet20.npz

The files hold recorded logits: those of `recorded_logits`, or of `collect_study`. First table: 200 random splits of all clean
samples into validation and held-out samples; the threshold is chosen on the former. Second table: the most coverage that any rule
with this bound can keep on average, see `most_coverage`. Third table: one threshold, chosen on the validation half, under every
shift; the windowed calibrator uses the same threshold with its own confidence. ``--only splits`` and ``--only limit`` leave out the rest.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import driftcal
from benchmarks.measure import table_head, table_row
from driftcal.errors import NoThreshold, SuspiciousInputWarning

N_SPLITS = 200
WINDOW = 100


@dataclass(frozen=True, eq=False)
class Recorded:
    """Clean logits with labels; validation logits at the levels of noise; test logits of each shift, level by level."""

    name: str
    clean: np.ndarray
    labels: np.ndarray
    levels: np.ndarray
    validation_labels: np.ndarray
    shifts: dict[str, list[np.ndarray]]
    test_labels: np.ndarray

    @classmethod
    def load(cls, path: Path) -> Recorded:
        """Read a file of either kind."""
        stored = np.load(path)
        if "ladder_logits" in stored.files:
            names = [name for name in stored.files if name.startswith("test_") and name != "test_labels"]
            levels, test = stored["ladder_logits"], stored[names[0]][0]
            shifts = {f"affine/{name.removeprefix('test_')}": list(stored[name][1:]) for name in names}
            clean = np.concatenate([levels[0], test])
            labels = np.concatenate([stored["val_labels"], stored["test_labels"]])
        else:
            names = [
                name for name in stored.files if name.startswith(("test/affine", "test/corruptions", "test/simple"))
            ]
            levels = np.stack([stored[f"levels/gaussian/{level}"] for level in range(10)])
            shifts = {}
            for name in names:
                shifts.setdefault(name.removeprefix("test/").rpartition("/")[0], []).append(stored[name])
            rest = "clean" if "clean" in stored.files else "test/clean"
            rest_labels = "clean_labels" if "clean" in stored.files else "test_labels"
            clean = np.concatenate([stored["val/clean"], stored[rest]])
            labels = np.concatenate([stored["val_labels"], stored[rest_labels]])
        return cls(
            path.stem,
            clean.astype(np.float64),
            labels.astype(np.int64),
            levels.astype(np.float64),
            stored["val_labels"].astype(np.int64),
            {name: [level.astype(np.float64) for level in logits] for name, logits in shifts.items()},
            stored["test_labels"].astype(np.int64),
        )


def best_coverage(confidence: np.ndarray, correct: np.ndarray, accuracy: float) -> float:
    """The largest coverage with this accuracy, known with hindsight."""
    ordered = correct[np.argsort(-confidence, kind="stable")]
    reached = np.flatnonzero(np.cumsum(ordered) >= accuracy * np.arange(1, len(ordered) + 1))
    return float((reached[-1] + 1) / len(ordered)) if len(reached) else 0.0


def most_coverage(errors: np.ndarray, n: int, accuracy: float, delta: float = 0.05, n_draws: int = 2000) -> float:
    """An upper bound of the mean coverage of any rule that certifies this accuracy with probability 1 - delta from n samples.

    `errors` is the error rate of the network by rank of the confidence, the highest confidence first. For each coverage c there
    is a network that resembles this one, whose errors are as many times more frequent as makes its accuracy at c equal the target, and
    whose errors do not become rarer further down. On that network the rule may reach c with probability delta only. So reaching c is a test
    between the two networks, and its power is at most that of the likelihood ratio (Neyman & Pearson 1933). The mean coverage is
    the integral of the powers.
    """
    rng = np.random.default_rng(0)
    ranks = (np.arange(n) + 0.5) / n
    rate = np.clip(np.interp(ranks, (np.arange(len(errors)) + 0.5) / len(errors), errors), 1e-4, 0.99)
    here = rng.random((n_draws, n)) < rate
    powers = []
    for m in np.unique(np.linspace(1, n, 41).round().astype(int))[1:]:
        mean = rate[:m].mean()
        if mean >= 1 - accuracy:  # the network itself does not reach the target there
            powers.append(delta)
            continue
        other = np.clip(rate * (1 - accuracy) / mean, 1e-4, 0.99)
        other[m:] = np.maximum(rate[m:], other[m - 1])
        weights = np.log(other / rate) - np.log1p(-other) + np.log1p(-rate)  # of an error
        there = rng.random((n_draws, n)) < other
        ratios, ratios_there = here @ weights, there @ weights
        limit = np.quantile(ratios_there, delta)
        below, at = (ratios_there < limit).mean(), (ratios_there == limit).mean()
        powers.append((ratios < limit).mean() + (delta - below) / max(at, 1e-9) * (ratios == limit).mean())
    return float(np.minimum.accumulate(powers).mean())


def limits(recorded: Recorded) -> list[list[str | float | int]]:
    """Rows of the second table."""
    from sklearn.isotonic import IsotonicRegression

    p = driftcal.make_calibrator("ts").fit(recorded.clean, recorded.labels).predict_proba(recorded.clean)
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == recorded.labels
    ranked = correct[np.argsort(-confidence, kind="stable")]
    errors = IsotonicRegression(y_min=0, y_max=1).fit_transform(np.arange(len(ranked)), (~ranked).astype(float))
    rows: list[list[str | float | int]] = []
    for n_validation in (1000, 2500):
        for accuracy in (0.95, 0.97, 0.99):
            best = best_coverage(confidence, correct, accuracy)
            most = most_coverage(errors, n_validation, accuracy)
            rows.append([recorded.name, n_validation, accuracy, f"{best:.3f}", f"{most:.3f}", f"{most / best:.3f}"])
    return rows


def splits(recorded: Recorded, method: str, n_validation: int, accuracy: float) -> list[str | float | int]:
    """A row of the first table."""
    held, ratios, kept, accuracies, none = [], [], [], [], 0
    for seed in range(N_SPLITS):
        order = np.random.default_rng(seed).permutation(len(recorded.labels))
        validation, rest = order[:n_validation], order[n_validation:]
        calibrated = driftcal.fit(recorded.clean[validation], recorded.labels[validation], method=method)
        p = calibrated.predict_proba(recorded.clean[rest])
        confidence, correct = p.max(axis=1), p.argmax(axis=1) == recorded.labels[rest]
        try:
            accepted = calibrated.threshold(accuracy=accuracy).accepts(confidence)
        except NoThreshold:
            accepted, none = np.zeros(len(rest), bool), none + 1
        held.append(not accepted.any() or correct[accepted].mean() >= accuracy)
        kept.append(accepted.mean())
        ratios.append(accepted.mean() / max(best_coverage(confidence, correct, accuracy), 1e-9))
        accuracies.append(correct[accepted].mean() if accepted.any() else np.nan)
    return [
        recorded.name, method.upper(), n_validation, accuracy, f"{np.mean(held):.3f}", f"{np.nanmean(accuracies):.3f}",
        f"{np.mean(kept):.3f}", f"{np.mean(ratios):.3f}", f"{np.quantile(ratios, 0.1):.3f}", none,
    ]  # fmt: skip


def under_shift(recorded: Recorded, accuracy: float) -> list[list[str | float]]:
    """Rows of the third table: coverage and accuracy per kind of shift, per sample and windowed."""
    n_levels, n = recorded.levels.shape[:2]
    calibrated = driftcal.fit(
        recorded.levels.reshape(n_levels * n, -1),
        np.tile(recorded.validation_labels, n_levels),
        method="level-ts",
        levels=np.repeat(np.arange(n_levels), n),
    )
    ts = driftcal.fit(recorded.levels[0], recorded.validation_labels, method="ts")
    threshold = ts.threshold(accuracy=accuracy)
    kinds: dict[str, list[np.ndarray]] = {}
    for name, levels in recorded.shifts.items():
        kinds.setdefault(name.partition("/")[0], []).extend(levels)
    rows: list[list[str | float]] = []
    for kind, conditions in kinds.items():
        for form in ("per sample", f"windowed ({WINDOW})"):
            kept, right, total, worst, correct_total = 0, 0, 0, 1.0, 0
            for logits in conditions:
                p = (
                    ts.predict_proba(logits)
                    if form == "per sample"
                    else calibrated.windowed(WINDOW).predict_proba(logits)
                )
                correct, accepted = logits.argmax(axis=1) == recorded.test_labels, threshold.accepts(p.max(axis=1))
                kept, right, total = kept + accepted.sum(), right + correct[accepted].sum(), total + len(p)
                correct_total += correct.sum()
                if accepted.any():
                    worst = min(worst, float(correct[accepted].mean()))
            rows.append(
                [
                    recorded.name,
                    accuracy,
                    kind,
                    form,
                    f"{correct_total / total:.3f}",
                    f"{kept / total:.3f}",
                    f"{right / max(kept, 1):.3f}",
                    f"{worst:.3f}",
                ]
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--methods", default="ts,irm")
    parser.add_argument("--only", choices=("splits", "limit"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SuspiciousInputWarning)
    files = [Recorded.load(path) for path in arguments.files]
    if arguments.only != "limit":
        print_splits(files, arguments.methods.split(","))
    if arguments.only != "splits":
        titles = [
            "logits",
            "validation samples",
            "target",
            "best coverage with hindsight",
            "most that a rule keeps",
            "÷",
        ]
        print(f"\n{table_head(titles)}")
        for recorded in files:
            for row in limits(recorded):
                print(table_row(row), flush=True)
    if arguments.only is None:
        print_under_shift(files)


def print_splits(files: list[Recorded], methods: list[str]) -> None:
    print(
        table_head(
            ["logits", "calibrator", "validation samples", "target accuracy", "share of splits where it holds", "mean accuracy", "mean coverage",
             "÷ best coverage, mean", "10 % quantile", "no threshold"]
        )
    )  # fmt: skip
    for recorded in files:
        for method in methods:
            for n_validation in (1000, 2500):
                if 2 * n_validation > len(recorded.labels) + 500:
                    continue
                for accuracy in (0.95, 0.97, 0.99):
                    print(table_row(splits(recorded, method, n_validation, accuracy)), flush=True)


def print_under_shift(files: list[Recorded]) -> None:
    print()
    print(
        table_head(
            [
                "logits",
                "target accuracy",
                "shifts",
                "form",
                "accuracy of all",
                "coverage",
                "accuracy of the accepted",
                "worst condition",
            ]
        )
    )
    for recorded in files:
        for accuracy in (0.95, 0.97):
            for row in under_shift(recorded, accuracy):
                print(table_row(row), flush=True)


if __name__ == "__main__":
    main()
