"""What an experiment is, and the words they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from driftcal.paper.cases import Case
from driftcal.paper.outcome import Outcome
from driftcal.paper.workbench import Workbench
from driftcal.shifts.shift import Shift


@dataclass(frozen=True)
class Experiment:
    """`paper` is where it stands there. Beside the ladder and the suite it may need the `other` settings' ladder, the
    `corruptions` of -H tuning, a ladder of `varied` drift, more `suites` than the case's own, a look `inside` networks that
    allow it, or data of its own.
    """

    name: str
    title: str
    paper: str
    run: Callable[[Workbench], Outcome]
    other: bool = False
    corruptions: bool = False
    objectnet: bool = False
    ood: bool = False
    varied: bool = False
    inside: bool = False
    suites: Callable[[Case], Mapping[str, Sequence[Shift]]] | None = None

    def lacks(self, cases: Sequence[Case]) -> str:
        """Why these cases do not allow it; "" when they do."""
        if self.objectnet and all(case.objectnet is None for case in cases):
            return "needs ObjectNet and a network with ImageNet's outputs: --data imagenet=DIR --data objectnet=DIR"
        return ""


def label(name: str) -> str:
    """A calibrator as tables write it.

    >>> label("ts-ir-p"), label("base")
    ('TS-IR-P', 'Base')
    """
    return "Base" if name == "base" else name.upper()


def with_suffix(methods: Iterable[str], *tunings: str) -> list[str]:
    """Base, then every method with every suffix: the columns of a table.

    >>> with_suffix(["ts", "ir"], "", "-p")
    ['base', 'ts', 'ir', 'ts-p', 'ir-p']
    """
    listed = list(methods)
    return ["base", *(f"{method}{tuning}" for tuning in tunings for method in listed)]


def headings(names: Iterable[str]) -> dict[str, str]:
    """Columns of a table for these calibrators."""
    return {name: label(name) for name in names}
