"""Many fits and exports of calibrators on generated problems, and the laws that they must hold.

python -m tools.campaign                                   # 43,000 fits on 1,711 problems, 1,115 exports
python -m tools.campaign --problems 20 --fits 2000 --exports 60 --seed 7

Every problem follows from its seed. Two fifths of the calibrators, drawn anew, are fitted to each. The output is JSON: how many fits, laws and exports were checked, and what broke a
law, with the seed of the problem. The exit code is 1 if anything broke.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from driftcal.calibrators import CALIBRATORS, Calibrator, make_calibrator
from driftcal.decisions import Threshold
from driftcal.decisions.coverage_curve import CoverageCurve
from driftcal.decisions.threshold import choose_threshold
from driftcal.errors import DidNotConverge, DriftcalError

NAMES = sorted(name for name, kind in CALIBRATORS.items() if not kind.needs_features)
#: Calibrators that read layer features. One problem in `FEATURE_STEP` fits them.
FEATURE_NAMES = sorted(name for name, kind in CALIBRATORS.items() if kind.needs_features)
FEATURE_STEP = 20
#: Training a network takes a hundred times as long as other fits, so only some problems have one.
SLOW, SLOW_SHARE = ("pts",), 0.1
#: The share of the other calibrators that are fitted to a problem.
SHARE = 0.4
#: Probabilities may differ by this much: fits end within rounding of an optimum that may be flat.
TOLERANCE = 1e-6
#: The same for fits with several numbers per class, whose optimum is flat in many directions if there are as many classes as
#: samples, and for a network, whose training amplifies the last digit.
FLAT, FLAT_TOLERANCE = ("vs", "svs", "dirichlet", "dac-pts"), 1e-5
#: The same for samples with logits up to 1e4 that are not among the tuning samples.
FAR_TOLERANCE = 1e-4
#: How many of them there are.
N_FAR = 24


@dataclass(frozen=True)
class Problem:
    """Labelled logits, weights or None, levels or None, and the seed that they follow from."""

    seed: int
    logits: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None
    levels: np.ndarray | None = None


def make_problem(seed: int) -> Problem:
    """A problem with any of: masks, weights, ties, quantised logits, extreme scales, few samples, many classes."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 5, 12, 15, 16, 40, 150]))
    n_classes = int(rng.choice([2, 3, 4, 7, 12, 40], p=[0.2, 0.3, 0.2, 0.15, 0.1, 0.05]))
    z = rng.normal(size=(n, n_classes))
    kind = rng.choice(["usual", "correct", "random", "incorrect", "one class"], p=[0.6, 0.15, 0.15, 0.05, 0.05])
    labels = np.argmax(2 * z + rng.gumbel(size=z.shape), axis=1)
    labels = {"correct": z.argmax(axis=1), "random": rng.integers(0, n_classes, n), "incorrect": z.argmin(axis=1)}.get(
        str(kind), np.zeros(n, np.int64) if kind == "one class" else labels
    )
    logits = z * rng.choice([1e-6, 0.1, 1, 3, 30, 1000, 1e4], p=[0.05, 0.1, 0.35, 0.25, 0.1, 0.1, 0.05])
    if rng.random() < 0.4:
        logits = np.round(logits * 2) / 2
    if rng.random() < 0.3:
        masked = rng.random(logits.shape) < rng.choice([0.1, 0.4])
        masked[np.arange(n), labels] &= rng.random() < 0.1
        masked[np.arange(n), rng.integers(0, n_classes, n)] = False
        logits = np.where(masked, -np.inf, logits)
    if rng.random() < 0.3:
        logits = logits + rng.choice([-1e4, 1e3])
    weights = [None, None, rng.integers(1, 4, n), np.r_[1, rng.integers(0, 3, n - 1)], rng.random(n) + 1e-3][
        rng.integers(5)
    ]
    of_levels = np.random.default_rng([seed, 3])
    levels = of_levels.integers(0, of_levels.integers(2, 5), n) if of_levels.random() < 0.6 else None
    return Problem(seed, logits, labels, weights, levels)


