"""New labels for an old calibrator: refitted on a blend of old and new, and compared on held-out samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.calibrators.base import check_takes_logits
from driftcal.calibrators.scaling.uncalibrated import Uncalibrated
from driftcal.calibrators.serialization import CalibratorFile, load_file, save
from driftcal.core import validation
from driftcal.errors import InputError, NotFittedError, WouldBeWorse
from driftcal.io.fingerprint import fingerprint, sha256_file
from driftcal.metrics import Evaluation, difference, evaluate
from driftcal.pipeline.blend import LabelledColumns, check_several_classes, checked_samples, names_of, refit
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.types import AnyArray, Array

#: Fewer labelled samples cannot tell better from worse.
MIN_SAMPLES = 50
#: Every new sample is judged by a fit without its fold.
N_FOLDS = 5
#: What `weight="auto"` tries.
WEIGHTS = (0.1, 0.25, 0.5, 0.75, 1.0)
#: Bootstrap resamples behind the intervals.
N_RESAMPLES = 1000
#: What is reported before and after.
METRICS = ("ece", "brier", "nll", "accuracy")


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A refitted calibrator beside the old one, both judged on new samples that the refit was not fitted on.

    `before` and `after` are evaluations on these samples. `worse` says in words what got worse; `save` then refuses.
    """

    calibrator: Calibrator
    weight: float
    n_samples: int
    before: Evaluation
    after: Evaluation
    worse: tuple[str, ...]
    metadata: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "weight": self.weight,
            "n_samples": self.n_samples,
            "folds": N_FOLDS,
            "before": _figures(self.before),
            "after": _figures(self.after),
            "worse": list(self.worse),
            **self.metadata,
        }

    def save(self, path: str | os.PathLike[str], *, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write the new calibrator to a new file; raise :class:`WouldBeWorse` if it is worse."""
        self.check()
        if Path(path).exists():
            raise InputError(f"output must be a new file; {str(path)!r} exists. Choose another name.")
        return self.calibrator.save(path, metadata=metadata)

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

    The other 1 − weight belongs to the old fit: the labelled logits `old`, where they are still at hand, or else the calibrator
    itself. It then labels the new logits z, z/2, z/4 and z/8, as confident as the new samples and as unconfident as shift may
    make them (half of the weight lies on z), with its probabilities as weights:

        Σ_i [ w · loss(z_i, y_i) + (1 − w) · Σ_s a_s Σ_c p_old(c | s·z_i) · loss(s·z_i, c) ].

    So where new samples say nothing the old map stays. Old and new are compared on new samples that the refit was not fitted on
    (5-fold; samples of one group stay together), where "auto" chose the weight without them as well. The refit is `worse` if
    its Brier score or its negative log-likelihood rises there, or if its ECE certainly rises or its accuracy certainly
    falls (by the 95 % interval of the paired difference).

    Parameters
    ----------
    calibrator
        A fitted calibrator, a calibrated model (its per-sample calibrator), or a file that holds one, or its path.
    logits, y
        New labelled logits, at least 50.
    weight
        0 keeps the old map, 1 fits the new samples alone, "auto" takes the lowest cross-validated Brier score.
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
    names: Sequence[Any] | None = None
    if isinstance(calibrator, str | os.PathLike):
        calibrator = load_file(calibrator)
    if isinstance(calibrator, CalibratedModel):
        calibrator, names = calibrator.calibrator, calibrator.class_names or None
    elif isinstance(calibrator, CalibratorFile):
        calibrator, names = calibrator.calibrator, calibrator.metadata.get("class_names") or None
    fitted = _refittable(calibrator)
    names = names_of(fitted) or names
    new = checked_samples(fitted, logits, y, "logits", names)
    before_samples = None if old is None else checked_samples(fitted, *old, "old logits", names)
    check_several_classes(fitted, new.labels, names)
    fold, units = _folds(len(new), groups, random_state)
    given = _weight(weight)

    held_out = np.empty(new.logits.shape)
    for k in range(N_FOLDS):
        kept, out = fold != k, fold == k
        part = new.take(kept)
        share = _best_weight(fitted, part, fold[kept], before_samples, random_state) if given is None else given
        held_out[out] = refit(fitted, part, share, before_samples, random_state).predict_log_proba(new.logits[out])
    final = _best_weight(fitted, new, fold, before_samples, random_state) if given is None else given

    resampling = {"intervals": True, "n_resamples": N_RESAMPLES, "groups": units, "random_state": random_state}
    options: dict[str, Any] = {"n_bins": n_bins, **resampling}
    before = evaluate(new.labels, fitted.predict_log_proba(new.logits), **options)
    after = evaluate(new.labels, held_out, **options)
    metadata = {"data": _digest(new), "old_data": None if before_samples is None else _digest(before_samples)}
    refitted = refit(fitted, new, final, before_samples, random_state)
    return Recalibration(refitted, final, len(new), before, after, _worse(before, after), metadata)


@dataclass(frozen=True, eq=False)
class RecalibratedFile:
    """The result of a recalibration, the path of the new file, and the path of the old calibrator."""

    result: Recalibration
    path: Path
    old_path: Path


def recalibrate_file(
    path: str | os.PathLike[str],
    logits: AnyArray,
    y: AnyArray,
    output: str | os.PathLike[str] | None = None,
    *,
    on_compared: Callable[[Recalibration], None] | None = None,
    **options: Any,
) -> RecalibratedFile:
    """Recalibrate the file `path`, and write the new calibrator to a file.

    The new file is `output`, or ``cal-2.safetensors`` beside ``cal.safetensors`` (3, 4, … where that exists). If `output` is
    `path` itself, the old calibrator moves to the first free such name before. Nothing else that exists is replaced. The
    new file holds the per-sample calibrator: a windowed one needs perturbed samples, so it is left out.
    """
    source = Path(path)
    target = next_name(source) if output is None else Path(output)
    in_place = target.resolve() == source.resolve()
    if target.exists() and not in_place:
        raise InputError(
            f"output must be a new file or the calibrator itself; {str(target)!r} exists. Choose another name."
        )
    file = load_file(source)
    result = recalibrate(file, logits, y, **options)
    if on_compared is not None:  # the comparison is worth reading also where the result is refused
        on_compared(result)
    result.check()
    metadata = dict(file.metadata)
    record = {"from": sha256_file(source), **result.to_dict()}
    metadata["recalibrations"] = [*metadata.get("recalibrations", []), record]
    baselines = {name: other for name, other in file.others.items() if not other.needs_window}
    old_path = _keep(source) if in_place else source
    return RecalibratedFile(result, save(result.calibrator, target, metadata=metadata, others=baselines), old_path)


def next_name(path: Path) -> Path:
    """The first free name: ``cal-2.safetensors``, ``cal-3.safetensors``, …"""
    number = 2
    while (name := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    return name


def _keep(path: Path) -> Path:
    """A copy of `path` under a free name, on the disk before anything replaces it."""
    while True:
        copy = next_name(path)
        try:
            with open(copy, "xb") as file:
                file.write(path.read_bytes())
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:  # another process was faster
            continue
        return copy


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


def _weight(weight: float | str) -> float | None:
    """The weight as a number, None for "auto"."""
    if weight == "auto":
        return None
    try:
        number = float(weight)
    except ValueError:
        number = np.nan
    if not 0 <= number <= 1:
        raise InputError(
            f"weight must be 'auto' or a number from 0 (old map) to 1 (new samples alone); it is {weight!r}."
        )
    return number


def _folds(n_samples: int, groups: AnyArray, random_state: int) -> tuple[Array, Array | None]:
    """The fold of each sample, groups kept together; and the groups as an array."""
    units = None if groups is None else validation.as_array(groups, "groups").reshape(-1)
    if units is not None and len(units) != n_samples:
        raise InputError(
            f"groups must name one group per sample; there are {n_samples} samples and {len(units)} groups."
        )
    member = np.arange(n_samples) if units is None else np.unique(units, return_inverse=True)[1]
    count = int(member.max(initial=-1)) + 1
    if n_samples < MIN_SAMPLES or count < N_FOLDS:
        raise InputError(
            f"recalibrating needs at least {MIN_SAMPLES} labelled samples in {N_FOLDS} groups, or better cannot be told from worse; "
            f"there are {n_samples} samples in {count}. Collect more labels."
        )
    order = np.random.default_rng(random_state).permutation(count)
    return (order % N_FOLDS)[member], units


def _best_weight(
    fitted: Calibrator, new: LabelledColumns, fold: Array, old: LabelledColumns | None, random_state: int
) -> float:
    """The weight with the lowest squared error on held-out samples; the smaller one of equals."""
    errors = []
    for weight in WEIGHTS:
        total = 0.0
        for k in np.unique(fold):
            refitted = refit(fitted, new.take(fold != k), weight, old, random_state)
            p = refitted.predict_proba(new.logits[fold == k])
            total += float(np.square(p).sum() - 2 * p[np.arange(len(p)), new.labels[fold == k]].sum())
        errors.append(total)
    return WEIGHTS[int(np.argmin(errors))]


def _worse(before: Evaluation, after: Evaluation) -> tuple[str, ...]:
    worse = []
    for name, words in (("brier", "the Brier score rises"), ("nll", "the negative log-likelihood rises")):
        old, new = getattr(before, name), getattr(after, name)
        if new > old:
            worse.append(f"{words} from {old:.4g} to {new:.4g}")
    rise, between = difference(after, before, "ece")
    if rise > 0 and between.low > 0:
        worse.append(f"the ECE rises from {before.ece:.4g} to {after.ece:.4g}")
    drop, between = difference(before, after, "accuracy")
    if drop > 0 and between.low > 0:
        worse.append(f"the accuracy falls from {before.accuracy:.4g} to {after.accuracy:.4g}")
    return tuple(worse)


def _figures(evaluation: Evaluation) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in METRICS:
        value, interval = float(getattr(evaluation, name)), evaluation.intervals[name]
        values[name] = value if np.isfinite(value) else None
        ends = [float(interval.low), float(interval.high)]
        values[f"{name}_interval"] = ends if np.isfinite(ends).all() else None
    return values


def _digest(samples: LabelledColumns) -> str:
    return fingerprint({"logits": samples.logits, "labels": samples.labels})
