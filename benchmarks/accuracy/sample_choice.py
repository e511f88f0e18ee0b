"""How `method="auto"` chooses the per-sample calibrator, on validation data only; test conditions are not read.

    python -m benchmarks.accuracy.sample_choice benchmarks/data resnet20 resnet44 plain-cnn

Candidates are cross-validated: they predict images that they were not fitted on, under families of simulated shifts that they
were not fitted on. Writes sample_choice.md beside this file; its findings stay.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.accuracy.study_data import StudyData
from benchmarks.measure import table_head, table_row, write_page
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.evaluating.image_bootstrap import ImageBootstrap
from driftcal.pipeline.tuning.candidates import CLEAN_ONLY, SIMULATED_METHODS, SIMULATED_WEIGHTS, TS, Variant
from driftcal.pipeline.tuning.cross_validation import N_BINS, Trial, cross_validate
from driftcal.pipeline.tuning.selection_rule import N_RESAMPLES, SelectionRule

PAGE = Path(__file__).with_suffix(".md")
#: Tolerances of the second table.
TOLERANCES = (0.005, 0.01, 0.015, 0.02, 0.03)
#: Methods that the default selection does not tune on shifts.
OTHERS = tuple(Variant(method, weight, True) for method in ("ets", "irm", "spline", "pts") for weight in (0.9, 0.8))
DEFAULT = tuple(
    Variant(method, weight, weight != CLEAN_ONLY) for method in SIMULATED_METHODS for weight in SIMULATED_WEIGHTS
)


def trials_of(data: StudyData, variants: tuple[Variant, ...], n_images: int | None = None) -> dict[Variant, Trial]:
    """The trials of all candidates; none is dropped."""
    trials = cross_validate(variants, *data.for_tune(n_images), CollectedFeatures())
    return {variant: trial for variant, trial in trials.items() if trial.n_folds == trials[TS].n_folds}


def candidates_table(trials: dict[Variant, Trial]) -> list[str]:
    """Errors of every candidate, its distance to TS, and the standard error of the in-domain difference."""
    columns = [
        "in domain",
        "under shift",
        "Brier in domain",
        "Brier under shift",
        "distance to TS",
        "SE of the difference",
    ]
    lines, ts = [table_head(["cross-validated ECE", *columns])], trials[TS]
    bootstrap = ImageBootstrap(len(ts.images), N_RESAMPLES, N_BINS)
    reference = bootstrap.ece(ts.by_level[0])
    for variant, trial in trials.items():
        error = float((bootstrap.ece(trial.by_level[0]) - reference).std())
        shifted = float(np.mean([family.scores.brier.mean() for family in trial.shifted]))
        values = (
            trial.in_domain_ece,
            trial.shift_ece,
            trial.by_level[0].brier.mean(),
            shifted,
            trial.confidence_distance(ts),
            error,
        )
        name = (
            variant.method.upper()
            if variant == TS or not variant.simulated
            else f"{variant.method.upper()}, {variant.clean_weight:g}"
        )
        lines.append(table_row([name, *(f"{value:.3f}" for value in values)]))
    return lines


def chosen(trials: dict[Variant, Trial], tolerance: float) -> str:
    """What the rule chooses, with its errors in domain and under shift."""
    ts = trials[TS]
    best = SelectionRule(ts, tolerance, ts.accuracy).best([trials[v] for v in DEFAULT if v in trials])
    variant = best.variant
    name = variant.method.upper() + (f" {variant.clean_weight:g}" if variant.simulated else "")
    return f"{name}: {best.in_domain_ece:.3f}, {best.shift_ece:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="+")
    options = parser.parse_args()
    command = f"python -m benchmarks.accuracy.sample_choice benchmarks/data {' '.join(options.networks)}"
    parts = ["# The choice of the per-sample calibrator, on validation data\n", f"`{command}`\n", _INTRODUCTION]
    choices = [table_head(["network, images", "TS", *(f"tolerance {t:g}" for t in TOLERANCES)])]
    for network in options.networks:
        data = StudyData.load(options.folder / f"{network}.npz")
        n_images = len(data.labels("val"))
        trials = trials_of(data, (*DEFAULT, *OTHERS))
        parts += [f"\n## {network}, {n_images} images\n", *candidates_table(trials)]
        for n in (n_images, n_images // 2):
            trials = trials if n == n_images else trials_of(data, DEFAULT, n)
            ts = f"{trials[TS].in_domain_ece:.3f}, {trials[TS].shift_ece:.3f}"
            choices.append(table_row([f"{network}, {n}", ts, *(chosen(trials, t) for t in TOLERANCES)]))
    parts += ["\n## What the rule chooses\n", "The clean weight, then the ECE in domain and under shift.\n", *choices]
    write_page(PAGE, "\n".join(parts) + "\n")


_INTRODUCTION = (
    "ECE has 15 bins; under shift it is the mean over eleven families of simulated shifts, each pooled over its levels. A number after "
    "the name is the clean weight: the share of the clean images in all weight, the others are images under simulated shifts. `Distance "
    "to TS` is the mean distance between the confidences of the candidate and of TS over the bins, which bounds how much the ECE in "
    "domain can rise. `SE of the difference` is that of the difference of the two in-domain ECEs, from a paired bootstrap over images."
)


if __name__ == "__main__":
    main()
