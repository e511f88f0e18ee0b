"""What `method="auto"` chooses from: every method on clean samples, and some of them also on shifted samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftcal.calibrators import CALIBRATORS, Calibrator, calibrator_class, make_calibrator
from driftcal.calibrators.parameters import check_true_or_false
from driftcal.core.scalars import is_number
from driftcal.errors import InputError
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.collecting.perturbation import PerturbedLogits
from driftcal.types import Labels

#: The clean weight of a fit on clean samples only.
CLEAN_ONLY = 1.0
#: The clean weights on the levels of Algorithm 1. None is the paper's 1/N.
LEVEL_WEIGHTS: tuple[float | None, ...] = (CLEAN_ONLY, 0.9, 0.5, None)
#: The clean weights on separate simulated shifts.
SIMULATED_WEIGHTS: tuple[float | None, ...] = (CLEAN_ONLY, 0.97, 0.95, 0.93, 0.9, 0.85, 0.8, 0.7, 0.5, 0.3)
#: The methods that are fitted on separate simulated shifts if none are named. The others were not better on the
#: validation data of benchmarks/accuracy/sample_choice.md, and PTS takes a hundred times as long.
SIMULATED_METHODS = ("ts", "hts")
#: With fewer validation samples per class, a map per class changes more predictions than it corrects (the paper's
#: experiment on the size of the validation set).
SAMPLES_PER_CLASS = 50
#: The largest product of samples and squared classes for Dirichlet calibration: above, it takes longer than all others.
MAX_MATRIX_WORK = 2e7
#: How much the in-domain ECE may exceed that of temperature scaling.
TOLERANCE = 0.015
#: The same for tables. Their drifts make some models more and others less confident, so one map gains less there, and small tables
#: make the in-domain ECE uncertain (benchmarks/accuracy/tabular.md).
TABLE_TOLERANCE = 0.005


@dataclass(frozen=True)
class Selection:
    """How ``method="auto"`` chooses.

    A candidate is admitted if its in-domain ECE is at most that of temperature scaling plus `tolerance`. The admitted
    candidate with the lowest ECE under shift is chosen. Plain temperature scaling is always a candidate.

    Parameters
    ----------
    keep_accuracy
        Only candidates that never change the predicted class.
    tolerance
        How much the in-domain ECE may exceed that of temperature scaling. None: 0.015, for tables 0.005.
    candidates
        Short names of methods. None: all methods that suit the data.
    """

    keep_accuracy: bool = True
    tolerance: float | None = None
    candidates: Sequence[str] | None = None

    def __post_init__(self) -> None:
        check_true_or_false("keep_accuracy", self.keep_accuracy)
        if self.candidates is not None:
            object.__setattr__(self, "candidates", _method_names(self.candidates))
        value = 0.0 if self.tolerance is None else self.tolerance
        if not (is_number(value) and value >= 0):
            raise InputError(
                f"tolerance must be an ECE of at least 0; it is {self.tolerance!r}. The default is {TOLERANCE:g}."
            )

    @property
    def limit(self) -> float:
        """The tolerance, or its default."""
        return TOLERANCE if self.tolerance is None else self.tolerance

    def for_inputs(self, kind: str) -> Selection:
        """This selection with the default tolerance of this kind of inputs, unless the user has set one."""
        return replace(self, tolerance=TABLE_TOLERANCE) if self.tolerance is None and kind == "features" else self


def _method_names(candidates: Any) -> tuple[str, ...]:
    """The short names among which a selection chooses, read once: an iterator is empty afterwards."""
    names = tuple(candidates) if isinstance(candidates, Iterable) and not isinstance(candidates, str) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"candidates must be a list of names of methods; it is {candidates!r}. Pass ['ts', 'hts'], or None for all that suit."
        )
    for name in names:
        calibrator_class(name)
    return names


@dataclass(frozen=True)
class Variant:
    """A method, and what it is tuned on.

    `clean_weight` is the share of the clean samples in all weight: 1 is clean samples only, None the paper's 1/N. The
    other samples are those of separate simulated shifts if `simulated`, otherwise those of the levels of Algorithm 1.
    """

    method: str
    clean_weight: float | None = CLEAN_ONLY
    simulated: bool = False

    @property
    def label(self) -> str:
        """The name of the variant in explanations."""
        name = self.method.upper()
        if not self.tuned_on_shift:
            return name
        share = "" if self.clean_weight is None else f" ({self.clean_weight:.0%} of the weight on clean ones)"
        return f"{name} tuned on clean and shifted samples{share}"

    @property
    def needs_window(self) -> bool:
        """Whether the method is windowed."""
        return CALIBRATORS[self.method].needs_window

    @property
    def tuned_on_shift(self) -> bool:
        """Whether it is a per-sample method that is tuned on shifted samples."""
        return not self.needs_window and self.clean_weight != CLEAN_ONLY


TS = Variant("ts")


def variants_of(
    selection: Selection,
    perturbed: PerturbedLogits,
    labels: Labels,
    clean_weight: float | None,
    features: CollectedFeatures,
) -> tuple[list[Variant], list[str]]:
    """Which variants are tried, and why others are not."""
    n_classes, n_levels, reasons = perturbed.clean.shape[1], len(perturbed.by_level), []
    rarest = int(np.bincount(labels, minlength=n_classes).min())
    names = [name for name in selection.candidates or CALIBRATORS if not CALIBRATORS[name].needs_features]
    if selection.candidates is None:
        names = [name for name in names if not CALIBRATORS[name].needs_window or name in default_windowed()]
    if n_levels == 1:  # without perturbed samples a windowed calibrator has nothing to follow
        names = [name for name in names if not CALIBRATORS[name].needs_window]
    if selection.keep_accuracy or rarest < SAMPLES_PER_CLASS:
        names = [name for name in names if CALIBRATORS[name].keeps_accuracy]
        if not selection.keep_accuracy:
            reasons.append(
                f"The rarest class has {rarest} validation samples, fewer than {SAMPLES_PER_CLASS}: methods with a map per class (IR, VS "
                "and others) were left out, because they would cost accuracy."
            )
    n_samples, n_parameters = n_levels * len(labels), n_classes**2
    # with fewer samples than parameters Dirichlet calibration fits a diagonal only, which is fast
    if "dirichlet" in names and n_samples >= n_parameters > MAX_MATRIX_WORK / n_samples:
        names.remove("dirichlet")
        reasons.append(f"DIRICHLET was left out: {n_classes}² numbers on {n_samples} samples take too long.")
    names += [
        name
        for name in features.methods
        if (selection.candidates is None or name in selection.candidates)
        and (CALIBRATORS[name].keeps_accuracy or not selection.keep_accuracy)
    ]
    if features.why_left_out:
        reasons.append(features.why_left_out)
    simulated = judged_on_simulated_shifts(perturbed, features)
    variants = [TS]
    for name in names:
        if CALIBRATORS[name].needs_window:
            variants.append(Variant(name, None))
            continue
        weights = SIMULATED_WEIGHTS if simulated else LEVEL_WEIGHTS
        if clean_weight is not None:
            weights = (CLEAN_ONLY, clean_weight)
        if (
            n_levels == 1
            or name == "base"
            or (simulated and selection.candidates is None and name not in SIMULATED_METHODS)
        ):
            weights = (CLEAN_ONLY,)
        variants += [Variant(name, weight, simulated and weight != CLEAN_ONLY) for weight in weights]
    return list(dict.fromkeys(variants)), reasons


def judged_on_simulated_shifts(perturbed: PerturbedLogits, features: CollectedFeatures) -> bool:
    """Whether per-sample candidates are fitted and judged on separate simulated shifts.

    They are if these were collected in more than one family. Layer features are collected at the levels only.
    """
    return perturbed.simulated is not None and len(set(perturbed.simulated.families)) > 1 and not features.methods


def uses_simulated_shifts(method: str | Calibrator | Selection) -> bool:
    """Whether a calibrator that may be fitted gains from separate simulated shifts.

    >>> uses_simulated_shifts("auto"), uses_simulated_shifts("ts")
    (True, False)
    """
    calibrator = method_calibrator(method)
    return calibrator is None or calibrator.uses_families


def default_windowed() -> list[str]:
    """The windowed candidates if none are named: those that are fitted on many simulated shifts."""
    return [name for name, kind in CALIBRATORS.items() if kind.needs_window and kind.uses_families]


def method_calibrator(method: str | Calibrator | Selection) -> Calibrator | None:
    """The unfitted calibrator that `method` names or is; None for a selection.

    >>> method_calibrator("ts"), method_calibrator("auto") is None
    (TemperatureScaling(), True)
    """
    if isinstance(method, Selection) or method == "auto":
        return None
    if isinstance(method, Calibrator):
        if method.__sklearn_is_fitted__():
            raise InputError(
                f"method must be an unfitted calibrator; this {type(method).__name__} is fitted. Pass sklearn.base.clone(calibrator)."
            )
        return method
    if not isinstance(method, str):
        raise InputError(
            f"method must be a name, an unfitted calibrator or a driftcal.Selection; it is a {type(method).__name__}."
        )
    return make_calibrator(method)
