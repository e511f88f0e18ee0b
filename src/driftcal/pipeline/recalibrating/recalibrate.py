"""Refitting a calibrator with new labelled samples, and comparing it with the old one on held-out samples."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.calibrators.base import check_takes_logits
from driftcal.calibrators.scaling.uncalibrated import Uncalibrated
from driftcal.calibrators.serialization import WINDOWED_NAME, CalibratorFile, load_file, save
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.core import validation
from driftcal.core.random import as_seed
from driftcal.errors import InputError, LogitsError, NotFittedError, WouldBeWorse
from driftcal.io.fingerprint import fingerprint
from driftcal.metrics import Evaluation, evaluate
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.recalibrating.blend import (
    LabelledColumns,
    check_several_classes,
    checked_samples,
    names_of,
    refit,
)
from driftcal.pipeline.recalibrating.recalibrate_windowed import WindowedRecalibration, recalibrate_windowed
from driftcal.pipeline.recalibrating.what_got_worse import what_got_worse
from driftcal.types import AnyArray, Array

#: The fewest labelled samples: with fewer, the intervals are too wide to compare two calibrators.
MIN_SAMPLES = 50
#: Folds of the comparison: a calibrator that was not fitted on a sample predicts it.
N_FOLDS = 5
#: The weights of the new samples that `weight="auto"` tries.
WEIGHTS = (0.1, 0.25, 0.5, 0.75, 1.0)
#: Bootstrap resamples behind the intervals.
N_RESAMPLES = 1000
#: The metrics that are reported before and after.
METRICS = ("ece", "brier", "nll", "accuracy")


@dataclass(frozen=True, eq=False, repr=False)
class Recalibration:
    """A refitted calibrator, compared with the old one on new samples that it was not fitted on.

    `before` and `after` are evaluations on these samples. `worse` lists in sentences what got worse; if it is not
    empty, `save` refuses. `windowed` is the windowed form, refitted or kept; None if there was none.
    """

    calibrator: Calibrator
    weight: float
    n_samples: int
    before: Evaluation
    after: Evaluation
    worse: tuple[str, ...]
    metadata: Mapping[str, Any]
    windowed: WindowedRecalibration | None = None

    def __repr__(self) -> str:
        worse = f", worse: {'; '.join(self.worse)}" if self.worse else ""
        return (
            f"Recalibration({self.calibrator!r}, weight {self.weight:g}, {self.n_samples} samples, held-out ECE {self.before.ece:.4f} "
            f"before and {self.after.ece:.4f} after{worse})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "weight": self.weight,
            "n_samples": self.n_samples,
            "folds": N_FOLDS,
            "before": _figures(self.before),
            "after": _figures(self.after),
            "worse": list(self.worse),
            **({} if self.windowed is None else {"windowed": _windowed_figures(self.windowed)}),
            **self.metadata,
        }

    def save(self, path: str | os.PathLike[str], *, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write the new calibrator and the windowed form to a new file; raise :class:`WouldBeWorse` if it is worse."""
        self.check()
        if Path(path).exists():
            raise InputError(f"output must be a new file; {str(path)!r} exists. Choose another name.")
        return save(self.calibrator, path, metadata=metadata, others=self.windowed_form)

    @property
    def windowed_form(self) -> dict[str, Calibrator]:
        """The windowed form under its name in a file; empty without one."""
        return {} if self.windowed is None else {WINDOWED_NAME: self.windowed.calibrator}

    def check(self) -> None:
        """Raise :class:`WouldBeWorse` where the refit is worse than the old calibrator on held-out samples."""
        if self.worse:
            raise WouldBeWorse(
                f"on {self.n_samples} held-out samples the new calibrator must not be worse than the old one; {', '.join(self.worse)}. "
                "Nothing was written. Collect more labels, or give the new ones less weight."
            )


