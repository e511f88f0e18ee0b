"""What happens along the shifts: level by level, shift by shift, in domain, and to the accuracy."""

from __future__ import annotations

import numpy as np

from driftcal.paper.cases import Case
from driftcal.paper.experiments.captions import ECE, who_is_who
from driftcal.paper.experiments.experiment import headings, label, with_suffix
from driftcal.paper.experiments.means import shift_bars
from driftcal.paper.outcome import Bars, Lines, Outcome, Panel, Table, Value
from driftcal.paper.published import published_accuracy, where
from driftcal.paper.sweep import Sweep
from driftcal.paper.workbench import PAPER, Workbench

_COLUMNS = with_suffix(PAPER, "", "-p")
#: The shift the paper follows level by level.
_FOLLOWED = "shear"
#: Bins of confidence with fewer of all rows than this say nothing.
_LEAST_SHARE = 0.001


def one_shift(bench: Workbench) -> Outcome:
    """Accuracy, entropy and ECE at every level of one shift: shear, or the suite's first where it has none."""
    tables, figures = [], []
    metrics = {"accuracy": "accuracy", "entropy": "entropy, nats", "ece": "ECE"}
    for metric, words in metrics.items():
        rows: list[dict[str, Value]] = []
        for case in bench.cases:
            sweep, shift = bench.sweep(case), _followed(bench.sweep(case))
            for name in _COLUMNS:
                values = {f"level_{k}": v for k, v in enumerate(_along(sweep, name, shift, metric))}
                rows.append({"network": case.label, "calibrator": label(name), **values})
        levels = _level_labels(bench.sweep(bench.cases[0]), _followed(bench.sweep(bench.cases[0])))
        columns = {"network": "Network", "calibrator": "Calibrator"}
        columns |= {f"level_{k}": words for k, words in enumerate(levels)}
        tables.append(Table(f"shear-{metric}", f"{words[0].upper()}{words[1:]} by level of the shift", columns, rows))
    for case in bench.cases:
        sweep = bench.sweep(case)
        shift = _followed(sweep)
        shown = with_suffix(PAPER, "")
        ticks = _level_labels(sweep, shift)
        panels = [
            Panel(
                words,
                range(len(ticks)),
                {label(name): _along(sweep, name, shift, metric) for name in shown},
                f"level of {shift}",
                words,
                ticks=ticks,
            )
            for metric, words in metrics.items()
        ]
        figures.append(
            Lines(
                f"shear-{case.name}",
                f"{case.label}: {shift}, calibrators tuned on clean images",
                f"From left to right the images are drifted more and more by {shift}. Where accuracy falls and the ECE rises, stated "
                "confidence falls more slowly than accuracy, or not at all. Entropy is how spread out the stated probabilities are: 0 is "
                f"certain. Methods that keep the accuracy lie on one line. {who_is_who(shown)} {ECE}",
                panels,
            )
        )
    return Outcome("shear", "One shift, level by level", tables, figures, [bench.settings.describe() + "."])


def ece_per_shift(bench: Workbench) -> Outcome:
    """The micro-averaged ECE of each shift."""
    rows: list[dict[str, Value]] = []
    for case in bench.cases:
        sweep = bench.sweep(case)
        for shift in sweep.results.shifts:
            row: dict[str, Value] = {"network": case.label, "shift": shift.name}
            for name in _COLUMNS:
                found = sweep.row(name, shift.name)
                row[name] = found.ece
                if "ece" in found.intervals:
                    row[f"{name}_low"], row[f"{name}_high"] = found.intervals["ece"]
            rows.append(row)
    table = Table(
        "per-shift",
        "ECE of each shift, pooled over its levels",
        {"network": "Network", "shift": "Shift", **headings(_COLUMNS)},
        rows,
        compare=_COLUMNS,
    )
    figures = [shift_bars(bench, case, f"per-shift-{case.name}", "ece", _COLUMNS, "ECE") for case in bench.cases]
    wins = [_wins(bench.sweep(case), case) for case in bench.cases]
    return Outcome("per-shift", "ECE shift by shift", [table], figures, wins)


