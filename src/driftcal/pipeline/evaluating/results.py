"""The results of an evaluation: one row per calibrator, shift and level, and everything needed to repeat it.

``run/results.json`` holds all of it. Reports and tables need this file only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from driftcal.core.display import Displayed, plot
from driftcal.core.messages import counted
from driftcal.errors import ArtefactError, UnknownName, need
from driftcal.io.atomic import write_atomic
from driftcal.io.damaged_file import as_artefact_error
from driftcal.pipeline.evaluating.results_file import check_results, read_results, results_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORMAT, _VERSION = "driftcal-results", 2

#: The level of a row that pools all levels of its shift, level 0 included: its ECE is the micro-averaged one.
POOLED = "all"
#: The suite, and the shift, of an evaluation on the data as they are.
IN_DOMAIN = "in domain"
#: The metrics of every row.
METRICS = ("ece", "accuracy", "confidence", "calibration_gap", "entropy", "nll", "brier", "mce", "debiased_ece")
#: The most calibrators in the text of results.
_MAX_LINES = 6
#: Fields of a row that are no single value.
PARTS = ("bins", "intervals", "decision", "accuracy_at_coverage")
#: What `CalibratorInfo.form` may be.
PER_SAMPLE, WINDOWED = "per-sample", "windowed"
#: What `CalibratorInfo.tuned_on` is for the uncalibrated model, and for a calibrator tuned without perturbed samples.
NOTHING, CLEAN_SAMPLES = "nothing", "clean samples"


@dataclass(frozen=True)
class ResultRow:
    """The metrics of one calibrator on one shift at one level; `level` is a number, or "all" for all of them pooled.

    `null_ece` is the ECE that a perfectly calibrated model with these confidences would show. `bins` holds weight,
    confidence and outcome summed per bin of confidence. `intervals` maps a metric to (low, high). `group` names a part
    of the data. `decision` is what the threshold of the model keeps: coverage, accuracy of the accepted (None without
    any), n_accepted. `accuracy_at_coverage` is the accuracy of the most confident 5 %, 10 %, … of the samples, in rows
    of level 0 and of all levels pooled.
    """

    calibrator: str
    shift: str
    level: float | str
    n_samples: int
    ece: float
    null_ece: float
    accuracy: float
    confidence: float
    calibration_gap: float
    entropy: float
    nll: float
    brier: float
    mce: float
    debiased_ece: float
    clipped: int
    bins: Mapping[str, Sequence[float]] = field(repr=False)
    intervals: Mapping[str, Sequence[float]] = field(default_factory=dict, repr=False)
    group: str | None = None
    decision: Mapping[str, Any] | None = field(default=None, repr=False)
    accuracy_at_coverage: Sequence[float] = field(default=(), repr=False)


@dataclass(frozen=True)
class CalibratorInfo:
    """A calibrator of the table: its method, its form and what it was tuned on.

    `tuned_on` is "nothing", "clean samples" or the name of the shift that perturbed the samples. `form` is "per-sample"
    or "windowed"; `window_size` belongs to the windowed form.
    """

    name: str
    label: str
    method: str
    tuned_on: str
    keeps_accuracy: bool
    temperature: float | None = None
    warnings: Sequence[str] = ()
    form: str = PER_SAMPLE
    window_size: int | None = None


@dataclass(frozen=True)
class ShiftInfo:
    """A shift of the suite, its levels in order, and the label of each level ("40°", "severity 3")."""

    name: str
    levels: Sequence[float]
    labels: Sequence[str]


@dataclass(frozen=True)
class CalibratorSummary:
    """One line of the headline table. Means and the worst value are over the shifts, each pooled over its levels.

    `mean_condition_ece` is the mean over single conditions (shift and level), where opposite errors cannot cancel.
    """

    calibrator: str
    in_domain_ece: float
    mean_ece: float
    worst_ece: float
    worst_shift: str
    mean_accuracy: float
    mean_nll: float
    mean_brier: float
    in_domain_accuracy: float
    mean_condition_ece: float


@dataclass(frozen=True)
class EceRatios:
    """The ECE of a calibrator divided by that of two baselines; None without the baseline or if its ECE is 0.

    `in_domain_to_ts` and `under_shift_to_ts` divide by plain temperature scaling, tuned on clean samples.
    `under_shift_to_best_p` divides by the calibrator with the suffix -P that has the lowest mean ECE under shift.
    """

    calibrator: str
    in_domain_to_ts: float | None
    under_shift_to_ts: float | None
    under_shift_to_best_p: float | None


@dataclass(frozen=True, repr=False)
class Results(Displayed):
    """All rows of an evaluation, what was evaluated, and how to repeat it.

    `metadata` holds plain values: title, seed, model, data and their fingerprints, versions, command. `perturbation` is
    the shift and the levels that the calibrator was tuned on.
    """

    suite: str
    n_bins: int
    calibrators: Sequence[CalibratorInfo]
    shifts: Sequence[ShiftInfo]
    rows: Sequence[ResultRow]
    perturbation: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """The headline table, at most nine lines: accuracy, ECE, and in brackets its ratio to that of temperature scaling."""
        if self.in_domain_only:
            return self._in_domain_text(max((len(info.label) for info in self.calibrators), default=0))
        shown = {info.name for info in self._main_calibrators()}
        width = max((len(info.label) for info in self.calibrators if info.name in shown), default=0)
        labels = {info.name: info.label for info in self.calibrators}
        lines = [
            f"ECE with {self.n_bins} bins (divided by that of TS); {counted(len(self.shifts), 'shift')} ({self.suite}), "
            "each pooled over its levels",
            f"{'':{width}}  {'in domain':15}  {'under shift':15}  {'accuracy':14}  worst shift",
        ]
        for line, ratios in zip(self.summary(), self.ratios(), strict=True):
            if line.calibrator not in shown:
                continue
            in_domain, under_shift = (
                f"{ece:.3f}" + (f" ({ratio:.2f})" if ratio is not None else "")
                for ece, ratio in (
                    (line.in_domain_ece, ratios.in_domain_to_ts),
                    (line.mean_ece, ratios.under_shift_to_ts),
                )
            )
            worst = f"{line.worst_ece:.3f} {line.worst_shift}"
            accuracy = f"{line.in_domain_accuracy:.3f}, {line.mean_accuracy:.3f}"
            lines.append(f"{labels[line.calibrator]:{width}}  {in_domain:15}  {under_shift:15}  {accuracy:14}  {worst}")
        if n_hidden := len(self.calibrators) - len(shown):
            lines.append(f"and {n_hidden} more calibrators: summary()")
        return "\n".join(lines)

    @property
    def in_domain_only(self) -> bool:
        """Whether no shift was evaluated, as for recorded scores."""
        return self.suite == IN_DOMAIN

    def _in_domain_text(self, width: int) -> str:
        lines = [f"ECE with {self.n_bins} bins on these samples, and its 95 % interval", f"{'':{width}}  ECE"]
        for info in self.calibrators:
            row = self.row(info.name, IN_DOMAIN, 0)
            interval = row.intervals.get("ece")
            text = f"{row.ece:.3f}" + ("" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]")
            lines.append(f"{info.label:{width}}  {text}  accuracy {row.accuracy:.3f}, Brier {row.brier:.3f}")
        return "\n".join(lines)

    def _main_calibrators(self) -> list[CalibratorInfo]:
        """All calibrators if they are few; else the uncalibrated model, temperature scaling, the tuned ones, the best -P."""
        if len(self.calibrators) <= _MAX_LINES:
            return list(self.calibrators)
        best_p = find_best_p(self.calibrators, self.summary())
        featured = (self.metadata.get("calibrator"), getattr(best_p, "name", None))
        scaling = find_temperature_scaling(self.calibrators)
        main = [
            info
            for info in self.calibrators
            if info is scaling or info.tuned_on == NOTHING or info.form == WINDOWED or info.name in featured
        ]
        return (main or list(self.calibrators))[:_MAX_LINES]

    def row(self, calibrator: str, shift: str, level: float | str = POOLED, group: str | None = None) -> ResultRow:
        """The row of one calibrator, shift, level and group.

        Parameters
        ----------
        calibrator, shift
            Their names.
        level
            The level of the shift; "all" pools them.
        group
            The group, None for all samples.
        """
        for row in self.rows:
            if (row.calibrator, row.shift, row.level, row.group) == (calibrator, shift, level, group):
                return row
        names = {f"{r.calibrator} / {r.shift} / {r.level}" for r in self.rows}
        raise UnknownName.of("result", f"{calibrator} / {shift} / {level}", names)

    @property
    def groups(self) -> list[str]:
        """The named parts of the data, in order."""
        return list(dict.fromkeys(row.group for row in self.rows if row.group is not None))

    def summary(self, group: str | None = None) -> list[CalibratorSummary]:
        """A line per calibrator: in domain and under shift."""
        return [self._summary(info.name, group) for info in self.calibrators]

    def _summary(self, name: str, group: str | None) -> CalibratorSummary:
        rows = [row for row in self.rows if (row.calibrator, row.group) == (name, group)]
        pooled = [row for row in rows if row.level == POOLED]
        conditions = [row for row in rows if row.level not in (POOLED, 0)]
        clean = next(row for row in rows if row.level == 0)
        worst = max(pooled, key=lambda row: row.ece)
        return CalibratorSummary(
            calibrator=name,
            in_domain_ece=clean.ece,
            mean_ece=fmean(row.ece for row in pooled),
            worst_ece=worst.ece,
            worst_shift=worst.shift,
            mean_accuracy=fmean(row.accuracy for row in pooled),
            mean_nll=fmean(row.nll for row in pooled),
            mean_brier=fmean(row.brier for row in pooled),
            in_domain_accuracy=clean.accuracy,
            mean_condition_ece=fmean(row.ece for row in conditions or [clean]),
        )

    def ratios(self, group: str | None = None) -> list[EceRatios]:
        """A line per calibrator: its ECE divided by that of temperature scaling and of the best -P."""
        return ece_ratios(self.calibrators, self.summary(group))

    def plot(self, *, metric: str = "ece", ax: Axes | None = None) -> Axes:
        """Draw a metric against the level of shift, mean over the shifts; return the axes.

        Parameters
        ----------
        metric
            One of `METRICS`, such as "ece" or "accuracy".
        ax
            Axes to draw into; None for a new figure.
        """
        axes: Axes = plot("plot_results", self, metric=metric, ax=ax)
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"format": _FORMAT, "version": _VERSION, **asdict(self)}

    def to_frame(self) -> Any:
        """A pandas frame with a line per row; intervals become columns such as ``ece_low`` and ``ece_high``."""
        pandas = need("pandas", "pandas")
        lines = []
        for row in self.rows:
            line = {f.name: getattr(row, f.name) for f in fields(row) if f.name not in PARTS}
            if row.decision is not None:
                line |= {"coverage": row.decision["coverage"], "accepted_accuracy": row.decision["accuracy"]}
            for name, (low, high) in row.intervals.items():
                line |= {f"{name}_low": low, f"{name}_high": high}
            lines.append(line)
        return pandas.DataFrame(lines)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``results.json`` into `folder`, atomically; returns its path."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        return write_atomic(path / "results.json", results_text(self.to_dict()).encode())

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Results:
        """The results in `folder`, which may also be the path of ``results.json``."""
        path = Path(folder)
        path = path / "results.json" if os.path.isdir(path) else path
        if not os.path.isfile(path):
            raise ArtefactError(
                f"{path} must hold the results of an evaluation; there is no such file. Run evaluate first."
            )
        with as_artefact_error(path, "must be results.json as evaluate writes it; it is not", "Evaluate again."):
            results = cls.from_dict(read_results(path))
            check_results(results)
            return results

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Results:
        """The results that `to_dict` wrote, of this version or an earlier one."""
        if values.get("format") == _FORMAT and values.get("version") == 1:
            values = _from_version_1(values)
        if values.get("format") != _FORMAT or values.get("version") != _VERSION:
            raise ValueError(f"format {values.get('format')!r}, version {values.get('version')!r}")
        return cls(
            suite=values["suite"],
            n_bins=values["n_bins"],
            calibrators=tuple(CalibratorInfo(**c) for c in values["calibrators"]),
            shifts=tuple(ShiftInfo(**s) for s in values["shifts"]),
            rows=tuple(ResultRow(**r) for r in values["rows"]),
            perturbation=values["perturbation"],
            metadata=values["metadata"],
        )


def find_temperature_scaling(calibrators: Sequence[CalibratorInfo]) -> CalibratorInfo | None:
    """Plain temperature scaling: tuned on clean samples."""
    return next((info for info in calibrators if (info.method, info.tuned_on) == ("ts", CLEAN_SAMPLES)), None)


def find_best_p(calibrators: Sequence[CalibratorInfo], summary: Sequence[CalibratorSummary]) -> CalibratorInfo | None:
    """The calibrator with the suffix -P (tuned on the perturbed validation set) and the lowest ECE under shift."""
    mean_ece = {line.calibrator: line.mean_ece for line in summary}
    candidates = [info for info in calibrators if info.name.casefold().endswith("-p") and info.name in mean_ece]
    return min(candidates, key=lambda info: mean_ece[info.name], default=None)


def ece_ratios(calibrators: Sequence[CalibratorInfo], summary: Sequence[CalibratorSummary]) -> list[EceRatios]:
    """The ratios of each line of a summary."""
    lines = {line.calibrator: line for line in summary}
    scaling, best_p = find_temperature_scaling(calibrators), find_best_p(calibrators, summary)
    ts_line = lines.get(scaling.name) if scaling else None
    best_p_line = lines.get(best_p.name) if best_p else None

    def ratio(line: CalibratorSummary, baseline: CalibratorSummary | None, metric: str) -> float | None:
        divisor = getattr(baseline, metric) if baseline is not None else 0.0
        return float(getattr(line, metric) / divisor) if divisor else None

    return [
        EceRatios(
            calibrator=line.calibrator,
            in_domain_to_ts=ratio(line, ts_line, "in_domain_ece"),
            under_shift_to_ts=ratio(line, ts_line, "mean_ece"),
            under_shift_to_best_p=ratio(line, best_p_line, "mean_ece"),
        )
        for line in summary
    ]


def _from_version_1(values: Mapping[str, Any]) -> dict[str, Any]:
    """Results of driftcal 0.1 under the current names."""
    current_names = {"rows": "n_samples", "ece_floor": "null_ece", "gap": "calibration_gap"}

    def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
        return {current_names.get(name, name): value for name, value in values.items()}

    tuned_on = {"clean rows": CLEAN_SAMPLES}
    return {
        **values,
        "version": _VERSION,
        "calibrators": [{**c, "tuned_on": tuned_on.get(c["tuned_on"], c["tuned_on"])} for c in values["calibrators"]],
        "rows": [renamed(row) | {"intervals": renamed(row["intervals"])} for row in values["rows"]],
        "perturbation": values["ladder"],
        "metadata": values["about"],
    }