def recalibrate(
    calibrator: Calibrator | CalibratedModel | CalibratorFile | str | os.PathLike[str],
    logits: AnyArray,
    y: AnyArray,
    *,
    weight: float | str = 0.5,
    old: tuple[AnyArray, AnyArray] | None = None,
    groups: AnyArray = None,
    n_bins: int = 15,
    random_state: int = 0,
) -> Recalibration:
    """Refit `calibrator` with new labelled logits, which get the share `weight` of all the weight.

    The other 1 − weight belongs to the old fit: to the labelled logits `old`, or, without them, to the old calibrator.
    It then labels the new logits z, z/2, z/4 and z/8, with its probabilities p_old as weights. Half of this weight is
    on z; the smaller logits cover the lower confidence under shift. The refit minimises

        Σ_i [ w · loss(z_i, y_i) + (1 − w) · Σ_s a_s Σ_c p_old(c | s·z_i) · loss(s·z_i, c) ].

    So the old map stays where there are no new samples. Old and new calibrator are compared by 5-fold cross-validation
    on the new samples; samples of one group stay together. The refit is `worse` if its Brier score or its negative
    log-likelihood rises. It is also `worse` if its ECE rises or its accuracy falls, and the 95 % interval of the paired
    difference excludes 0.

    A model or a file may hold a windowed form too. One number of it is refitted on the new samples, in windows of 100 in the
    order given: for `window-ts` the intercept of its accuracy regression, for `level-ts` a factor of its temperatures. The same
    rule, on folds of consecutive samples, decides whether the refit or the old windowed form is kept; `windowed` says which.

    Parameters
    ----------
    calibrator
        A fitted calibrator, a calibrated model, or a file or its path.
    logits, y
        New labelled logits, at least 50.
    weight
        0 keeps the old map, 1 fits the new samples alone. "auto" takes the weight with the lowest cross-validated Brier
        score; the comparison repeats that choice in each fold.
    old
        Logits and labels of the old fit.
    groups
        The group (image, patient, day) of each new sample.
    n_bins
        Bins of the ECE.
    random_state
        The seed of folds and bootstrap.

    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(900, 3))
    >>> y = np.argmax(logits / 3 + rng.gumbel(size=logits.shape), axis=1)
    >>> from driftcal import TemperatureScaling
    >>> before = TemperatureScaling().fit(logits[:300], np.argmax(logits[:300] + rng.gumbel(size=(300, 3)), axis=1))
    >>> new = recalibrate(before, logits[300:], y[300:])
    >>> new.worse, before.temperature_ < new.calibrator.temperature_ < 3.5
    ((), True)
    """
    fitted, random_state = _fitted_forms(calibrator, logits), as_seed(random_state, "random_state")
    old_calibrator = _refittable(fitted.calibrator)
    names = names_of(old_calibrator) or fitted.class_names
    new = checked_samples(old_calibrator, logits, y, "logits", names)
    old_samples = None if old is None else checked_samples(old_calibrator, *_pair(old), "old logits", names)
    check_several_classes(old_calibrator, new.labels, names)
    fold, group_of_sample = _folds(len(new), groups, random_state)
    fixed_weight = _fixed_weight(weight)

    def weight_for(samples: LabelledColumns, folds: Array) -> float:
        if fixed_weight is not None:
            return fixed_weight
        return _best_weight(old_calibrator, samples, folds, old_samples, random_state)

    held_out_log_probs = np.empty(new.logits.shape)
    for k in range(N_FOLDS):
        fitted_on, held_out = fold != k, fold == k
        part = new.take(fitted_on)
        refitted = refit(old_calibrator, part, weight_for(part, fold[fitted_on]), old_samples, random_state)
        held_out_log_probs[held_out] = refitted.predict_log_proba(new.logits[held_out])

    options: dict[str, Any] = {
        "n_bins": n_bins,
        "intervals": True,
        "n_resamples": N_RESAMPLES,
        "groups": group_of_sample,
        "random_state": random_state,
    }
    before = evaluate(new.labels, old_calibrator.predict_log_proba(new.logits), **options)
    after = evaluate(new.labels, held_out_log_probs, **options)
    final_weight = weight_for(new, fold)
    return Recalibration(
        calibrator=refit(old_calibrator, new, final_weight, old_samples, random_state),
        weight=final_weight,
        n_samples=len(new),
        before=before,
        after=after,
        worse=what_got_worse(before, after),
        metadata={"data": _digest(new), "old_data": None if old_samples is None else _digest(old_samples)},
        windowed=(
            recalibrate_windowed(fitted.windowed, new, final_weight, old_samples, options)
            if isinstance(fitted.windowed, WindowedCalibrator)
            else None
        ),
    )


@dataclass(frozen=True, eq=False)
class _FittedForms:
    """The per-sample and the windowed form of what is recalibrated, and the names of its classes, if there are any."""

    calibrator: Any
    windowed: Calibrator | None = None
    class_names: Sequence[Any] | None = None


def _fitted_forms(calibrator: Any, logits: AnyArray) -> _FittedForms:
    if isinstance(calibrator, str | os.PathLike):
        calibrator = load_file(calibrator)
    if isinstance(calibrator, CalibratorFile):
        names = calibrator.metadata.get("class_names") or None
        return _FittedForms(calibrator.calibrator, calibrator.others.get(WINDOWED_NAME), names)
    if not isinstance(calibrator, CalibratedModel):
        return _FittedForms(calibrator)
    if np.ndim(logits) > 2:
        raise LogitsError(
            f"logits must be scores of the model, (n, classes); their shape is {np.shape(logits)}. For inputs pass "
            "calibrated.logits(X)."
        )
    return _FittedForms(calibrator.calibrator, calibrator.windowed_calibrator, calibrator.class_names or None)


