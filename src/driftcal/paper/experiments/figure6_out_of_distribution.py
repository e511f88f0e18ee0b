"""Figure 6: confidence on out-of-distribution data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sklearn.metrics import roc_auc_score

from driftcal.metrics.sample_scores import SampleScores
from driftcal.paper.calibrator_names import PAPER_COLUMNS, PAPER_METHODS, headings, label
from driftcal.paper.captions import method_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Histograms
from driftcal.paper.setups.setup import Setup
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.report.table import Table, Value
from driftcal.types import Float64, Logits

#: Bins of the histograms.
_N_BINS = 20
_STRONGEST = "strongest level of every shift"
#: Key of a quantity -> its name in the table.
_QUANTITIES = {
    "confidence": "mean confidence",
    "confident": "share above 0.9",
    "entropy": "mean entropy, nats",
    "auroc": "AUROC of confidence, in domain against these",
}


def out_of_distribution(context: ExperimentContext) -> ExperimentResult:
    """Confidence and entropy at the strongest level of every shift and on data of no class, and AUROC to clean data."""
    rows: list[dict[str, Value]] = []
    figures = []
    for setup in context.setups:
        candidates = context.candidates(setup, PAPER_METHODS)
        clean_logits = context.clean_logits(setup, setup.test)
        clean = {candidate.name: _scores(candidate, clean_logits) for candidate in candidates}
        for data, logits in _logits_by_data(context, setup).items():
            scores = {candidate.name: _scores(candidate, logits) for candidate in candidates}
            values = {name: _quantities(clean[name], scores[name]) for name in PAPER_COLUMNS}
            for key, quantity in _QUANTITIES.items():
                by_calibrator = {name: values[name][key] for name in PAPER_COLUMNS}
                rows.append({"network": setup.label, "data": data, "quantity": quantity, **by_calibrator})
            figures.append(
                _figure(setup, data, {name: of_candidate.confidence for name, of_candidate in scores.items()})
            )
    table = Table(
        "ood",
        "Confidence on out-of-distribution data",
        {"network": "Network", "data": "Data", "quantity": "Quantity", **headings(PAPER_COLUMNS)},
        rows,
    )
    note = (
        "The entropy of ten equally likely classes is 2.303 nats, of a thousand 6.908. AUROC is the probability that a clean image "
        "has a higher confidence than one of these: 1 separates them, 0.5 does not."
    )
    return ExperimentResult("ood", "Out of distribution", [table], figures, [note])


def _logits_by_data(context: ExperimentContext, setup: Setup) -> dict[str, Logits]:
    collector = context.collector(setup, setup.test)
    strongest = [collector.logits(shift, shift.levels[-1]) for shift in setup.shifts if shift.levels]
    by_data = {_STRONGEST: np.concatenate(strongest)}
    return by_data | {name: context.clean_logits(setup, source) for name, source in setup.ood.items()}


def _scores(candidate: Candidate, logits: Logits) -> SampleScores:
    """Confidence and entropy of each sample, which need no labels."""
    no_labels = np.zeros(len(logits), np.int64)
    return SampleScores.of_probabilities(no_labels, candidate.calibrator.predict_proba(logits))


def _quantities(clean: SampleScores, scores: SampleScores) -> dict[str, float]:
    in_domain = np.concatenate([np.ones(len(clean)), np.zeros(len(scores))])
    return {
        "confidence": float(scores.confidence.mean()),
        "confident": float((scores.confidence > 0.9).mean()),
        "entropy": float(scores.entropy.mean()),
        "auroc": float(roc_auc_score(in_domain, np.concatenate([clean.confidence, scores.confidence]))),
    }


def _figure(setup: Setup, data: str, confidences: Mapping[str, Float64]) -> Histograms:
    edges = np.linspace(0, 1, _N_BINS + 1)
    shares = {name: (np.histogram(values, edges)[0] / len(values)).tolist() for name, values in confidences.items()}
    panels = {
        label(method): {label(name): shares[name] for name in ("base", method, f"{method}-p")}
        for method in PAPER_METHODS
    }
    strongest = data == _STRONGEST
    where = "at the strongest level of every shift" if strongest else f"on unknown data ({data})"
    return Histograms(
        f"ood-{setup.name}-{'strongest' if strongest else 'unknown'}",
        f"{setup.label}: confidence {where}",
        f"Distribution of confidence {where}. High confidence is over-confidence here. Dotted: uncalibrated; "
        f"dashed: tuned on clean images; solid: tuned on noise (-P). {method_legend(PAPER_METHODS)}",
        edges.tolist(),
        panels,
    )
