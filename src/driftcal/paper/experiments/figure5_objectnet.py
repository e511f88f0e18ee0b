"""Figure 5: ECE on the classes of ObjectNet that the network has."""

from __future__ import annotations

import numpy as np

from driftcal.metrics import Evaluation, evaluate
from driftcal.paper.calibrator_names import PAPER_COLUMNS, PAPER_METHODS, headings, label
from driftcal.paper.captions import BARS_CAPTION, ECE_CAPTION, INTERVALS_CAPTION, method_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Bars
from driftcal.paper.setups.setup import Setup
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.report.table import Table, Value


def known_classes(context: ExperimentContext) -> ExperimentResult:
    """ECE on the shared classes; a class of ObjectNet may have several correct predictions."""
    setups = [setup for setup in context.setups if setup.objectnet is not None]
    rows: list[dict[str, Value]] = []
    evaluations: dict[str, list[Evaluation]] = {name: [] for name in PAPER_COLUMNS}
    for setup in setups:
        row: dict[str, Value] = {"network": setup.label}
        for candidate in context.candidates(setup, PAPER_METHODS):
            evaluation = _evaluate(context, setup, candidate)
            evaluations[candidate.name].append(evaluation)
            row[candidate.name] = evaluation.ece
            row[f"{candidate.name}_low"], row[f"{candidate.name}_high"] = _interval(evaluation)
            row.setdefault("images", evaluation.n_samples)
            row.setdefault("accuracy", evaluation.accuracy)
        rows.append(row)
    table = Table(
        "objectnet",
        "ECE on ObjectNet's classes that the network knows",
        {"network": "Network", "images": "Images", "accuracy": "Accuracy", **headings(PAPER_COLUMNS)},
        rows,
        compare=PAPER_COLUMNS,
    )
    figure = Bars(
        "objectnet",
        "ECE on ObjectNet's known classes",
        "Photographs of known objects from unusual angles and on unusual backgrounds; lower is better. "
        f"{BARS_CAPTION}; {INTERVALS_CAPTION}. {method_legend(PAPER_COLUMNS)} {ECE_CAPTION} {context.settings.caption()}.",
        [setup.label for setup in setups],
        {label(name): [evaluation.ece for evaluation in values] for name, values in evaluations.items()},
        "ECE",
        intervals={
            label(name): [_interval(evaluation) for evaluation in values] for name, values in evaluations.items()
        },
    )
    return ExperimentResult("objectnet", "ObjectNet", [table], [figure])


def _evaluate(context: ExperimentContext, setup: Setup, candidate: Candidate) -> Evaluation:
    source = context.objectnet_known_classes(setup)
    logits = context.clean_logits(setup, source)
    predicted = candidate.calibrator.predict(logits)
    # any correct prediction becomes the label, so that every metric counts it as correct
    labels = np.where(source.is_correct(predicted), predicted, source.labels)
    settings = context.settings
    return evaluate(
        labels,
        candidate.calibrator.predict_proba(logits),
        score_type="probabilities",
        n_bins=settings.n_bins,
        intervals=settings.n_resamples > 0,
        n_resamples=max(2, settings.n_resamples),
    )


def _interval(evaluation: Evaluation) -> tuple[float, float]:
    interval = evaluation.intervals.get("ece")
    return (interval.low, interval.high) if interval else (evaluation.ece, evaluation.ece)
