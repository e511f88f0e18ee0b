"""A network that does not know some of its classes: their images become out-of-distribution data.

The outputs of the classes are left out, calibrators are tuned on validation images of the others, and no calibrator has
seen an image of a class that is left out. It costs no model pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from driftcal.paper.experiment_context import ExperimentContext, capped
from driftcal.paper.setups.setup import Setup
from driftcal.pipeline.evaluating.candidate import Candidate, uncalibrated
from driftcal.pipeline.evaluating.results import CLEAN_SAMPLES
from driftcal.pipeline.tuning.fit import fit_or_uncalibrated
from driftcal.types import Logits


@dataclass(frozen=True, eq=False)
class LeftOutClasses:
    """Calibrators of the remaining classes, and clean logits of those classes.

    Parameters
    ----------
    candidates : calibrators that were tuned on the remaining classes.
    known : logits of clean test images of the remaining classes.
    unknown : logits of clean images, validation and test, of the classes that are left out.
    """

    candidates: Sequence[Candidate]
    known: Logits
    unknown: Logits


def leave_out_classes(context: ExperimentContext, setup: Setup, methods: Sequence[str]) -> LeftOutClasses | None:
    """Every method, tuned on clean images and on noise (-P); None if the setup leaves out no classes."""
    if not setup.left_out_classes:
        return None
    validation, test = (context.collector(setup, source) for source in (setup.validation, setup.test))
    is_kept = ~np.isin(np.arange(validation.n_classes), setup.left_out_classes)
    columns = np.flatnonzero(is_kept)
    column_of = np.cumsum(is_kept) - 1
    tuned, tested = is_kept[validation.labels], is_kept[test.labels]
    by_suffix = {
        "": [context.clean_logits(setup, setup.validation)],
        "-p": [np.asarray(level) for level in context.perturbed(setup).by_level],
    }
    labels = column_of[validation.labels[tuned]]
    candidates = [uncalibrated(len(columns))]
    for suffix, levels in by_suffix.items():
        logits = np.concatenate([level[tuned][:, columns] for level in levels])
        for method in methods:
            fit = fit_or_uncalibrated(capped(method, context.settings.t_max), logits, np.tile(labels, len(levels)))
            tuned_on = "gaussian" if suffix else CLEAN_SAMPLES
            candidates.append(Candidate(f"{method}{suffix}", method, fit.calibrator, tuned_on, fit.warnings))
    on_validation = np.asarray(context.clean_logits(setup, setup.validation))
    on_test = np.asarray(context.clean_logits(setup, setup.test))
    unknown = np.concatenate([on_validation[~tuned], on_test[~tested]])[:, columns]
    return LeftOutClasses(candidates, on_test[tested][:, columns], unknown)