@dataclass
class Tally:
    """What was checked, and what broke a law."""

    problems: int = 0
    fits: int = 0
    exports: int = 0
    raised: Counter[str] = field(default_factory=Counter)
    laws: Counter[str] = field(default_factory=Counter)
    broken: list[dict[str, Any]] = field(default_factory=list)

    def check(self, law: str, ok: bool, name: str, problem: Problem, detail: object = "") -> None:
        """Count a law, and note if it does not hold."""
        self.laws[law] += 1
        if not ok:
            self.broken.append({"law": law, "calibrator": name, "seed": problem.seed, "detail": str(detail)[:200]})


def fit(name: str, problem: Problem, tally: Tally, **features: Any) -> Calibrator | None:
    """The fitted calibrator, or None if it raised an error of driftcal."""
    tally.fits += 1
    levels = {"levels": problem.levels} if CALIBRATORS[name].needs_levels else {}
    neighbours = {"k": 5} if CALIBRATORS[name].needs_reference else {}
    try:
        return make_calibrator(name, **neighbours).fit(
            problem.logits, problem.labels, sample_weight=problem.weights, **levels, **features
        )
    except DriftcalError as error:
        tally.raised[type(error).__name__] += 1
        if isinstance(error, DidNotConverge) and type(error) is DidNotConverge:
            tally.check("converges or says that there is no optimum", False, name, problem, error)
    except Exception as error:
        tally.check("errors are driftcal's", False, name, problem, repr(error))
    return None


