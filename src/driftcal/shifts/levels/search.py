"""The state of a search for levels: what was measured, what it cost, what is worth saying; and its result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.errors import InputError, LabelsError
from driftcal.types import AnyArray, Array

#: ``evaluate(level, rows) -> logits`` of these rows (None: all), or their accuracy when no labels are given.
Evaluate = Callable[[float, Array | None], Any]


@dataclass(frozen=True)
class Level:
    """One level: its ε, the accuracy it was to have, the one it has, and the passes spent aiming at it."""

    epsilon: float
    target: float
    accuracy: float
    standard_error: float
    passes: float


@dataclass(frozen=True, repr=False)
class PerturbationLevels:
    """The levels found, what they cost and what there is to know about them.

    `logits` holds what the model said at each level, in order (empty when `evaluate` returned accuracies).
    A pass is (samples evaluated) / n, the logits included.
    """

    levels: tuple[Level, ...]
    passes: float
    solver: str
    notes: tuple[str, ...] = ()
    logits: tuple[Array, ...] = ()

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The ε of each level, 0 first."""
        return tuple(level.epsilon for level in self.levels)

    def __repr__(self) -> str:
        rows = [
            f"  {i:>2}  ε {level.epsilon:<11.5g} target {level.target:.3f}  accuracy {level.accuracy:.3f} "
            f"± {level.standard_error:.3f}  passes {level.passes:.4g}"
            for i, level in enumerate(self.levels)
        ]
        head = f"Ladder of {len(self.levels)} levels in {self.passes:.4g} passes ({self.solver})"
        return "\n".join([head, *rows, *(f"  note: {note}" for note in self.notes)])