def ece_by_level(bench: Workbench) -> Outcome:
    """ECE and accuracy at each level, averaged over the shifts."""
    tables, figures = [], []
    for metric, words in (("ece", "ECE"), ("accuracy", "Accuracy")):
        rows: list[dict[str, Value]] = []
        for case in bench.cases:
            sweep = bench.sweep(case)
            for level in _levels(sweep):
                values = {name: _at(sweep, name, level, metric) for name in _COLUMNS}
                rows.append({"network": case.label, "level": int(level), **values})
        tables.append(
            Table(
                "by-level" if metric == "ece" else "by-level-accuracy",
                f"{words} by level of drift, averaged over the shifts",
                {"network": "Network", "level": "Level", **headings(_COLUMNS)},
                rows,
                compare=_COLUMNS,
                highest=metric == "accuracy",
            )
        )
    for case in bench.cases:
        sweep = bench.sweep(case)
        levels = _levels(sweep)
        panels = [
            Panel(
                words,
                levels,
                {label(name): [_at(sweep, name, level, metric) for level in levels] for name in _COLUMNS},
                "level of drift, 0 is none",
                words,
                ticks=[f"{level:g}" for level in levels],
            )
            for metric, words in (("ece", "ECE"), ("accuracy", "accuracy"))
        ]
        figures.append(
            Lines(
                f"by-level-{case.name}",
                f"{case.label}: mean over {len(sweep.shifts())} shifts, level by level",
                "ECE (left, lower is better) and accuracy (right) at each level of drift, averaged over the shifts. Dashed and "
                "hollow: tuned on clean images; solid and filled: tuned on noise (-P). Methods that keep the accuracy lie on one line. "
                f"{who_is_who(_COLUMNS)} {ECE}",
                panels,
            )
        )
    return Outcome("by-level", "ECE and accuracy by level of drift", tables, figures, [bench.settings.describe() + "."])


def reliability(bench: Workbench) -> Outcome:
    """Confidence against accuracy of all shifts and levels together."""
    rows: list[dict[str, Value]] = []
    figures = []
    for case in bench.cases:
        sweep = bench.sweep(case)
        curves: dict[str, list[float | None]] = {}
        centres: list[float] = []
        for name in _COLUMNS:
            weight, confidence, outcome = _pooled_bins(sweep, name)
            total, n_bins = weight.sum(), len(weight)
            sure = slice(round(0.8 * n_bins), None)  # 0.8 is an edge of 10 and of 15 bins
            rows.append(
                {
                    "network": case.label,
                    "calibrator": label(name),
                    "confidence": float(confidence.sum() / total),
                    "accuracy": float(outcome.sum() / total),
                    "gap": float((confidence - outcome).sum() / total),
                    "sure": float(weight[sure].sum() / total),
                    "right": float(outcome[sure].sum() / weight[sure].sum()) if weight[sure].sum() else None,
                }
            )
            centres = [(k + 0.5) / n_bins for k in range(n_bins)]
            seen = weight / total >= _LEAST_SHARE
            curves[label(name)] = [float(o / w) if s else None for o, w, s in zip(outcome, weight, seen, strict=True)]
        figures.append(
            Lines(
                f"teaser-{case.name}",
                f"{case.label}: how often the model is right, by how sure it is",
                "All shifts and levels together; each mark is a bin of confidence. On the dotted diagonal confidence is honest; below it "
                "the model is surer than it is right. Dashed and hollow: tuned on clean images; solid and filled: tuned on noise "
                f"(-P). {who_is_who(_COLUMNS)}",
                [
                    Panel(
                        "all shifts and levels", centres, curves, "stated confidence", "accuracy",
                        diagonal=True, y_limits=(0.0, 1.0),
                    )
                ],
            )
        )  # fmt: skip
    table = Table(
        "teaser",
        "Stated confidence and accuracy over all shifts and levels",
        {
            "network": "Network",
            "calibrator": "Calibrator",
            "confidence": "Mean confidence",
            "accuracy": "Accuracy",
            "gap": "Confidence − accuracy",
            "sure": "Share of answers with more than 0.8",
            "right": "Of those right",
        },
        rows,
    )
    return Outcome("teaser", "Confidence against accuracy under drift", [table], figures)


def accuracy_lost(bench: Workbench) -> Outcome:
    """Accuracy in domain and at the strongest level of each shift; then what calibrators that may change answers do to it."""
    rows: list[dict[str, Value]] = []
    for case in bench.cases:
        sweep, printed = bench.sweep(case), published_accuracy(case.data)
        for shift in sweep.results.shifts:
            row: dict[str, Value] = {"network": case.label, "shift": shift.name, "clean": sweep.clean("base").accuracy}
            row["worst"] = sweep.row("base", shift.name, shift.levels[-1]).accuracy
            row["paper_clean"], row["paper_worst"] = printed.get(shift.name, (None, None))
            rows.append(row)
    columns = {"network": "Network", "shift": "Shift", "clean": "In domain", "worst": "Strongest level"}
    if any(row["paper_clean"] is not None for row in rows):
        columns |= {"paper_clean": "In domain, paper", "paper_worst": "Strongest level, paper"}
    changing = with_suffix(("ir", "ts-ir"), "", "-p")[1:]
    changes: list[dict[str, Value]] = []
    for case in bench.cases:
        sweep = bench.sweep(case)
        for name in changing:
            change, low, high = sweep.difference(name, "base", "accuracy")
            changes.append(
                {
                    "network": case.label,
                    "calibrator": label(name),
                    "clean": sweep.clean(name).accuracy - sweep.clean("base").accuracy,
                    "drift": change,
                    "drift_low": low,
                    "drift_high": high,
                }
            )
    changed = Table(
        "accuracy-change",
        "Change of accuracy by calibrators that may change answers; the others keep it. 95 % intervals over images",
        {"network": "Network", "calibrator": "Calibrator", "clean": "In domain", "drift": "Under drift"},
        changes,
        intervals=True,
    )
    figure = Bars(
        "accuracy",
        "Change of accuracy under drift",
        "How much calibrators that may change answers change the accuracy, averaged over all shifts and levels: 0.01 is one "
        "percentage point. Temperatures (TS, ETS) and one isotonic curve for all classes (IRM) keep every answer. Hatched: tuned on "
        f"clean images, filled: tuned on noise (-P); thin lines: 95 % intervals over images. {who_is_who(changing)}",
        [case.label for case in bench.cases],
        {label(n): [bench.sweep(case).difference(n, "base", "accuracy")[0] for case in bench.cases] for n in changing},
        "change of accuracy",
        intervals={
            label(n): [bench.sweep(case).difference(n, "base", "accuracy")[1:] for case in bench.cases]
            for n in changing
        },
    )
    notes = [f"paper: {where('accuracy')}; it does not name the network."] if "paper_clean" in columns else []
    return Outcome(
        "accuracy",
        "Accuracy",
        [Table("accuracy", "Accuracy of the uncalibrated model", columns, rows), changed],
        [figure],
        notes,
    )


