"""Errors of label-free accuracy estimates on the logits of the study, by suite, with the coverage of intervals.

    python -m benchmarks.accuracy.estimator_study benchmarks/data resnet20 resnet44 plain-cnn plain-cnn-10-epochs \
        --sizes 500 --seeds 2 > benchmarks/accuracy/estimator_study.md

Estimators are fitted on validation images alone: the published ones on clean samples or on the simulated shifts
(`accuracy_baselines`), `window-ts` on the simulated shifts. Every condition gives one window per seed; a window is drawn without
replacement from the images of the condition.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

import driftcal
from benchmarks.accuracy.accuracy_baselines import ESTIMATORS, CleanSamples
from benchmarks.accuracy.study_data import NOT_IN_LIBRARY, StudyData
from benchmarks.accuracy.windowed_methods import fit_on_simulated
from benchmarks.measure import table_head, table_row
from driftcal.calibrators import CALIBRATORS
from driftcal.drift.estimators import ESTIMATORS as MONITOR_ESTIMATORS
from driftcal.drift.estimators import WINDOW_TS
from driftcal.drift.reference import DriftReference

#: (accuracy, low, high) of a window; the ends are NaN if the estimator has no interval
Estimate = Callable[[np.ndarray], tuple[float, float, float]]
#: Windows of each condition of a family that is left out.
N_LEFT_OUT = 10
#: Windows with the clean images' class shares and with changed ones, per seed.
N_CLEAN = 60


def without_interval(estimate: Callable[[np.ndarray], float]) -> Estimate:
    """The estimate with an unknown interval."""
    return lambda logits: (estimate(logits), np.nan, np.nan)


def estimators(data: StudyData, size: int) -> dict[str, Estimate]:
    """Every estimator for windows of this size."""
    clean, listed = CleanSamples(data), {}
    for name, make in ESTIMATORS.items():
        listed[name] = without_interval(make(clean, size, 0))
    if "window-ts" in CALIBRATORS:
        window_ts = fit_on_simulated("window-ts", data)

        def estimate(logits: np.ndarray) -> tuple[float, float, float]:
            found = window_ts.estimate_accuracy(logits)
            return found.accuracy, found.low, found.high

        listed["window-ts"] = estimate
    return listed


def windows(data: StudyData, size: int, seed: int) -> dict[str, list[tuple[np.ndarray, float]]]:
    """Suite -> (logits, true accuracy) of each window."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[tuple[np.ndarray, float]]] = {}

    def add(suite: str, logits: np.ndarray, labels: np.ndarray, shares: np.ndarray | None = None) -> None:
        weights = None if shares is None else shares[labels] / shares[labels].sum()
        chosen = rng.choice(len(labels), min(size, len(labels)), replace=shares is not None, p=weights)
        found.setdefault(suite, []).append((logits[chosen], np.mean(logits[chosen].argmax(axis=1) == labels[chosen])))

    for suite in ("affine", "corruptions", "simple"):
        for by_level in data.conditions(f"test/{suite}").values():
            for logits in by_level.values():
                add(suite, logits, data.labels("test"))
    clean, labels = data.logits("clean"), data.labels("clean")
    for _ in range(N_CLEAN):
        add("natural", data.logits("natural"), data.labels("natural"))
        add("clean", clean, labels)
        add("Dirichlet(0.3)", clean, labels, rng.dirichlet(np.full(clean.shape[1], 0.3)) + 1e-9)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--estimators", nargs="+", help="by default all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--left-out", action="store_true", help="only the choice of the monitor's default, on simulated shifts"
    )
    options = parser.parse_args()
    if options.left_out:
        print_left_out(options.folder, options.networks, max(options.sizes))
        return
    print("# Label-free accuracy estimates on the logits of the study\n")
    print(
        f"`python -m benchmarks.accuracy.estimator_study {options.folder} {' '.join(options.networks)} "
        f"--sizes {' '.join(map(str, options.sizes))} --seeds {options.seeds}`\n\n"
        "Mean absolute error of the estimated accuracy; `covered` is the share of windows whose true accuracy lies in the 90 % "
        "interval, `width` the median half-width, over the affine shifts and corruptions. No test shift is among the shifts that "
        "estimators were fitted on. A window has no more samples than a condition: 400 of resnet44, 200 of plain-cnn.\n"
    )
    for network in options.networks:
        data = StudyData.load(options.folder / f"{network}.npz")
        for size in options.sizes:
            print_table(data, size, range(options.seeds), options.estimators)