class Search:
    """Measurements on all rows, remembered; the targets they are for; notes."""

    def __init__(
        self, evaluate: Evaluate, labels: AnyArray | None, n_classes: int | None, n: int | None, tolerance: float
    ) -> None:
        self.labels = None if labels is None else np.asarray(labels)
        if self.labels is None and (n_classes is None or n is None):
            raise InputError("without labels, evaluate returns accuracies, and n_classes and n_samples must be given.")
        if self.labels is not None and (self.labels.ndim != 1 or len(self.labels) == 0):
            raise LabelsError(f"labels must be a row of class numbers; got shape {self.labels.shape}.")
        self.n = len(self.labels) if self.labels is not None else int(n or 1)
        self._evaluate, self.n_classes = evaluate, n_classes
        self.tolerance = max(tolerance, 1 / self.n)  # one sample is the smallest step
        self.passes, self.notes, self.targets = 0.0, list[str](), list[float]()
        self.spent: dict[int, float] = {}
        self.accuracy: dict[float, float] = {}
        self.logits: dict[float, Array] = {}

    @property
    def chance(self) -> float:
        """Accuracy of a guess: 1 / classes."""
        return 1 / (self.n_classes or 1)

    @property
    def clean(self) -> float:
        """Accuracy at level 0."""
        return self.accuracy[0.0]

    def standard_error(self, accuracy: float) -> float:
        """Of an accuracy measured on all rows."""
        return math.sqrt(max(accuracy * (1 - accuracy), 0) / self.n)

    def at_chance(self) -> bool:
        """Whether there is nothing to step down; says so."""
        if self.clean > self.chance + self.tolerance:
            return False
        self.notes.append(
            f"the model is at chance without any noise (accuracy {self.clean:.3f}, chance {self.chance:.3f}): "
            "there is nothing to step down, only the clean level is used"
        )
        return True

    def describe(self) -> None:
        """Note what is peculiar about the labels."""
        if self.labels is not None and len(np.unique(self.labels)) == 1:
            self.notes.append(
                f"all labels are {self.labels[0]}: accuracy only says how often the model answers that, "
                "and may rise with noise"
            )

    def measure(self, level: float, aim: int = 0) -> float:
        """Accuracy at a level over all rows, from memory if it was there before."""
        if level not in self.accuracy:
            answer, self.accuracy[level] = self._ask(level, None)
            if answer is not None:
                self.logits[level] = answer
            self.spent[aim] = self.spent.get(aim, 0.0) + 1
            self._forget()
        return self.accuracy[level]

    def sketch(self, level: float, rows: Array) -> float:
        """Accuracy at a level over some rows."""
        return self._ask(level, rows)[1]

    def _ask(self, level: float, rows: Array | None) -> tuple[Array | None, float]:
        answer = np.asarray(self._evaluate(level, rows))
        expected = self.n if rows is None else len(rows)
        self.passes += expected / self.n
        if self.labels is None:
            if answer.ndim or not 0 <= float(answer) <= 1:
                raise InputError(f"evaluate must return an accuracy when there are no labels; got {answer!r}.")
            return None, float(answer)
        if answer.ndim != 2 or len(answer) != expected:
            raise InputError(f"evaluate must return logits ({expected}, classes); got shape {answer.shape}.")
        if self.n_classes is None:
            self.n_classes = max(answer.shape[1], 2)
        labels = self.labels if rows is None else self.labels[rows]
        return (answer if rows is None else None), float(np.mean(answer.argmax(axis=1) == labels))

    def best_for(self, target: float) -> float:
        """The evaluated level nearest to a target; of those within tolerance of the last target, the lowest."""
        if self.targets and target == self.targets[-1] and len(self.targets) > 1:
            limit = max(target + self.tolerance, min(self.accuracy.values()))
            if limit > target + self.tolerance:  # out of reach: as good as the lowest, up to the tolerance
                limit += self.tolerance
            return min(level for level, a in self.accuracy.items() if a <= limit)
        return min(self.accuracy, key=lambda level: (abs(self.accuracy[level] - target), level))

    def met(self, i: int) -> bool:
        """Whether an evaluated level is within tolerance of target i."""
        return abs(self.accuracy[self.best_for(self.targets[i])] - self.targets[i]) <= self.tolerance

    def _forget(self) -> None:
        """Drop the logits no target will use."""
        if self.targets:
            wanted = {self.best_for(t) for t in self.targets} | {0.0}
            # the last target may yet move to any level at least as low as its present one
            low = self.accuracy[self.best_for(self.targets[-1])]
            wanted |= {level for level, accuracy in self.accuracy.items() if accuracy <= low}
            self.logits = {level: rows for level, rows in self.logits.items() if level in wanted}

    def space(self, n_levels: int, floor: float, lowest_level: float) -> None:
        """Set the targets, down to chance or, when that is out of reach by more than one step, down to `floor`."""
        step = (self.clean - self.chance) / (n_levels - 1)
        bottom = self.chance
        if floor > self.chance + self.tolerance:
            respace = floor > self.chance + step
            bottom = floor if respace else self.chance
            self.notes.append(
                f"chance ({self.chance:.3f}) is out of reach: accuracy stops falling at {floor:.3f} "
                f"(ε {lowest_level:.4g}); "
                + (
                    "targets are spaced down to it instead"
                    if respace
                    else "the last level is the lowest that reaches it"
                )
            )
        self.targets = [float(t) for t in np.linspace(self.clean, bottom, n_levels)]
        self._forget()

    def result(self, solver: str) -> PerturbationLevels:
        """The ladder: the best evaluated level for each target."""
        levels, kept = [], []
        for i, target in enumerate(self.targets):
            level = 0.0 if i == 0 else self.best_for(target)
            a = self.accuracy[level]
            levels.append(Level(level, target, a, self.standard_error(a), self.spent.get(i, 0.0)))
            if level in self.logits:
                kept.append(self.logits[level])
            if i and abs(a - target) > self.tolerance and i < len(self.targets) - 1:
                self.notes.append(f"level {i} is {a - target:+.3f} from its target: accuracy jumps over it")
        highest = max(self.accuracy.values())
        if highest > self.clean + max(self.tolerance, 2 * self.standard_error(self.clean)):
            at = max(self.accuracy, key=lambda level: self.accuracy[level])
            self.notes.append(
                f"accuracy rises with noise, to {highest:.3f} at ε {at:.4g}; levels are on its falling side"
            )
        return PerturbationLevels(tuple(levels), self.passes, solver, tuple(self.notes), tuple(kept))