def probes(problem: Problem) -> np.ndarray:
    """The tuning samples, some in another order of columns, and masked and extreme samples."""
    rng = np.random.default_rng(problem.seed + 1)
    logits, n_classes = problem.logits, problem.logits.shape[1]
    far = rng.normal(size=(N_FAR, n_classes)) * np.geomspace(1, 1e4, N_FAR)[:, None]
    far[::2] -= 1e4 * rng.integers(0, 2, (N_FAR // 2, 1))
    masked = rng.random(far.shape) < 0.4
    masked[np.arange(N_FAR), rng.integers(0, n_classes, N_FAR)] = False
    far[masked] = -np.inf
    return np.vstack([logits, logits[:20, rng.permutation(n_classes)], far])


def permuted(problem: Problem) -> tuple[Problem, np.ndarray]:
    """The problem with its columns in another order, and this order."""
    order = np.random.default_rng(problem.seed + 2).permutation(problem.logits.shape[1])
    return replace(problem, logits=problem.logits[:, order], labels=np.argsort(order)[problem.labels]), order


def repeated(problem: Problem) -> Problem:
    """The problem with samples repeated in place of whole weights."""
    index = np.repeat(np.arange(len(problem.labels)), problem.weights)
    levels = None if problem.levels is None else problem.levels[index]
    return replace(problem, logits=problem.logits[index], labels=problem.labels[index], weights=None, levels=levels)


def has_tied_tops(logits: np.ndarray) -> bool:
    """Whether a sample has two largest logits: the top class then depends on the order of columns."""
    return bool(((logits == logits.max(axis=1, keepdims=True)).sum(axis=1) > 1).any())


def check_fits(name: str, problem: Problem, tally: Tally) -> None:
    """All laws of one calibrator on one problem."""
    calibrator, x = fit(name, problem, tally), probes(problem)
    reads_top = name == "spline" and has_tied_tops(problem.logits)
    others: list[tuple[str, Problem, Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = []
    same = lambda p: p  # noqa: E731
    if not reads_top:
        exchanged, order = permuted(problem)
        others.append(("order of columns", exchanged, lambda z: z[:, order], lambda p: p[:, np.argsort(order)]))
    if problem.weights is not None and problem.weights.dtype.kind == "i":
        others.append(("weights are repetitions", repeated(problem), same, same))
    with np.errstate(over="ignore"):
        single = problem.logits.astype(np.float32)
    if (single == problem.logits).all():
        others.append(("dtype", replace(problem, logits=single), same, same))
    others.append(("memory order", replace(problem, logits=np.asfortranarray(problem.logits)), same, same))
    p = None if calibrator is None else calibrator.predict_proba(x)
    if p is not None:
        tally.check("probabilities", bool(((p >= 0) & (p <= 1)).all()), name, problem)
        tally.check("sum to 1", bool((np.abs(p.sum(axis=1) - 1) < 1e-12).all()), name, problem)
        tally.check("masked classes are 0", bool((p[np.isneginf(x)] == 0).all()), name, problem)
        if CALIBRATORS[name].keeps_accuracy:
            top = p[np.arange(len(x)), x.argmax(axis=1)]
            tally.check("keeps accuracy", bool((top == p.max(axis=1)).all()), name, problem)
    for law, other, to_other, back in others:
        again = fit(name, other, tally)
        if calibrator is None or again is None:
            tally.check(law, calibrator is None and again is None, name, problem, "only one fit raised")
            continue
        tied = CALIBRATORS[name].keeps_accuracy and name == "spline" and has_tied_tops(x) and law == "order of columns"
        used = np.ones(len(x), bool) if not tied else (x == x.max(axis=1, keepdims=True)).sum(axis=1) == 1
        differences = np.abs(back(again.predict_proba(to_other(x))) - p).max(axis=1)
        # parameters are multiplied by logits, so those of far samples amplify their last digits
        differences[-N_FAR:] *= TOLERANCE / FAR_TOLERANCE
        difference = differences[used].max(initial=0.0)
        tolerance = FLAT_TOLERANCE if name in FLAT else TOLERANCE
        tally.check(law, bool(difference <= tolerance), name, problem, difference)


def check_layer_features(name: str, problem: Problem, tally: Tally) -> None:
    """Probabilities of a calibrator that reads layer features, and the order of columns and of memory."""
    rng = np.random.default_rng([problem.seed, 6])
    features = {"layer": rng.normal(size=(len(problem.labels), 5)).astype(np.float32)}
    reference = {"reference": {"layer": rng.normal(size=(30, 5)).astype(np.float32)}}
    given = {"features": features, **(reference if CALIBRATORS[name].needs_reference else {})}
    calibrator = fit(name, problem, tally, **given)
    exchanged, order = permuted(problem)
    in_fortran_order = replace(problem, logits=np.asfortranarray(problem.logits))
    p = None if calibrator is None else calibrator.predict_proba(problem.logits, features=features)
    if p is not None:
        tally.check("probabilities", bool(((p >= 0) & (p <= 1)).all()), name, problem)
        tally.check("sum to 1", bool((np.abs(p.sum(axis=1) - 1) < 1e-12).all()), name, problem)
        tally.check("masked classes are 0", bool((p[np.isneginf(problem.logits)] == 0).all()), name, problem)
    straight = np.arange(problem.logits.shape[1])
    for law, other, columns in (("order of columns", exchanged, order), ("memory order", in_fortran_order, straight)):
        again = fit(name, other, tally, **given)
        if p is None or again is None:
            tally.check(law, p is None and again is None, name, problem, "only one fit raised")
            continue
        q = again.predict_proba(other.logits, features=features)[:, np.argsort(columns)]
        difference = np.abs(q - p).max()
        tally.check(law, bool(difference <= (FLAT_TOLERANCE if name in FLAT else TOLERANCE)), name, problem, difference)


def check_exports(name: str, problem: Problem, tally: Tally) -> None:
    """The torch module and the ONNX graph of one calibrator on one problem."""
    import torch

    from driftcal.export import to_onnx, to_torch
    from driftcal.export.onnx.verification import open_session

    calibrator, x = fit(name, problem, tally), probes(problem)
    if calibrator is None:
        return
    if CALIBRATORS[name].needs_window:
        check_windowed_export(name, calibrator, problem, tally)
        calibrator = calibrator.per_sample()  # type: ignore[attr-defined]
    tally.exports += 1
    p = calibrator.predict_proba(x)
    threshold = threshold_of(p)
    try:
        exported = to_onnx(calibrator, logits="float64", threshold=threshold)
        session = open_session(exported.model.SerializeToString())
        of_onnx, accept = session.run(["probabilities", "accept"], {"logits": x})
        of_torch = to_torch(calibrator)(torch.from_numpy(x)).numpy()
    except Exception as error:
        tally.check("exports", False, name, problem, repr(error))
        return
    for law, other in (("ONNX agrees", of_onnx), ("torch agrees", of_torch)):
        difference = np.abs(other - p).max()
        tally.check(law, bool(difference <= TOLERANCE), name, problem, difference)
    check_accept(threshold, accept, p, name, problem, tally)


def threshold_of(probabilities: np.ndarray) -> Threshold:
    """A threshold that half of these samples reach."""
    confidence = probabilities.max(axis=1)
    return choose_threshold(CoverageCurve.of(confidence, np.ones(len(confidence), bool)), coverage=0.5)


def check_accept(
    threshold: Threshold, accept: np.ndarray, probabilities: np.ndarray, name: str, problem: Problem, tally: Tally
) -> None:
    """Whether a graph accepts the samples that the threshold accepts, but for those as near to it as rounding."""
    confidence = probabilities.max(axis=1)
    decided = np.abs(confidence - threshold.confidence) > TOLERANCE
    same = (accept == threshold.accepts(confidence))[decided]
    tally.check("ONNX accepts the same samples", bool(same.all()), name, problem, int((~same).sum()))


def check_windowed_export(name: str, calibrator: Any, problem: Problem, tally: Tally) -> None:
    """The graph of a windowed form on windows of tuning samples, far samples and few samples, with earlier samples and padding."""
    from driftcal.export import to_onnx
    from driftcal.export.onnx.verification import open_session

    tally.exports += 1
    x = probes(problem)
    threshold = threshold_of(calibrator.predict_proba(x))
    try:
        exported = to_onnx(calibrator, windowed=True, logits="float64", threshold=threshold)
        session = open_session(exported.model.SerializeToString())
    except Exception as error:
        tally.check("windowed exports", False, name, problem, repr(error))
        return
    for k, window in enumerate((x, x[:-N_FAR], x[-N_FAR:], x[-8:], x[-1:])):
        # alone, and after other samples in a batch whose padding holds anything
        for earlier in (x[:0], x[: 7 * (k + 1)]):
            live = calibrator.windowed(max(len(earlier) + len(window), calibrator.min_window))
            live.observe(earlier)
            p = live.predict_proba(window)
            sums = calibrator.window_statistics(earlier).sum(axis=0)
            padding = np.full((len(earlier), x.shape[1]), (np.nan, np.inf, 0.0)[k % 3])
            mask = np.arange(len(window) + len(padding)) < len(window)
            inputs = {"logits": np.vstack([window, padding]), "window_sums": sums, "sample_mask": mask}
            of_onnx, accept = session.run(["probabilities", "accept"], inputs)
            difference = np.abs(of_onnx[mask] - p).max()
            tally.check("windowed ONNX agrees", bool(difference <= TOLERANCE), name, problem, difference)
            check_accept(threshold, accept[mask], p, name, problem, tally)


def problems(seed: int) -> Iterator[Problem]:
    """Problems without end."""
    while True:
        yield make_problem(seed)
        seed += 1


def run(fits: int, exports: int, seed: int, n_problems: int) -> Tally:
    """Check at least this many fits, problems and exports."""
    tally = Tally()
    for problem in problems(10_000_000 * (seed + 1)):
        if tally.fits >= fits and tally.problems >= n_problems:
            break
        tally.problems += 1
        draws = np.random.default_rng([problem.seed, 4]).random(len(NAMES))
        for name, draw in zip(NAMES, draws, strict=True):
            if draw < (SLOW_SHARE if name in SLOW else 1) * SHARE:
                check_fits(name, problem, tally)
        for name in FEATURE_NAMES if problem.seed % FEATURE_STEP == 0 else ():
            check_layer_features(name, problem, tally)
    for problem in problems(10_000_000 * (seed + 1) + 5_000_000):
        if tally.exports >= exports:
            break
        for name in NAMES:
            check_exports(name, problem, tally)
    return tally


def main() -> int:
    """Run the campaign and print its counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=43_000)
    parser.add_argument("--problems", type=int, default=1_711)
    parser.add_argument("--exports", type=int, default=1_115)
    parser.add_argument("--seed", type=int, default=0)
    options, started = parser.parse_args(), time.perf_counter()
    tally = run(options.fits, options.exports, options.seed, options.problems)
    counts = {
        "problems": tally.problems,
        "fits": tally.fits,
        "exports": tally.exports,
        "seconds": round(time.perf_counter() - started),
    }
    broken = Counter(f"{entry['law']}: {entry['calibrator']}" for entry in tally.broken)
    print(json.dumps({**counts, "laws": tally.laws, "raised": tally.raised, "broken": broken}, indent=1))
    for entry in tally.broken[:200]:
        print(json.dumps(entry), file=sys.stderr)
    return 1 if tally.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
