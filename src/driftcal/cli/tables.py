"""Results as tables for a terminal; names are text, never markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driftcal.cli.console import duration, printable
from driftcal.pipeline.plan import Plan
from driftcal.pipeline.recalibrate import Recalibration
from driftcal.pipeline.results import CalibratorSummary, Results
from driftcal.pipeline.scaling import Estimate

#: What stands above the table of gains.
GAINS = "What tuning on perturbed data (-P) gains under drift, and costs in domain:"


def _table(*headings: str, title: str | None = None) -> Any:
    """A table without lines; all but the first column hold numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, heading in enumerate(headings):
        table.add_column(Text(heading), justify="right" if i else "left", overflow="fold", header_style="bold")
    return table


def _add(table: Any, *cells: str, style: str | None = None) -> None:
    from rich.text import Text

    table.add_row(*(Text(printable(cell)) for cell in cells), style=style)


def summary_table(results: Results) -> Any:
    """A line per calibrator: in domain against drift."""
    table = _table(
        "calibrator", "ECE in domain", "ECE under drift", "worst shift", "accuracy in domain", "under drift",
    )  # fmt: skip
    labels = {info.name: info.label for info in results.calibrators}
    lines = results.summary()
    best = min(lines, key=lambda line: line.mean_ece)
    for line in lines:
        _add(
            table, labels[line.calibrator], f"{line.in_domain_ece:.3f}", f"{line.mean_ece:.3f}",
            f"{line.worst_ece:.3f} {line.worst_shift}", f"{line.in_domain_accuracy:.3f}", f"{line.mean_accuracy:.3f}",
            style="bold" if line is best else None,
        )  # fmt: skip
    return table


def summary_title(results: Results) -> str:
    """What stands above it."""
    return f"{results.suite}: {len(results.shifts)} shifts, each pooled over its levels; ECE with {results.n_bins} bins"


def gain_table(results: Results) -> Any:
    """A line per method: what tuning on perturbed data gains under drift, and what it costs in domain."""
    lines = {line.calibrator: line for line in results.summary()}
    table = _table(
        "ECE", "drift: clean-tuned", "-P", "change", "in domain: clean-tuned", "-P", "change",
    )  # fmt: skip
    for info in results.calibrators:
        if info.name.endswith("-p"):
            continue
        clean, perturbed = lines[info.name], lines.get(f"{info.name}-p")
        _add(table, info.label, *_pair(clean, perturbed, "mean_ece"), *_pair(clean, perturbed, "in_domain_ece"))
    return table


def _pair(clean: CalibratorSummary, perturbed: CalibratorSummary | None, metric: str) -> tuple[str, str, str]:
    before = getattr(clean, metric)
    if perturbed is None:
        return f"{before:.3f}", "", ""
    after = getattr(perturbed, metric)
    return f"{before:.3f}", f"{after:.3f}", f"{after - before:+.3f}"


def ladder_table(ladder: Mapping[str, Any]) -> Any:
    """The levels that Algorithm 1 found."""
    table = _table("level", "ε", "target", "accuracy", title=f"levels of {printable(ladder['shift'])}")
    for i, level in enumerate(ladder["levels"]):
        _add(
            table, str(i), f"{level['epsilon']:.4g}", f"{level['target']:.3f}",
            f"{level['accuracy']:.3f} ± {level['standard_error']:.3f}",
        )  # fmt: skip
    return table


def plan_lines(plan: Plan) -> list[str]:
    """A plan in words."""
    lines = [
        f"{part.data}: {part.rows:,} rows, {part.conditions} conditions, {part.passes:g} passes to make"
        for part in plan.parts
    ]
    if plan.at_most is not None:
        lines.append(
            f"{plan.passes:g} model passes if the search for levels guesses right, usually up to twice as many, "
            f"at most {plan.at_most:g}; {duration(plan.seconds)} to {duration(2 * plan.seconds)}"
        )
    else:
        lines.append(f"{plan.passes:g} model passes, {plan.inputs:,} inputs, about {duration(plan.seconds)}")
    return lines


def change_table(result: Recalibration) -> Any:
    """A line per metric: the old calibrator and the new one on held-out rows, with 95 % intervals."""
    table = _table(f"{result.rows} held-out rows", "before", "after")
    names = {"ece": "ECE", "brier": "Brier score", "nll": "negative log-likelihood", "accuracy": "accuracy"}
    for name, words in names.items():
        cells = [f"{getattr(part, name):.4f} {part.intervals[name]}" for part in (result.before, result.after)]
        _add(table, words, *cells)
    return table


def scaling_table(estimates: Sequence[Estimate], *, priced: bool) -> Any:
    """A line per number of workers: time, what it consists of, and what it costs."""
    headings = ["workers", "time", "model", "storage", "passes", "merge", "start", "of ideal"]
    table = _table(*headings, *(["cost"] if priced else []))
    for one in estimates:
        parts = (one.seconds, one.compute, one.storage, one.passes, one.merge, one.start)
        cells = [str(one.workers), *(duration(part) for part in parts), f"{one.efficiency:.0%}"]
        _add(table, *cells, *([f"{one.cost:,.2f}"] if priced else []))
    return table
