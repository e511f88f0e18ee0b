"""New labels for an old calibrator: refit on a blend of what it knew and what they say, and prove that nothing got worse."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator, Identity
from driftcal.calibrators.serialization import load, notes
from driftcal.core import validation
from driftcal.errors import InputError, NotFittedError, WouldBeWorse
from driftcal.io.fingerprint import fingerprint, sha256_file
from driftcal.metrics import Evaluation, difference, evaluate
from driftcal.pipeline.blend import Pair, check_classes, checked_pair, class_names, refit
from driftcal.types import AnyArray, Array

#: Fewer labelled rows cannot tell better from worse.
FEWEST_ROWS = 50
#: Every new row is judged by a fit that has not seen its fold.
FOLDS = 5
#: What `weight="auto"` tries.
WEIGHTS = (0.1, 0.25, 0.5, 0.75, 1.0)
#: Bootstrap samples behind the intervals.
DRAWS = 1000
#: What is said before and after.
METRICS = ("ece", "brier", "nll", "accuracy")


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A refitted calibrator beside the old one, both judged on rows of the new data that the refit had not seen.

    `before` and `after` are evaluations of these rows, `worse` says in words what got worse; `save` refuses then.
    """

    calibrator: Calibrator
    weight: float
    rows: int
    before: Evaluation
    after: Evaluation
    worse: tuple[str, ...]
    about: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "weight": self.weight,
            "rows": self.rows,
            "folds": FOLDS,
            "before": _numbers(self.before),
            "after": _numbers(self.after),
            "worse": list(self.worse),
            **self.about,
        }

    def save(self, path: str | os.PathLike[str], *, notes: Mapping[str, Any] | None = None) -> Path:
        """Write the new calibrator to `path`, where nothing may lie; raise :class:`WouldBeWorse` if it is worse."""
        self.check()
        if Path(path).exists():
            raise InputError(f"output must be a new file; {str(path)!r} exists. Choose another name.")
        return self.calibrator.save(path, notes=notes)

    def check(self) -> None:
        """Raise :class:`WouldBeWorse` where the refit is worse than the old calibrator on held-out rows."""
        if self.worse:
            raise WouldBeWorse(
                f"on {self.rows} held-out rows the new calibrator must not be worse than the old one; {', '.join(self.worse)}. "
                "Nothing was written. Collect more labels, or give the new ones less weight."
            )


def recalibrate(
    calibrator: Calibrator | str | os.PathLike[str],
    logits: AnyArray,
    y: AnyArray,
    *,
    weight: float | str = 0.5,
    old: tuple[AnyArray, AnyArray] | None = None,
    groups: AnyArray = None,
    n_bins: int = 15,
    seed: int = 0,
) -> Recalibration:
    """Refit `calibrator` with new labelled logits, which get the share `weight` of all the weight.

    The other 1 − weight belongs to what the calibrator knew: the labelled logits `old`, where they are still at hand, or
    the calibrator itself. It then answers for the new rows' logits z, z/2, z/4 and z/8, as sure as the new rows and
    as unsure as drift may make them (half of the weight lies on z), and its probabilities are labels with weights:

        Σ_i [ w · loss(z_i, y_i) + (1 − w) · Σ_s a_s Σ_c p_old(c | s·z_i) · loss(s·z_i, c) ].

    So where new rows say nothing the old map stays. Weight 0 is the old map, weight 1 a fit to the new rows alone;
    "auto" takes the weight with the least cross-validated Brier score. Old and new are compared on new rows that the refit
    had not seen (5-fold; rows of one group stay together), where `weight` was chosen without them as well. The refit is
    `worse` if its Brier score or its negative log-likelihood rises there, or if its ECE certainly rises or its accuracy
    certainly falls (by the 95 % interval of the paired difference).

    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(900, 3))
    >>> y = np.argmax(logits / 3 + rng.gumbel(size=logits.shape), axis=1)
    >>> from driftcal import TemperatureScaling
    >>> before = TemperatureScaling().fit(logits[:300], np.argmax(logits[:300] + rng.gumbel(size=(300, 3)), axis=1))
    >>> new = recalibrate(before, logits[300:], y[300:])
    >>> new.worse, before.temperature_ < new.calibrator.temperature_ < 3.5
    ((), True)
    """
    fitted = _refittable(calibrator)
    names = class_names(calibrator, fitted)
    rows = checked_pair(fitted, logits, y, "logits", names)
    known = None if old is None else checked_pair(fitted, *old, "old logits", names)
    check_classes(fitted, rows[1], names)
    fold, units = _folds(len(rows[1]), groups, seed)
    chosen = _weight(weight)

    held_out = np.empty(rows[0].shape)
    for k in range(FOLDS):
        inside, outside = fold != k, fold == k
        part = (rows[0][inside], rows[1][inside])
        share = _best_weight(fitted, part, fold[inside], known, seed) if chosen is None else chosen
        held_out[outside] = refit(fitted, part, share, known, seed).predict_log_proba(rows[0][outside])
    final = _best_weight(fitted, rows, fold, known, seed) if chosen is None else chosen

    resampling = {"intervals": True, "n_resamples": DRAWS, "groups": units, "random_state": seed}
    options: dict[str, Any] = {"n_bins": n_bins, **resampling}
    before = evaluate(rows[1], fitted.predict_log_proba(rows[0]), **options)
    after = evaluate(rows[1], held_out, **options)
    about = {
        "data": fingerprint({"logits": rows[0], "labels": rows[1]}),
        "old_data": None if known is None else fingerprint({"logits": known[0], "labels": known[1]}),
    }
    refitted = refit(fitted, rows, final, known, seed)
    return Recalibration(refitted, final, len(rows[1]), before, after, _worse(before, after), about)


