"""The state of a search for perturbation levels: measured accuracies, targets, cost and notes; and its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.core.labels import as_columns, check_range
from driftcal.core.validation import as_array, as_logits
from driftcal.errors import InputError, LabelsError
from driftcal.types import AnyArray, Array, Indices, Labels, Logits

#: ``evaluate(level, indices) -> logits`` of these samples (None: all), or their accuracy where there are no labels.
Evaluate = Callable[[float, Indices | None], Any]


@dataclass(frozen=True)
class PerturbationLevel:
    """One level: its ε, the accuracy it should have, the accuracy it has, and the passes spent on it."""

    epsilon: float
    target: float
    accuracy: float
    standard_error: float
    passes: float


@dataclass(frozen=True, repr=False)
class PerturbationLevels:
    """The levels that :func:`find_levels` found, and what they cost.

    `logits` holds the model's logits at each level, in order (empty when `evaluate` returned accuracies).
    `passes` is (samples evaluated) / n_samples, including the passes for the logits.
    """

    levels: tuple[PerturbationLevel, ...]
    passes: float
    solver: str
    notes: tuple[str, ...] = ()
    logits: tuple[Logits, ...] = ()

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The ε of each level, 0 first."""
        return tuple(level.epsilon for level in self.levels)

    def __repr__(self) -> str:
        lines = [
            f"  {i:>2}  ε {level.epsilon:<11.5g} target {level.target:.3f}  accuracy {level.accuracy:.3f} "
            f"± {level.standard_error:.3f}  passes {level.passes:.4g}"
            for i, level in enumerate(self.levels)
        ]
        heading = f"{len(self.levels)} perturbation levels in {self.passes:.4g} passes ({self.solver})"
        return "\n".join([heading, *lines, *(f"  note: {note}" for note in self.notes)])


