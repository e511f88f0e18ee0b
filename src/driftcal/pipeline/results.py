"""What an evaluation found: one row per calibrator, shift and level, and everything needed to repeat it.

``run/results.json`` is the whole of it; reports and tables are drawn from there and from nothing else.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from driftcal.errors import ArtefactError, UnknownName, need
from driftcal.files import write_atomic

_FORMAT, _VERSION = "driftcal-results", 1

#: The level of a row that pools all levels of its shift, level 0 included: its ECE is the micro-averaged one.
POOLED = "all"
#: The metrics every row carries.
METRICS = ("ece", "accuracy", "confidence", "gap", "entropy", "nll", "brier", "mce", "debiased_ece")


@dataclass(frozen=True)
class ResultRow:
    """The metrics of one calibrator on one shift at one level; `level` is a number, or "all" for all of them pooled.

    `bins` holds weight, confidence and outcome summed per bin of confidence: the reliability diagram and the
    distribution of confidence. `intervals` maps a metric to (low, high). `group` names a part of the data.
    """

    calibrator: str
    shift: str
    level: float | str
    rows: int
    ece: float
    ece_floor: float
    accuracy: float
    confidence: float
    gap: float
    entropy: float
    nll: float
    brier: float
    mce: float
    debiased_ece: float
    clipped: int
    bins: Mapping[str, Sequence[float]]
    intervals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    group: str | None = None


@dataclass(frozen=True)
class CalibratorInfo:
    """How a calibrator of the table came to be: `tuned_on` is "nothing", "clean rows" or the name of a ladder's shift."""

    name: str
    label: str
    method: str
    tuned_on: str
    keeps_accuracy: bool
    temperature: float | None = None
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class ShiftInfo:
    """A shift of the suite, its levels in order, and what each level means in words ("40°", "severity 3")."""

    name: str
    levels: Sequence[float]
    labels: Sequence[str]


@dataclass(frozen=True)
class Summary:
    """One line of the headline table. Means and the worst are over the shifts of the suite, each pooled over its levels."""

    calibrator: str
    in_domain_ece: float
    mean_ece: float
    worst_ece: float
    worst_shift: str
    mean_accuracy: float
    mean_nll: float
    mean_brier: float
    in_domain_accuracy: float


@dataclass(frozen=True, repr=False)
class Results:
    """All rows of an evaluation, what was evaluated and how to repeat it.

    `about` holds plain values: title, seed, model, data and their fingerprints, versions, command. `ladder` is
    Algorithm 1's outcome, one mapping per level with level, target, accuracy and standard error.
    """

    suite: str
    n_bins: int
    calibrators: Sequence[CalibratorInfo]
    shifts: Sequence[ShiftInfo]
    rows: Sequence[ResultRow]
    ladder: Mapping[str, Any] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """The headline table: what a notebook shows."""
        width = max(len(info.label) for info in self.calibrators)
        head = f"{len(self.shifts)} shifts ({self.suite}), each pooled over its levels; ECE with {self.n_bins} bins"
        labels = {info.name: info.label for info in self.calibrators}
        return "\n".join([head, f"{'':{width}}  in domain  under drift  worst", *(
            f"{labels[line.calibrator]:{width}}  {line.in_domain_ece:9.3f}  {line.mean_ece:11.3f}  {line.worst_ece:.3f} {line.worst_shift}"
            for line in self.summary()
        )])  # fmt: skip

    def row(self, calibrator: str, shift: str, level: float | str = POOLED, group: str | None = None) -> ResultRow:
        """The one row that these words name."""
        for row in self.rows:
            if (row.calibrator, row.shift, row.level, row.group) == (calibrator, shift, level, group):
                return row
        known = {f"{r.calibrator} / {r.shift} / {r.level}" for r in self.rows}
        raise UnknownName.of("result", f"{calibrator} / {shift} / {level}", known)

    @property
    def groups(self) -> list[str]:
        """The named parts of the data, in order."""
        return list(dict.fromkeys(row.group for row in self.rows if row.group is not None))

    def summary(self, group: str | None = None) -> list[Summary]:
        """A line per calibrator: in domain against drift."""
        return [self._summary(info.name, group) for info in self.calibrators]

    def _summary(self, name: str, group: str | None) -> Summary:
        pooled = [row for row in self.rows if (row.calibrator, row.level, row.group) == (name, POOLED, group)]
        clean = next(row for row in self.rows if (row.calibrator, row.level, row.group) == (name, 0, group))
        worst = max(pooled, key=lambda row: row.ece)
        return Summary(
            calibrator=name,
            in_domain_ece=clean.ece,
            mean_ece=_mean(row.ece for row in pooled),
            worst_ece=worst.ece,
            worst_shift=worst.shift,
            mean_accuracy=_mean(row.accuracy for row in pooled),
            mean_nll=_mean(row.nll for row in pooled),
            mean_brier=_mean(row.brier for row in pooled),
            in_domain_accuracy=clean.accuracy,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"format": _FORMAT, "version": _VERSION, **asdict(self)}

    def to_frame(self) -> Any:
        """A pandas frame with a line per row; intervals become columns such as ``ece_low`` and ``ece_high``."""
        pandas = need("pandas", "pandas")
        lines = []
        for row in self.rows:
            line = {f.name: getattr(row, f.name) for f in fields(row) if f.name not in ("bins", "intervals")}
            for name, (low, high) in row.intervals.items():
                line |= {f"{name}_low": low, f"{name}_high": high}
            lines.append(line)
        return pandas.DataFrame(lines)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``results.json`` into `folder`, atomically; returns its path."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_dict(), ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=float)
        return write_atomic(path / "results.json", text.encode())

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Results:
        """The results in `folder` (or in the file itself)."""
        path = Path(folder)
        path = path / "results.json" if path.is_dir() else path
        try:
            return cls.from_dict(json.loads(path.read_text()))
        except FileNotFoundError:
            raise ArtefactError(
                f"{path} must hold the results of an evaluation; there is no such file. Run evaluate first."
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtefactError(f"{path} must be results.json as evaluate writes it; it is not: {error}") from error

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Results:
        """What `to_dict` wrote."""
        if values.get("format") != _FORMAT or values.get("version") != _VERSION:
            raise ValueError(f"format {values.get('format')!r}, version {values.get('version')!r}")
        return cls(
            suite=values["suite"],
            n_bins=values["n_bins"],
            calibrators=tuple(CalibratorInfo(**c) for c in values["calibrators"]),
            shifts=tuple(ShiftInfo(**s) for s in values["shifts"]),
            rows=tuple(ResultRow(**r) for r in values["rows"]),
            ladder=values["ladder"],
            about=values["about"],
        )


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed)
