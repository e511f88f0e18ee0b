"""Figure 1, left: confidence against accuracy over all shifts and levels."""

from __future__ import annotations

import numpy as np

from driftcal.paper.calibrator_names import PAPER_COLUMNS, label
from driftcal.paper.captions import LINES_CAPTION, method_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Lines, Panel
from driftcal.paper.setups.setup import Setup
from driftcal.paper.suite_results import SuiteResults
from driftcal.report.table import Table, Value
from driftcal.types import Float64

#: Bins with a smaller share of all samples are not drawn.
_MIN_SHARE = 0.001
#: Predictions with a higher confidence are confident. It is an edge of 10 and of 15 bins.
_CONFIDENT = 0.8


def reliability(context: ExperimentContext) -> ExperimentResult:
    """A reliability diagram per network, and mean confidence and accuracy."""
    rows: list[dict[str, Value]] = []
    for setup in context.setups:
        results = context.suite_results(setup)
        rows += [{"network": setup.label, "calibrator": label(n), **_row(results, n)} for n in PAPER_COLUMNS]
    columns = {
        "network": "Network",
        "calibrator": "Calibrator",
        "confidence": "Mean confidence",
        "accuracy": "Accuracy",
        "calibration_gap": "Confidence − accuracy",
        "confident": f"Share with confidence above {_CONFIDENT:g}",
        "confident_accuracy": "Accuracy of those",
    }
    table = Table("teaser", "Confidence and accuracy over all shifts and levels", columns, rows)
    figures = [_figure(context, setup) for setup in context.setups]
    return ExperimentResult("teaser", "Confidence against accuracy under shift", [table], figures)


def _row(results: SuiteResults, calibrator: str) -> dict[str, Value]:
    weight, confidence, outcome = (_pooled(results, calibrator, key) for key in ("weight", "confidence", "outcome"))
    total = weight.sum()
    confident = slice(round(_CONFIDENT * len(weight)), None)
    n_confident = weight[confident].sum()
    return {
        "confidence": float(confidence.sum() / total),
        "accuracy": float(outcome.sum() / total),
        "calibration_gap": float((confidence - outcome).sum() / total),
        "confident": float(n_confident / total),
        "confident_accuracy": float(outcome[confident].sum() / n_confident) if n_confident else None,
    }


def _figure(context: ExperimentContext, setup: Setup) -> Lines:
    results = context.suite_results(setup)
    n_bins = context.settings.n_bins
    curves = {label(name): _curve(results, name) for name in PAPER_COLUMNS}
    panel = Panel(
        "all shifts and levels", [(k + 0.5) / n_bins for k in range(n_bins)], curves, "confidence", "accuracy",
        diagonal=True, y_limits=(0.0, 1.0),
    )  # fmt: skip
    return Lines(
        f"teaser-{setup.name}",
        f"{setup.label}: accuracy by confidence",
        "All shifts and levels together; each mark is a bin of confidence. The model is calibrated on the dotted diagonal and "
        f"over-confident below it. {LINES_CAPTION} {method_legend(PAPER_COLUMNS)}",
        [panel],
    )


def _curve(results: SuiteResults, calibrator: str) -> list[float | None]:
    """The accuracy in each bin of confidence."""
    weight, outcome = (_pooled(results, calibrator, key) for key in ("weight", "outcome"))
    drawn = weight / weight.sum() >= _MIN_SHARE
    return [float(o / w) if shown else None for o, w, shown in zip(outcome, weight, drawn, strict=True)]


def _pooled(results: SuiteResults, calibrator: str, key: str) -> Float64:
    """A statistic of each bin of confidence, summed over all shifts and levels."""
    pooled: Float64 = np.sum([results.row(calibrator, shift).bins[key] for shift in results.shifts()], axis=0)
    return pooled
