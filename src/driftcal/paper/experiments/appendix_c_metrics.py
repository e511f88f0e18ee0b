"""Appendix C.1 and C.2: further baselines, debiased ECE, NLL, Brier score, and the relative reduction ΔECE."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from driftcal.paper.calibrator_names import (
    BASELINE_METHODS,
    PAPER_COLUMNS,
    PAPER_METHODS,
    headings,
    label,
    with_suffixes,
)
from driftcal.paper.captions import ECE_CAPTION, method_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Bars
from driftcal.paper.mean_tables import (
    SUFFIX_NOTE,
    circles_caption,
    mean_bars,
    mean_row,
    published_rows,
    published_values,
    shift_bars,
)
from driftcal.report.table import Table, Value


def baselines(context: ExperimentContext) -> ExperimentResult:
    """Mean ECE of Platt scaling, histogram binning and Platt binning."""
    columns = with_suffixes(BASELINE_METHODS, "", "-p")
    figure = mean_bars(
        context, "baselines", "ece", columns, "mean ECE under shift", title=": Platt scaling and binning"
    )
    return _mean_of_metric(context, "baselines", "ece", columns, "Mean ECE of further baselines", figure)


def debiased_ece(context: ExperimentContext) -> ExperimentResult:
    """Mean debiased ECE."""
    figure = mean_bars(context, "debiased", "debiased_ece", PAPER_COLUMNS, "mean debiased ECE under shift")
    return _mean_of_metric(context, "debiased", "debiased_ece", PAPER_COLUMNS, "Mean debiased ECE", figure)


def nll(context: ExperimentContext) -> ExperimentResult:
    """Mean negative log-likelihood, and the share of samples whose true class got almost no probability."""
    figure = mean_bars(context, "nll", "nll", PAPER_COLUMNS, "mean NLL under shift")
    result = _mean_of_metric(context, "nll", "nll", PAPER_COLUMNS, "Mean negative log-likelihood", figure)
    return dataclasses.replace(
        result,
        tables=[*result.tables, _clipped_table(context)],
        figures=[figure, *_each_shift(context, "nll", "negative log-likelihood")],
    )


def brier(context: ExperimentContext) -> ExperimentResult:
    """Mean Brier score."""
    figure = mean_bars(context, "brier", "brier", PAPER_COLUMNS, "mean Brier score under shift")
    result = _mean_of_metric(context, "brier", "brier", PAPER_COLUMNS, "Mean Brier score", figure)
    return dataclasses.replace(result, figures=[figure, *_each_shift(context, "brier", "Brier score")])


def delta_ece(context: ExperimentContext) -> ExperimentResult:
    """ΔECE = (ECE tuned on clean images − ECE tuned on noise) / ECE tuned on clean images."""
    rows: list[dict[str, Value]] = []
    reductions = []
    for setup in context.setups:
        results = context.suite_results(setup)
        reductions.append({method: 1 - results.mean(f"{method}-p") / results.mean(method) for method in PAPER_METHODS})
        rows.append({"network": setup.label, "numbers": context.settings.name, **reductions[-1]})
        rows += published_rows(setup, "delta", "paper")
    table = Table(
        "delta",
        "ΔECE = (ECE tuned on clean images − ECE tuned on noise) / ECE tuned on clean images",
        {"network": "Network", "numbers": "Settings", **headings(PAPER_METHODS)},
        rows,
        compare=PAPER_METHODS,
        highest=True,
    )
    printed = {
        label(method): [published_values(setup, "delta").get(method) for setup in context.setups]
        for method in PAPER_METHODS
    }
    figure = Bars(
        "delta",
        "Relative reduction of the mean ECE under shift by tuning on noise",
        "Each bar is 1 − ECE(tuned on noise) / ECE(tuned on clean images) of a method, both averaged over all shifts. Above 0 "
        f"tuning on noise lowers the ECE, below 0 it raises it; 1 would be perfect.{circles_caption(printed)} "
        f"{method_legend(PAPER_METHODS)} {ECE_CAPTION}",
        [setup.label for setup in context.setups],
        {label(method): [reduction[method] for reduction in reductions] for method in PAPER_METHODS},
        "ΔECE, higher is better",
        published=printed,
        all_filled=True,
    )
    return ExperimentResult("delta", "ΔECE", [table], [figure])


def _mean_of_metric(
    context: ExperimentContext, name: str, metric: str, columns: Sequence[str], title: str, figure: Bars
) -> ExperimentResult:
    """A table of means over the shifts, with the paper's numbers."""
    rows: list[dict[str, Value]] = []
    for setup in context.setups:
        means = mean_row(context.suite_results(setup), columns, metric)
        rows.append({"network": setup.label, "numbers": context.settings.name, **means})
        rows += published_rows(setup, name, "paper")
    table = Table(
        name,
        f"{title} over all shifts, each pooled over its levels",
        {"network": "Network", "numbers": "Settings", **headings(columns)},
        rows,
        compare=columns,
    )
    return ExperimentResult(name, title, [table], [figure], [f"{context.settings.caption()}. {SUFFIX_NOTE}"])


def _each_shift(context: ExperimentContext, metric: str, axis: str) -> list[Bars]:
    return [
        shift_bars(context, setup, f"{metric}-per-shift-{setup.name}", metric, PAPER_COLUMNS, axis)
        for setup in context.setups
    ]


def _clipped_table(context: ExperimentContext) -> Table:
    rows: list[dict[str, Value]] = []
    for setup in context.setups:
        results = context.suite_results(setup)
        shares: dict[str, Value] = {}
        for name in PAPER_COLUMNS:
            pooled = [results.row(name, shift) for shift in results.shifts()]
            shares[name] = sum(row.clipped for row in pooled) / sum(row.n_samples for row in pooled)
        rows.append({"network": setup.label, **shares})
    return Table(
        "nll-clipped",
        "Share of samples whose true class had a probability below 1e-15, where the NLL is clipped",
        {"network": "Network", **headings(PAPER_COLUMNS)},
        rows,
    )
