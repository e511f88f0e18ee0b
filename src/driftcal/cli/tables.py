"""Tables and lines of text that the commands print on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driftcal.core.progress import duration
from driftcal.pipeline.cluster_estimate import Estimate
from driftcal.pipeline.evaluating.results import Results
from driftcal.pipeline.plan import Plan
from driftcal.pipeline.recalibrating.recalibrate import Recalibration
from driftcal.report.result_tables import headline_table, main_table_of
from driftcal.report.table import Table, Value, to_terminal


def summary_table(results: Results) -> Any:
    """A row per calibrator: ECE in domain and under shift, its ratios to baselines, and accuracy."""
    return to_terminal(headline_table(results))


def main_table(results: Results) -> Any:
    """Five rows with full names: uncalibrated, temperature scaling, the best -P, per sample and windowed."""
    return to_terminal(main_table_of(results))


def levels_table(perturbation: Mapping[str, Any]) -> Any:
    """A row per perturbation level that Algorithm 1 found."""
    rows: list[dict[str, Value]] = [
        {"level": i, **{key: level[key] for key in ("epsilon", "target", "accuracy", "standard_error")}}
        for i, level in enumerate(perturbation["levels"])
    ]
    columns = {
        "level": f"level of {perturbation['shift']}",
        "epsilon": "ε",
        "target": "target",
        "accuracy": "accuracy",
        "standard_error": "± standard error",
    }
    return to_terminal(Table("levels", "", columns, rows, formats={"epsilon": ".4g"}))


def plan_lines(plan: Plan) -> list[str]:
    """A plan as lines of text."""
    lines = [
        f"{part.data}: {_count(part.n_samples, 'sample')}, {_count(part.n_conditions, 'condition')}, "
        f"{_count(part.passes, 'pass', 'passes')} to make"
        for part in plan.parts
    ]
    if plan.at_most is not None:
        lines.append(
            f"at least {plan.passes:g} model passes, usually up to twice as many, "
            f"at most {plan.at_most:g}; {duration(plan.seconds)} to {duration(2 * plan.seconds)}"
        )
    else:
        passes = _count(plan.passes, "model pass", "model passes")
        lines.append(f"{passes}, {_count(plan.n_inputs, 'input')}, about {duration(plan.seconds)}")
    return lines


def _count(number: float, singular: str, plural: str = "") -> str:
    """A number with its noun.

    >>> _count(1, "condition"), _count(2_000_000, "sample"), _count(1.5, "pass", "passes")
    ('1 condition', '2,000,000 samples', '1.5 passes')
    """
    digits = f"{int(number):,}" if number == int(number) else f"{number:g}"
    return f"{digits} {singular if number == 1 else plural or singular + 's'}"


def change_table(result: Recalibration) -> Any:
    """A row per metric: the old calibrator and the new one on held-out samples, with 95 % intervals."""
    metrics = {"ece": "ECE", "brier": "Brier score", "nll": "negative log-likelihood", "accuracy": "accuracy"}
    rows = []
    for metric, name in metrics.items():
        row: dict[str, Value] = {"metric": name}
        for key, evaluation in (("before", result.before), ("after", result.after)):
            interval = evaluation.intervals[metric]
            row |= {key: getattr(evaluation, metric), f"{key}_low": interval.low, f"{key}_high": interval.high}
        rows.append(row)
    columns = {"metric": f"{result.n_samples} held-out samples", "before": "before", "after": "after"}
    return to_terminal(Table("change", "", columns, rows, intervals=True, digits=4))


def workers_table(estimates: Sequence[Estimate], *, priced: bool) -> Any:
    """A row per number of workers: time, its parts, efficiency and cost."""
    columns = {
        "n_workers": "workers", "seconds": "time", "compute": "model", "storage": "storage", "passes": "passes",
        "merge": "merge", "start": "start", "efficiency": "of ideal",
    }  # fmt: skip
    times = ("seconds", "compute", "storage", "passes", "merge", "start")
    rows: list[dict[str, Value]] = [
        {
            "n_workers": estimate.n_workers,
            **{key: duration(getattr(estimate, key)) for key in times},
            "efficiency": estimate.efficiency,
            "cost": estimate.cost,
        }
        for estimate in estimates
    ]
    shown = {**columns, "cost": "cost"} if priced else columns
    return to_terminal(Table("workers", "", shown, rows, formats={"efficiency": ".0%", "cost": ",.2f"}))