def recalibrate_file(
    path: str | os.PathLike[str],
    logits: AnyArray,
    y: AnyArray,
    output: str | os.PathLike[str] | None = None,
    *,
    on_compared: Callable[[Recalibration], None] | None = None,
    **options: Any,
) -> tuple[Recalibration, Path, Path]:
    """Recalibrate the file `path`; the result, where it was written, and where the old calibrator lies.

    The new file is `output`, or ``cal-2.safetensors`` beside ``cal.safetensors`` (3, 4, … where that exists). If `output` is
    `path` itself, the old calibrator moves to the first free such name before. Nothing else that exists is replaced.
    """
    source = Path(path)
    target = next_name(source) if output is None else Path(output)
    in_place = target.resolve() == source.resolve()
    if target.exists() and not in_place:
        raise InputError(
            f"output must be a new file or the calibrator itself; {str(target)!r} exists. Choose another name."
        )
    kept = notes(source)["notes"]
    result = recalibrate(source, logits, y, **options)
    if on_compared is not None:  # also where the result is refused the comparison is worth reading
        on_compared(result)
    result.check()
    record = {"from": sha256_file(source), **result.to_dict()}
    kept["recalibrations"] = [*kept.get("recalibrations", []), record]
    old = _keep(source) if in_place else source
    return result, result.calibrator.save(target, notes=kept), old


def next_name(path: Path) -> Path:
    """The first name that is free: ``cal-2.safetensors``, ``cal-3.safetensors``, …"""
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


def _refittable(given: Any) -> Calibrator:
    fitted = load(given) if isinstance(given, str | os.PathLike) else given
    if not isinstance(fitted, Calibrator):
        raise InputError(f"calibrator must be a calibrator or a file that holds one; it is a {type(given).__name__}.")
    if not fitted.__sklearn_is_fitted__():
        raise NotFittedError(
            "only a fitted calibrator can be recalibrated; this one is not. Call fit(logits, y) instead."
        )
    name = type(fitted).__name__
    if isinstance(fitted, Identity):
        raise InputError(f"{name} has nothing to refit. Tune another method on these rows instead.")
    for needed, what in (
        ("needs_features", "the model's features"),
        ("needs_levels", "rows of every level of the ladder"),
    ):
        if getattr(fitted, needed, False):
            raise InputError(f"{name} is fitted to {what}, labelled logits are not enough to refit it. Tune it again.")
    return fitted


def _weight(weight: float | str) -> float | None:
    """The weight as a number, None for "auto"."""
    if weight == "auto":
        return None
    try:
        number = float(weight)
    except ValueError:
        number = np.nan
    if not 0 <= number <= 1:
        raise InputError(f"weight must be 'auto' or a number from 0 (old map) to 1 (new rows alone); it is {weight!r}.")
    return number


def _folds(n: int, groups: AnyArray, seed: int) -> tuple[Array, Array | None]:
    """The fold of each row, groups kept together; and the groups as an array."""
    units = None if groups is None else validation.as_array(groups, "groups").reshape(-1)
    if units is not None and len(units) != n:
        raise InputError(f"groups must name one group per row; there are {n} rows and {len(units)} groups.")
    member = np.arange(n) if units is None else np.unique(units, return_inverse=True)[1]
    count = int(member.max(initial=-1)) + 1
    if n < FEWEST_ROWS or count < FOLDS:
        raise InputError(
            f"recalibrating needs at least {FEWEST_ROWS} labelled rows in {FOLDS} groups, or better cannot be told from worse; there are "
            f"{n} rows in {count}. Collect more labels."
        )
    order = np.random.default_rng(seed).permutation(count)
    return (order % FOLDS)[member], units


def _best_weight(fitted: Calibrator, rows: Pair, fold: Array, known: Pair | None, seed: int) -> float:
    """The weight with the least squared error on rows that the fit has not seen; the smaller one of equals."""
    errors = []
    for weight in WEIGHTS:
        total = 0.0
        for k in np.unique(fold):
            refitted = refit(fitted, (rows[0][fold != k], rows[1][fold != k]), weight, known, seed)
            p = refitted.predict_proba(rows[0][fold == k])
            total += float(np.square(p).sum() - 2 * p[np.arange(len(p)), rows[1][fold == k]].sum())
        errors.append(total)
    return WEIGHTS[int(np.argmin(errors))]


def _worse(before: Evaluation, after: Evaluation) -> tuple[str, ...]:
    found = []
    for name, words in (("brier", "the Brier score rises"), ("nll", "the negative log-likelihood rises")):
        old, new = getattr(before, name), getattr(after, name)
        if new > old:
            found.append(f"{words} from {old:.4g} to {new:.4g}")
    rise, between = difference(after, before, "ece")
    if rise > 0 and between.low > 0:
        found.append(f"the ECE rises from {before.ece:.4g} to {after.ece:.4g}")
    drop, between = difference(before, after, "accuracy")
    if drop > 0 and between.low > 0:
        found.append(f"the accuracy falls from {before.accuracy:.4g} to {after.accuracy:.4g}")
    return tuple(found)


def _numbers(evaluation: Evaluation) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in METRICS:
        value, interval = float(getattr(evaluation, name)), evaluation.intervals[name]
        values[name] = value if np.isfinite(value) else None
        ends = [float(interval.low), float(interval.high)]
        values[f"{name}_interval"] = ends if np.isfinite(ends).all() else None
    return values
