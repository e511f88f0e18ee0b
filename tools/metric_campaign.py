"""Every metric on generated problems: beside its definition in plain Python, and the laws that it must hold.

python -m tools.metric_campaign                        # 500 problems, more than 100,000 comparisons
python -m tools.metric_campaign --problems 50 --seed 7

Every problem follows from its seed. The output is JSON: how many values were compared per law, and which differ, with the
seed of the problem. The exit code is 1 if any differs.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from driftcal import metrics
from driftcal.core import blocks
from driftcal.core.numerics import softmax
from driftcal.metrics import METRICS, Statistics
from driftcal.metrics.sample_scores import CLIP
from tools.campaign import Problem, has_tied_tops, make_problem

N_BINS = 15
#: Values may differ by this much, relative to 1 or to the value.
TOLERANCE = 1e-9
#: The root of a difference of sums turns rounding of 1e-16 into 1e-8, so these compare their squares.
ROOTS = ("debiased_ece", "marginal_debiased_ece")
#: Values of :class:`Statistics`.
OF_STATISTICS = ("total_weight", "accuracy", "nll", "brier", "entropy", "calibration_gap", "ece", "mce", "null_ece")


def bin_of(confidence: float) -> int:
    """The bin (k/M, (k+1)/M] that holds this number; 0 lies in the first one."""
    return next(k for k in range(N_BINS) if confidence <= (k + 1) / N_BINS)


def gaps(confidence: list[float], outcome: list[float], weights: list[float]) -> Iterator[tuple[float, float]]:
    """(weight, |confidence - accuracy|) of each bin that is not empty."""
    for k in range(N_BINS):
        inside = [i for i, c in enumerate(confidence) if weights[i] and bin_of(c) == k]
        if inside:
            total = math.fsum(weights[i] for i in inside)
            yield total, abs(math.fsum(weights[i] * (confidence[i] - outcome[i]) for i in inside)) / total


def ece(confidence: list[float], outcome: list[float], weights: list[float]) -> float:
    """The expected calibration error."""
    return math.fsum(w * gap for w, gap in gaps(confidence, outcome, weights)) / math.fsum(weights)


def definitions(y: np.ndarray, p: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    """Metrics by their definitions, one sample after the other."""
    y, w, samples, n_classes = y.tolist(), weights.tolist(), p.tolist(), p.shape[1]
    total = math.fsum(w)
    confidence = [max(row) for row in samples]
    correct = [float(row.index(top) == label) for row, top, label in zip(samples, confidence, y, strict=True)]

    def mean(values: Any) -> float:
        return math.fsum(a * b for a, b in zip(w, values, strict=True) if a) / total

    pairs = sorted({c for c, a in zip(confidence, w, strict=True) if a})
    values = {
        "accuracy": mean(correct),
        "nll": mean(-math.log(max(row[label], CLIP)) for row, label in zip(samples, y, strict=True)),
        "brier": mean(sum((q - (k == label)) ** 2 for k, q in enumerate(row)) for row, label in zip(samples, y, strict=True)),
        "entropy": mean(-sum(q * math.log(q) for q in row if q) for row in samples),
        "calibration_gap": mean(confidence) - mean(correct),
        "ece": ece(confidence, correct, w),
        "mce": max(gap for _, gap in gaps(confidence, correct, w)),
        "ks": max(abs(mean((c - o) * (c <= top) for c, o in zip(confidence, correct, strict=True))) for top in pairs),
        "classwise_ece": math.fsum(
            ece([row[k] for row in samples], [float(label == k) for label in y], w) for k in range(n_classes)
        ) / n_classes,
    }  # fmt: skip
    above = below = 0.0
    for c, o, a in zip(confidence, correct, w, strict=True):
        for c_2, o_2, a_2 in zip(confidence, correct, w, strict=True):
            if o and not o_2:
                below += a * a_2
                above += a * a_2 * (1.0 if c > c_2 else 0.5 if c == c_2 else 0.0)
    if below:
        values["error_auroc"] = above / below
    return values


class Tally:
    """Values that were compared, and those that differ."""

    def __init__(self) -> None:
        self.problems = 0
        self.compared: Counter[str] = Counter()
        self.broken: list[dict[str, Any]] = []

    def compare(self, law: str, problem: Problem, values: dict[str, float], expected: dict[str, float]) -> None:
        """Compare the metrics that both hold."""
        for name in values.keys() & expected.keys():
            a, b = values[name], expected[name]
            if name in ROOTS:
                a, b = a * abs(a), b * abs(b)
            self.compared[law] += 1
            if not abs(a - b) <= TOLERANCE * max(1.0, abs(b)):
                self.broken.append({"law": law, "metric": name, "seed": problem.seed, "values": [a, b]})


def of_functions(y: np.ndarray, p: np.ndarray, weights: np.ndarray | None) -> dict[str, float]:
    """Every metric by its function."""
    return {name: metric(y, p, sample_weight=weights) for name, metric in METRICS.items()}


def of_logits(*arguments: Any, weights: np.ndarray | None = None) -> dict[str, float]:
    """Every metric of logits or a source of chunks, by `evaluate`."""
    weighted = {} if len(arguments) == 1 else {"sample_weight": weights}
    return metrics.evaluate(*arguments, per_class=True, **weighted).metrics()


def check(problem: Problem, tally: Tally) -> None:
    """All laws of all metrics on one problem."""
    tally.problems += 1
    y, logits, n = problem.labels, problem.logits, len(problem.labels)
    weights = np.ones(n) if problem.weights is None else problem.weights.astype(float)
    p, rng = softmax(logits), np.random.default_rng([problem.seed, 5])
    values = of_functions(y, p, weights)
    tally.compare("definition", problem, values, definitions(y, p, weights))
    for name, value in values.items():
        tally.compared["range"] += 1
        if not (math.isfinite(value) and -1 - 1e-12 <= value <= (math.inf if name in ("nll", "entropy") else 2)):
            tally.broken.append({"law": "range", "metric": name, "seed": problem.seed, "values": [value]})
    order = rng.permutation(n)
    tally.compare("order of samples", problem, of_functions(y[order], p[order], weights[order]), values)
    if not has_tied_tops(p):
        columns = rng.permutation(p.shape[1])
        exchanged = of_functions(np.argsort(columns)[y], p[:, columns], weights)
        tally.compare("order of columns", problem, exchanged, values)
    if problem.weights is not None and problem.weights.dtype.kind == "i":
        repeated = of_functions(np.repeat(y, problem.weights), np.repeat(p, problem.weights, axis=0), None)
        tally.compare("weights are repetitions", problem, repeated, values)
    if problem.weights is not None and problem.weights.dtype.kind == "f":  # whole weights count samples
        scaled = of_functions(y, p, weights * 4)
        tally.compare("scale of weights", problem, {k: v for k, v in scaled.items() if k not in ROOTS}, values)
    whole = of_logits(y, logits, weights=weights)
    tally.compare("memory order", problem, of_logits(y, np.asfortranarray(logits), weights=weights), whole)
    usual = blocks.BLOCK_SCORES
    for samples in (1, 7):
        try:
            blocks.BLOCK_SCORES = samples * logits.shape[1]
            tally.compare("block size", problem, of_logits(y, logits, weights=weights), whole)
        finally:
            blocks.BLOCK_SCORES = usual
    cut = int(rng.integers(1, n))
    positive = weights + 0.5
    whole_sums = Statistics.of(y, logits, sample_weight=positive)
    parts = [
        Statistics.of(y[part], logits[part], sample_weight=positive[part]) for part in (slice(cut), slice(cut, None))
    ]
    merged = parts[0] + parts[1]
    tally.compare("merged parts", problem, *({k: getattr(s, k) for k in OF_STATISTICS} for s in (merged, whole_sums)))


def main() -> int:
    """Run the campaign and print its counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options, tally = parser.parse_args(), Tally()
    for i in range(options.problems):
        check(make_problem(10_000_000 * (options.seed + 1) + i), tally)
    broken = Counter(f"{entry['law']}: {entry['metric']}" for entry in tally.broken)
    counts = {
        "problems": tally.problems,
        "comparisons": tally.compared.total(),
        "laws": tally.compared,
        "broken": broken,
    }
    print(json.dumps(counts, indent=1))
    for entry in tally.broken[:200]:
        print(json.dumps(entry), file=sys.stderr)
    return 1 if tally.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