def in_domain(bench: Workbench) -> Outcome:
    """ECE on untouched test images."""
    rows: list[dict[str, Value]] = []
    for case in bench.cases:
        sweep = bench.sweep(case)
        row: dict[str, Value] = {"network": case.label}
        for name in _COLUMNS:
            clean = sweep.clean(name)
            row[name] = clean.ece
            if "ece" in clean.intervals:
                row[f"{name}_low"], row[f"{name}_high"] = clean.intervals["ece"]
        row["floor"] = sweep.clean("base").null_ece
        rows.append(row)
    figure = Bars(
        "in-domain",
        "ECE on untouched images",
        "What tuning on noise costs where nothing drifts: ECE on untouched test images, lower is better. Hatched: tuned on "
        f"clean images, filled: tuned on noise (-P); thin lines: 95 % intervals over images. {who_is_who(_COLUMNS)} {ECE} "
        f"{bench.settings.describe()}.",
        [case.label for case in bench.cases],
        {label(name): [bench.sweep(case).clean(name).ece for case in bench.cases] for name in _COLUMNS},
        "ECE in domain",
        intervals={
            label(name): [_pair(bench.sweep(case).clean(name).intervals.get("ece")) for case in bench.cases]
            for name in _COLUMNS
        },
    )
    table = Table(
        "in-domain",
        "ECE in domain, on untouched images",
        {"network": "Network", **headings(_COLUMNS), "floor": "Base's floor"},
        rows,
        compare=_COLUMNS,
    )
    note = "The floor is the ECE that a perfectly honest model with the same confidences would show on as many images."
    return Outcome("in-domain", "In domain", [table], [figure], [f"{bench.settings.describe()}. {note}"])


def _followed(sweep: Sweep) -> str:
    names = [shift.name for shift in sweep.results.shifts]
    return _FOLLOWED if _FOLLOWED in names else names[0]


def _along(sweep: Sweep, name: str, shift: str, metric: str) -> list[float | None]:
    levels = next(s.levels for s in sweep.results.shifts if s.name == shift)
    return [float(getattr(sweep.row(name, shift, level), metric)) for level in levels]


def _level_labels(sweep: Sweep, shift: str) -> list[str]:
    return list(next(s.labels for s in sweep.results.shifts if s.name == shift))


def _levels(sweep: Sweep) -> list[float]:
    """The levels that every shift has."""
    first, *others = (set(shift.levels) for shift in sweep.results.shifts)
    return sorted(first.intersection(*others))


def _at(sweep: Sweep, name: str, level: float, metric: str) -> float:
    return float(np.mean([getattr(sweep.row(name, shift, level), metric) for shift in sweep.shifts()]))


def _pooled_bins(sweep: Sweep, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = [sweep.row(name, shift).bins for shift in sweep.shifts()]
    weight, confidence, outcome = (
        np.sum([row[key] for row in rows], axis=0) for key in ("weight", "confidence", "outcome")
    )
    return weight, confidence, outcome


def _pair(interval: object) -> tuple[float, float] | None:
    return (float(interval[0]), float(interval[1])) if isinstance(interval, list | tuple) else None


def _wins(sweep: Sweep, case: Case) -> str:
    """On how many shifts each method is better when tuned on noise."""
    shifts = sweep.shifts()
    better = {m: sum(sweep.row(f"{m}-p", s).ece < sweep.row(m, s).ece for s in shifts) for m in PAPER}
    counts = ", ".join(f"{label(m)} on {count}" for m, count in better.items())
    return f"{case.label}: tuning on noise lowers the ECE of {counts} of {len(shifts)} shifts."