def left_out_errors(data: StudyData, size: int) -> dict[str, dict[str, float]]:
    """Estimator of the monitor -> family of simulated shifts -> mean absolute error on windows of it.

    `window-ts` is fitted without the family; the others are fitted on levels of Gaussian noise, so that family is not listed.
    """
    logits, labels, levels = data.levels("gaussian")
    n = len(data.labels("val"))
    calibrator = driftcal.make_calibrator("ts").fit(data.logits("val/clean"), data.labels("val"))
    by_level = [logits[levels == level].astype(np.float64) for level in range(len(logits) // n)]
    reference = DriftReference.of(by_level, labels[:n], calibrator, temperature=calibrator.temperature_)
    names = [family for family in dict.fromkeys(data.families.values()) if family not in (*NOT_IN_LIBRARY, "gaussian")]
    errors: dict[str, dict[str, float]] = {}
    for family in names:
        fitted_on, y, conditions, families = data.simulated(leave_out=(*NOT_IN_LIBRARY, family))
        window_ts = driftcal.make_calibrator("window-ts").fit(fitted_on, y, levels=conditions, families=families)
        rng, found = np.random.default_rng(0), []
        shifts = [shift for shift, other in data.families.items() if other == family]
        by_shift = data.conditions("val")
        for condition in (z.astype(np.float64) for shift in shifts for z in by_shift[shift].values()):
            for _ in range(N_LEFT_OUT):
                chosen = rng.integers(n, size=size)
                z, truth = condition[chosen], np.mean(condition[chosen].argmax(axis=1) == data.labels("val")[chosen])
                means = reference.statistics(z, calibrator.predict_proba(z)).mean(axis=0)
                estimates = {name: reference.estimate(name, means) for name in MONITOR_ESTIMATORS}
                estimates[WINDOW_TS] = window_ts.estimate_accuracy(z).accuracy
                found.append({name: abs(estimate - truth) for name, estimate in estimates.items()})
        for name in found[0]:
            errors.setdefault(name, {})[family] = float(np.mean([row[name] for row in found]))
    return errors


def print_left_out(folder: Path, networks: list[str], size: int) -> None:
    """The choice of the monitor's default: the estimator with the smallest mean error on the families that are left out."""
    print(f"\n## Simulated shifts, families left out, windows of {size}\n")
    rows = {network: left_out_errors(StudyData.load(folder / f"{network}.npz"), size) for network in networks}
    families = list(next(iter(next(iter(rows.values())).values())))
    print(table_head(["network", "estimator", *families, "mean", "worst"]))
    for network, errors in rows.items():
        for name, by_family in sorted(errors.items(), key=lambda item: np.mean(list(item[1].values()))):
            values = [*by_family.values(), np.mean(list(by_family.values())), max(by_family.values())]
            print(table_row([network, name, *(f"{value:.3f}" for value in values)]))


def print_table(data: StudyData, size: int, seeds: range, chosen: list[str] | None) -> None:
    """One network, one size of windows."""
    drawn: dict[str, list[tuple[np.ndarray, float]]] = {}
    for seed in seeds:
        for suite, listed in windows(data, size, seed).items():
            drawn.setdefault(suite, []).extend(listed)
    print(f"\n## {data.network}, windows of {size}\n")
    print(table_head(["estimator", *drawn, "worst affine condition", "covered", "width"]))
    for name, estimate in estimators(data, size).items():
        if chosen and name not in chosen:
            continue
        estimates = {suite: np.array([estimate(z) for z, _ in listed]) for suite, listed in drawn.items()}
        truth = {suite: np.array([accuracy for _, accuracy in listed]) for suite, listed in drawn.items()}
        errors = {suite: np.abs(estimates[suite][:, 0] - truth[suite]) for suite in drawn}
        worst = errors["affine"].reshape(len(seeds), -1).mean(axis=0).max()
        _, low, high = np.concatenate([estimates["affine"], estimates["corruptions"]]).T
        true = np.concatenate([truth["affine"], truth["corruptions"]])
        interval = ["", ""]
        if not np.isnan(low).any():
            interval = [f"{np.mean((low <= true) & (true <= high)):.1%}", f"{np.median(high - low) / 2:.3f}"]
        print(table_row([name, *(f"{e.mean():.3f}" for e in errors.values()), f"{worst:.3f}", *interval]), flush=True)


if __name__ == "__main__":
    main()
