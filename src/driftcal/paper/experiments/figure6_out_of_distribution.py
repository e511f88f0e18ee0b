"""Figure 6: confidence on out-of-distribution data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import roc_auc_score

from driftcal.metrics.sample_scores import SampleScores
from driftcal.paper.calibrator_names import PAPER_COLUMNS, PAPER_METHODS, headings, label
from driftcal.paper.captions import method_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Histograms
from driftcal.paper.left_out_classes import leave_out_classes
from driftcal.paper.setups.setup import Setup
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.report.table import Table, Value
from driftcal.types import Float64, Logits

#: Bins of the histograms.
_N_BINS = 20
_STRONGEST = "strongest level of every shift"
_LEFT_OUT = "classes left out"
#: Key of a quantity -> its name in the table.
_QUANTITIES = {
    "confidence": "mean confidence",
    "confident": "share above 0.9",
    "entropy": "mean entropy, nats",
    "auroc": "AUROC of confidence, in domain against these",
}


@dataclass(frozen=True, eq=False)
class _Case:
    """Out-of-distribution data, the candidates that predict them, and the clean logits that they are compared with."""

    data: str
    candidates: Sequence[Candidate]
    clean: Logits
    logits: Logits


def out_of_distribution(context: ExperimentContext) -> ExperimentResult:
    """Confidence and entropy at the strongest level of every shift and on data of no class, and AUROC to clean data."""
    rows: list[dict[str, Value]] = []
    figures = []
    for setup in context.setups:
        for case in _cases(context, setup):
            clean = {candidate.name: _scores(candidate, case.clean) for candidate in case.candidates}
            scores = {candidate.name: _scores(candidate, case.logits) for candidate in case.candidates}
            values = {name: _quantities(clean[name], scores[name]) for name in PAPER_COLUMNS}
            for key, quantity in _QUANTITIES.items():
                by_calibrator = {name: values[name][key] for name in PAPER_COLUMNS}
                rows.append({"network": setup.label, "data": case.data, "quantity": quantity, **by_calibrator})
            figures.append(
                _figure(setup, case.data, {name: of_candidate.confidence for name, of_candidate in scores.items()})
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
    notes = [note, *(note for setup in context.setups if (note := _left_out_note(setup)))]
    return ExperimentResult("ood", "Out of distribution", [table], figures, notes)


def _cases(context: ExperimentContext, setup: Setup) -> Iterator[_Case]:
    collector, candidates = context.collector(setup, setup.test), context.candidates(setup, PAPER_METHODS)
    clean = context.clean_logits(setup, setup.test)
    strongest = [collector.logits(shift, shift.levels[-1]) for shift in setup.shifts if shift.levels]
    yield _Case(_STRONGEST, candidates, clean, np.concatenate(strongest))
    for name, source in setup.ood.items():
        yield _Case(name, candidates, clean, context.clean_logits(setup, source))
    left_out = leave_out_classes(context, setup, PAPER_METHODS)
    if left_out is not None:
        yield _Case(_LEFT_OUT, left_out.candidates, left_out.known, left_out.unknown)


def _left_out_note(setup: Setup) -> str:
    if not setup.left_out_classes:
        return ""
    return (
        f"{setup.label}, {_LEFT_OUT}: {len(setup.left_out_classes)} random classes are removed from the outputs, calibrators are "
        "tuned on the other classes, and clean images of the removed ones are out of distribution."
    )


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
    ending = {_STRONGEST: "strongest", _LEFT_OUT: "left-out"}.get(data, "unknown")
    where = "at the strongest level of every shift" if data == _STRONGEST else f"on unknown data ({data})"
    return Histograms(
        f"ood-{setup.name}-{ending}",
        f"{setup.label}: confidence {where}",
        f"Distribution of confidence {where}. High confidence is over-confidence here. Dotted: uncalibrated; "
        f"dashed: tuned on clean images; solid: tuned on noise (-P). {method_legend(PAPER_METHODS)}",
        edges.tolist(),
        panels,
    )
