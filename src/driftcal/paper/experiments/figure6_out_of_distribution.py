"""Data from elsewhere: ObjectNet, and inputs for which no answer is right."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sklearn.metrics import roc_auc_score

from driftcal.metrics import Evaluation, evaluate
from driftcal.metrics.sample_scores import SampleScores
from driftcal.paper.cases import Case
from driftcal.paper.experiments.captions import ECE, who_is_who
from driftcal.paper.experiments.experiment import headings, label, with_suffix
from driftcal.paper.outcome import Bars, Histograms, Outcome, Table, Value
from driftcal.paper.workbench import PAPER, Workbench
from driftcal.pipeline.evaluate import Candidate
from driftcal.shifts import get_shift
from driftcal.types import Array, Float64, Logits

_COLUMNS = with_suffix(PAPER, "", "-p")
_BINS = 20


def on_objectnet(bench: Workbench) -> Outcome:
    """ECE on the classes that ObjectNet shares with the network; any of several right outputs counts as right."""
    rows: list[dict[str, Value]] = []
    found: dict[str, list[Evaluation]] = {name: [] for name in _COLUMNS}
    cases = [case for case in bench.cases if case.objectnet is not None]
    for case in cases:
        row: dict[str, Value] = {"network": case.label}
        for candidate in bench.candidates(case, PAPER):
            seen = _on_objectnet(bench, case, candidate)
            found[candidate.name].append(seen)
            row[candidate.name] = seen.ece
            row[f"{candidate.name}_low"], row[f"{candidate.name}_high"] = _interval(seen)
            row.setdefault("images", seen.n_samples)
            row.setdefault("accuracy", seen.accuracy)
        rows.append(row)
    table = Table(
        "objectnet",
        "ECE on ObjectNet's classes that the network knows",
        {"network": "Network", "images": "Images", "accuracy": "Accuracy", **headings(_COLUMNS)},
        rows,
        compare=_COLUMNS,
    )
    figure = Bars(
        "objectnet",
        "ECE on ObjectNet's known classes",
        "Photographs of known things from unusual sides and on unusual ground; lower is better. Hatched: tuned on clean images, "
        f"filled: tuned on noise (-P); thin lines: 95 % intervals over images. {who_is_who(_COLUMNS)} {ECE} "
        f"{bench.settings.describe()}.",
        [case.label for case in cases],
        {label(name): [seen.ece for seen in values] for name, values in found.items()},
        "ECE",
        intervals={label(name): [_interval(seen) for seen in values] for name, values in found.items()},
    )
    return Outcome("objectnet", "ObjectNet", [table], [figure])


def out_of_distribution(bench: Workbench) -> Outcome:
    """Confidence and entropy at the strongest level of every shift and on data of no class; AUROC against in-domain data."""
    rows: list[dict[str, Value]] = []
    figures = []
    quantities = {
        "confidence": "mean confidence",
        "sure": "share above 0.9",
        "entropy": "mean entropy, nats",
        "auroc": "AUROC of confidence, in domain against these",
    }
    for case in bench.cases:
        candidates = bench.candidates(case, PAPER)
        clean = {c.name: _scores(c, _clean(bench, case))[0] for c in candidates}
        for data, logits in _unknown_logits(bench, case).items():
            seen = {c.name: _scores(c, logits) for c in candidates}
            values = {name: _quantities(clean[name], *seen[name]) for name in _COLUMNS}
            for key, words in quantities.items():
                rows.append(
                    {"network": case.label, "data": data, "quantity": words, **{n: values[n][key] for n in _COLUMNS}}
                )
            figures.append(_histograms(case, data, {name: confidence for name, (confidence, _) in seen.items()}))
    table = Table(
        "ood",
        "How sure the model is where it should not be",
        {"network": "Network", "data": "Data", "quantity": "Quantity", **headings(_COLUMNS)},
        rows,
    )
    notes = [
        "Entropy of ten equally likely classes is 2.303 nats, of a thousand 6.908. AUROC is the chance that an untouched image gets a "
        "higher confidence than one of these; 1 tells them apart, 0.5 does not."
    ]
    return Outcome("ood", "Out of distribution", [table], figures, notes)


def _on_objectnet(bench: Workbench, case: Case, candidate: Candidate) -> Evaluation:
    source = bench.known(case)
    logits = bench.collector(case, source).logits(get_shift("gaussian"), 0)
    probs = candidate.calibrator.predict_proba(logits)
    predicted = candidate.calibrator.predict(logits)
    # an answer that counts as right becomes the label, so that every metric knows it as right
    labels = np.where(source.is_correct(predicted), predicted, source.labels)
    return evaluate(
        labels,
        probs,
        score_type="probabilities",
        n_bins=bench.settings.n_bins,
        intervals=bench.draws > 0,
        n_resamples=max(2, bench.draws),
    )


def _unknown_logits(bench: Workbench, case: Case) -> dict[str, Logits]:
    collector = bench.collector(case, case.test)
    strongest = [collector.logits(shift, shift.levels[-1]) for shift in case.shifts if shift.levels]
    found = {"strongest level of every shift": np.concatenate(strongest)}
    for name, source in case.ood.items():
        found[name] = bench.collector(case, source).logits(get_shift("gaussian"), 0)
    return found


def _clean(bench: Workbench, case: Case) -> Logits:
    return bench.collector(case, case.test).logits(get_shift("gaussian"), 0)


def _scores(candidate: Candidate, logits: Logits) -> tuple[Float64, Float64]:
    """Confidence and entropy of each row; labels play no part."""
    nobody = np.zeros(len(logits), np.int64)
    scores = SampleScores.of_probabilities(nobody, candidate.calibrator.predict_proba(logits))
    return scores.confidence, scores.entropy


def _quantities(clean: Float64, confidence: Float64, entropy: Float64) -> dict[str, float]:
    known = np.concatenate([np.ones(len(clean)), np.zeros(len(confidence))])
    return {
        "confidence": float(confidence.mean()),
        "sure": float((confidence > 0.9).mean()),
        "entropy": float(entropy.mean()),
        "auroc": float(roc_auc_score(known, np.concatenate([clean, confidence]))),
    }


def _histograms(case: Case, data: str, seen: Mapping[str, Array]) -> Histograms:
    edges = np.linspace(0, 1, _BINS + 1)
    shares = {name: (np.histogram(c, edges)[0] / len(c)).tolist() for name, c in seen.items()}
    panels = {
        label(method): {
            "Base": shares["base"],
            label(method): shares[method],
            label(f"{method}-p"): shares[f"{method}-p"],
        }
        for method in PAPER
    }
    where = "at the strongest level of every shift" if data.startswith("strongest") else f"on unknown data ({data})"
    slug = "strongest" if data.startswith("strongest") else "unknown"
    return Histograms(
        f"ood-{case.name}-{slug}",
        f"{case.label}: how sure the model is {where}",
        f"Distribution of stated confidence {where}, where the model knows little or nothing: mass at the right edge is "
        f"unfounded confidence. Dotted: uncalibrated; dashed: tuned on clean images; solid: tuned on noise (-P). {who_is_who(PAPER)}",
        edges.tolist(),
        panels,
    )


def _interval(seen: Evaluation) -> tuple[float, float]:
    found = seen.intervals.get("ece")
    return (found.low, found.high) if found else (seen.ece, seen.ece)