def _refittable(calibrator: Any) -> Calibrator:
    if not isinstance(calibrator, Calibrator):
        raise InputError(
            f"calibrator must be a calibrator or a file that holds one; it is a {type(calibrator).__name__}."
        )
    if not calibrator.__sklearn_is_fitted__():
        raise NotFittedError(
            "only a fitted calibrator can be recalibrated; this one is not. Call fit(logits, y) instead."
        )
    name = type(calibrator).__name__
    if isinstance(calibrator, Uncalibrated):
        raise InputError(f"{name} has nothing to refit. Tune another method on these samples instead.")
    if calibrator.needs_window:
        raise InputError(
            f"{name} is fitted on samples of every perturbation level; labelled logits are not enough to refit it. Recalibrate "
            "calibrator.per_sample(), or tune again."
        )
    if calibrator.needs_features:
        raise InputError(
            f"{name} is fitted on layer features; labelled logits are not enough to refit it. Tune it again."
        )
    check_takes_logits(calibrator, "a calibrator that is refitted")
    return calibrator


def _pair(old: Any) -> tuple[AnyArray, AnyArray]:
    if not isinstance(old, tuple | list) or len(old) != 2:
        raise InputError(
            f"old must be the logits and the labels of the old fit; it is a {type(old).__name__}. Pass old=(logits, y)."
        )
    return old[0], old[1]


def _fixed_weight(weight: float | str) -> float | None:
    """The weight as a number; None for "auto"."""
    if weight == "auto":
        return None
    try:
        number = float(weight)
    except (TypeError, ValueError):
        number = np.nan
    if not 0 <= number <= 1:
        raise InputError(
            f"weight must be 'auto' or a number from 0 (old map) to 1 (new samples alone); it is {weight!r}."
        )
    return number


def _folds(n_samples: int, groups: AnyArray, random_state: int) -> tuple[Array, Array | None]:
    """The fold of each sample, where a group is in one fold; and the group of each sample as an array."""
    group_names = None if groups is None else validation.as_array(groups, "groups").reshape(-1)
    if group_names is not None and len(group_names) != n_samples:
        raise InputError(
            f"groups must name one group per sample; there are {n_samples} samples and {len(group_names)} groups."
        )
    try:
        group = np.arange(n_samples) if group_names is None else np.unique(group_names, return_inverse=True)[1]
    except TypeError as error:  # None, or text and numbers
        raise InputError(
            f"groups must be names or numbers, one kind for all samples; {error}. Name each group."
        ) from error
    n_groups = int(group.max(initial=-1)) + 1
    if n_samples < MIN_SAMPLES or n_groups < N_FOLDS:
        raise InputError(
            f"recalibrating needs at least {MIN_SAMPLES} labelled samples in {N_FOLDS} groups, or better cannot be told from worse; "
            f"there are {n_samples} samples in {n_groups}. Collect more labels."
        )
    order = np.random.default_rng(random_state).permutation(n_groups)
    return (order % N_FOLDS)[group], group_names


def _best_weight(
    fitted: Calibrator, new: LabelledColumns, fold: Array, old: LabelledColumns | None, random_state: int
) -> float:
    """The weight with the lowest Brier score on held-out samples; the smallest one of equals."""
    errors = []
    for weight in WEIGHTS:
        total = 0.0  # the sum of squared errors, without its constant 1 per sample
        for k in np.unique(fold):
            refitted = refit(fitted, new.take(fold != k), weight, old, random_state)
            p = refitted.predict_proba(new.logits[fold == k])
            total += float(np.square(p).sum() - 2 * p[np.arange(len(p)), new.labels[fold == k]].sum())
        errors.append(total)
    return WEIGHTS[int(np.argmin(errors))]


def _figures(evaluation: Evaluation) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in METRICS:
        value, interval = float(getattr(evaluation, name)), evaluation.intervals[name]
        values[name] = value if np.isfinite(value) else None
        ends = [float(interval.low), float(interval.high)]
        values[f"{name}_interval"] = ends if np.isfinite(ends).all() else None
    return values


def _windowed_figures(windowed: WindowedRecalibration) -> dict[str, Any]:
    return {
        "refitted": windowed.refitted,
        "offset": windowed.offset,
        "explanation": windowed.explanation,
        "before": None if windowed.before is None else _figures(windowed.before),
        "after": None if windowed.after is None else _figures(windowed.after),
    }


def _digest(samples: LabelledColumns) -> str:
    return fingerprint({"logits": samples.logits, "labels": samples.labels})