class LevelSearch:
    """Accuracies measured on all samples, each level once; the target accuracies; notes for the user.

    Labels become columns at the first evaluation, when the number of classes is known.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        labels: AnyArray | None,
        *,
        classes: Sequence[Any] | None,
        n_levels: int,
        n_classes: int | None,
        n_samples: int | None,
        tolerance: float,
        first_level: float,
        max_level: float,
    ) -> None:
        if labels is None and (n_classes is None or n_samples is None):
            raise InputError(
                "n_classes and n_samples must be given when there are no labels (evaluate then returns accuracies); "
                f"got n_classes={n_classes}, n_samples={n_samples}. Give them, or give labels."
            )
        if labels is not None:
            shape = as_array(labels, "labels", LabelsError).shape
            if not shape or shape[0] == 0:
                raise LabelsError(f"labels must hold one label per sample; their shape is {shape}. Pass an array (n,).")
            n_samples = shape[0]
        self._user_labels, self._classes = labels, classes
        self.columns: Labels | None = None  # of the labels, after the first evaluation
        self.n_samples = int(n_samples or 1)
        self.n_levels, self.n_classes = n_levels, n_classes
        self.tolerance = max(tolerance, 1 / self.n_samples)  # one sample is the smallest step
        self.first_level, self.max_level = first_level, max_level
        self.subsample: Indices | None = None
        self.passes, self.notes, self.targets = 0.0, list[str](), list[float]()
        self._evaluate = evaluate
        self.passes_per_target: dict[int, float] = {}
        self.accuracies: dict[float, float] = {}
        self.logits: dict[float, Array] = {}

    @property
    def chance(self) -> float:
        """Accuracy of a random guess: 1 / classes."""
        return 1 / (self.n_classes or 1)

    @property
    def clean_accuracy(self) -> float:
        """Accuracy at level 0."""
        return self.accuracies[0.0]

    def standard_error(self, accuracy: float) -> float:
        """Standard error of an accuracy measured on all samples."""
        return math.sqrt(max(accuracy * (1 - accuracy), 0) / self.n_samples)

    def is_at_chance(self) -> bool:
        """Whether the clean accuracy is at chance already; adds a note if it is."""
        if self.clean_accuracy > self.chance + self.tolerance:
            return False
        self.notes.append(
            f"the model is at chance without any noise (accuracy {self.clean_accuracy:.3f}, chance {self.chance:.3f}): "
            "accuracy cannot fall, so only the clean level is used"
        )
        return True

    def note_single_class(self) -> None:
        """Add a note if all labels are one class."""
        if self.columns is not None and len(np.unique(self.columns)) == 1:
            self.notes.append(
                "all samples have the same label: accuracy only says how often the model predicts that class, "
                "and may rise with noise"
            )

    def measure(self, level: float, target: int = 0) -> float:
        """Accuracy at a level over all samples, evaluated once; `target` is the number of the target that it is for."""
        if level not in self.accuracies:
            logits, self.accuracies[level] = self._measure(level, None)
            if logits is not None:
                self.logits[level] = logits
            self.passes_per_target[target] = self.passes_per_target.get(target, 0.0) + 1
            self._drop_unused_logits()
        return self.accuracies[level]

    def measure_on(self, indices: Indices, level: float) -> float:
        """Accuracy at a level over some samples."""
        return self._measure(level, indices)[1]

    def _measure(self, level: float, indices: Indices | None) -> tuple[Array | None, float]:
        """The logits if they are those of all samples, and the accuracy."""
        output = np.asarray(self._evaluate(level, indices))
        n_evaluated = self.n_samples if indices is None else len(indices)
        self.passes += n_evaluated / self.n_samples
        if self._user_labels is None:
            if output.ndim or not 0 <= float(output) <= 1:
                raise InputError(
                    f"evaluate must return an accuracy from 0 to 1 when there are no labels; got {output!r}. "
                    "To return logits, give labels."
                )
            return None, float(output)
        if output.ndim != 2 or len(output) != n_evaluated:
            raise InputError(
                f"evaluate must return logits ({n_evaluated}, classes); got shape {output.shape}. "
                "Return the logits of each of the samples at `indices`."
            )
        scores, _ = as_logits(output)  # a single column is the log-odds of class 1
        if self.columns is None:
            self.columns, _ = as_columns(self._user_labels, scores.shape[1], self.n_samples, classes=self._classes)
            check_range(self.columns, scores.shape[1])
        if self.n_classes is None:
            self.n_classes = scores.shape[1]
        columns = self.columns if indices is None else self.columns[indices]
        return (output if indices is None else None), float(np.mean(scores.argmax(axis=1) == columns))

    def best_for(self, target: float) -> float:
        """The evaluated level whose accuracy is nearest to a target; for the last one, the lowest within tolerance."""
        if self.targets and target == self.targets[-1] and len(self.targets) > 1:
            limit = max(target + self.tolerance, min(self.accuracies.values()))
            if limit > target + self.tolerance:  # the target is out of reach: accept the lowest accuracy plus tolerance
                limit += self.tolerance
            return min(level for level, accuracy in self.accuracies.items() if accuracy <= limit)
        return min(self.accuracies, key=lambda level: (abs(self.accuracies[level] - target), level))

    def is_met(self, i: int) -> bool:
        """Whether an evaluated level is within tolerance of target i."""
        return abs(self.accuracies[self.best_for(self.targets[i])] - self.targets[i]) <= self.tolerance

    def _drop_unused_logits(self) -> None:
        """Drop the logits that no target will use."""
        if self.targets:
            used = {self.best_for(target) for target in self.targets} | {0.0}
            # later evaluations may move the last target to any level whose accuracy is at least as low
            lowest = self.accuracies[self.best_for(self.targets[-1])]
            used |= {level for level, accuracy in self.accuracies.items() if accuracy <= lowest}
            self.logits = {level: logits for level, logits in self.logits.items() if level in used}

    def set_targets(self, plateau: float) -> None:
        """Space the targets down to chance or, if chance is more than one step out of reach, down to the plateau."""
        step = (self.clean_accuracy - self.chance) / (self.n_levels - 1)
        lowest_target = self.chance
        if plateau > self.chance + self.tolerance:
            respace = plateau > self.chance + step
            lowest_target = plateau if respace else self.chance
            consequence = (
                "targets are spaced down to it instead" if respace else "the last level is the lowest that reaches it"
            )
            self.notes.append(
                f"chance ({self.chance:.3f}) is out of reach: accuracy stops falling at {plateau:.3f}; {consequence}"
            )
        self.targets = [float(target) for target in np.linspace(self.clean_accuracy, lowest_target, self.n_levels)]
        self._drop_unused_logits()

    def result(self, solver: str) -> PerturbationLevels:
        """The best evaluated level for each target."""
        levels, logits = [], []
        for i, target in enumerate(self.targets):
            level = 0.0 if i == 0 else self.best_for(target)
            accuracy = self.accuracies[level]
            passes = self.passes_per_target.get(i, 0.0)
            levels.append(PerturbationLevel(level, target, accuracy, self.standard_error(accuracy), passes))
            if level in self.logits:
                logits.append(self.logits[level])
            if i and abs(accuracy - target) > self.tolerance and i < len(self.targets) - 1:
                self.notes.append(f"level {i} is {accuracy - target:+.3f} from its target: accuracy jumps over it")
        highest = max(self.accuracies.values())
        if highest > self.clean_accuracy + max(self.tolerance, 2 * self.standard_error(self.clean_accuracy)):
            peak = max(self.accuracies, key=lambda level: self.accuracies[level])
            self.notes.append(
                f"accuracy rises with noise, to {highest:.3f} at ε {peak:.4g}; the levels are on its falling side"
            )
        return PerturbationLevels(tuple(levels), self.passes, solver, tuple(self.notes), tuple(logits))
