"""Beyond the paper: every calibrator there is, in domain and under drift, beside the best that the paper offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from driftcal.calibrators import CALIBRATORS, PAPER_CALIBRATORS, Calibrator
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW
from driftcal.paper.cases import Case
from driftcal.paper.experiments.experiment import label
from driftcal.paper.layer_features import Inside
from driftcal.paper.outcome import Outcome, Points, Table, Value
from driftcal.paper.sweep import Sweep, run_sweep
from driftcal.paper.workbench import PAPER, Workbench
from driftcal.pipeline.evaluate import Candidate
from driftcal.pipeline.layer_features import CollectedFeatures
from driftcal.pipeline.tune import climb, fit_on_levels
from driftcal.shifts import get_shift, get_suite
from driftcal.shifts.shift import Shift

#: Share of the clean rows in calibrators with the suffix -c; settled on validation images, see docs/research.md.
CLEAN_WEIGHT = 0.7
#: The same for those with a temperature for each row, on varied drift, which is milder than noise; none for one that sees
#: from logits and features together whether a row is clean.
VARIED_CLEAN_WEIGHT: dict[str, float | None] = {"hts": 0.3, "pts": 0.3, "dac": 0.3, "md-ts": 0.3, "dac-pts": None}
#: What is not averaged in the corruption suite: it is the tuning noise under another name.
_TOO_NEAR = ("gaussian_noise",)
#: In-domain ECE may be so much above temperature scaling's where a method counts as having solved both.
_SOLVED = 0.01


def beyond_paper(bench: Workbench) -> Outcome:
    """In-domain ECE, ECE, Brier and NLL under drift of all calibrators on every suite, with paired intervals."""
    scores: dict[str, list[_Score]] = {}
    rows: list[dict[str, Value]] = []
    fronts: list[dict[str, Value]] = []
    figures = []
    notes: list[str] = []
    for case in bench.cases:
        inside = Inside.of(bench, case)
        candidates = _candidates(bench, case, inside)
        for why in dict.fromkeys(inside.others.values()):
            absent = ", ".join(label(name) for name, reason in inside.others.items() if reason == why)
            notes.append(f"{case.label} is without {absent}, which look inside the network: {why}.")
        for suite, shifts in beyond_suites(case).items():
            sweep = run_sweep(
                bench.collector(case, case.test), candidates, shifts, suite=suite, n_bins=bench.settings.n_bins,
                left_out=_TOO_NEAR, draws=bench.draws, about=case.describe(), layers=inside.layers,
            )  # fmt: skip
            found = _score(sweep, bench.draws > 0)
            scores.setdefault(suite, []).append(found)
            rows += [{"network": case.label, "suite": suite, **row} for row in found.rows]
            front = _front(found.points)
            fronts.append({"network": case.label, "suite": suite, "front": ", ".join(label(name) for name in front)})
            figures.append(_points(case, suite, found.points, front))
    means = [{"suite": suite, **row} for suite, found in scores.items() for row in _mean_rows(found)]
    return Outcome(
        "beyond", "Beyond the paper: honest in domain and under drift",
        [
            Table("beyond", _title(bench, "mean over the networks"), {"suite": "Suite", **_COLUMNS}, means),
            Table("beyond-networks", _title(bench, "each network"), {"network": "Network", "suite": "Suite", **_COLUMNS}, rows, intervals=True),
            Table("beyond-front", "Pareto front: no other calibrator is better in domain and under drift", {"network": "Network", "suite": "Suite", "front": "On the front"}, fronts),
        ],
        figures, (*_NOTES, *notes),
    )  # fmt: skip


_COLUMNS = {
    "calibrator": "Calibrator",
    "needs": "Needs",
    "drift": "ECE under drift",
    "ratio": "× best -P",
    "clean": "ECE in domain",
    "clean_ratio": "× best -P's",
    "worst": "Worst shift",
    "brier": "Brier",
    "nll": "NLL",
    "gain": "Brier below best -P",
    "verdict": "Verdict",
}
_NOTES = (
    "Suffixes: none, tuned on clean images; -P, on the noise ladder as in the paper; "
    f"-C, on the ladder with clean images weighing {CLEAN_WEIGHT:g}; -V, on a ladder of varied drift, none of it in a suite "
    f"(HTS, PTS, DAC and MD-TS with clean images weighing {VARIED_CLEAN_WEIGHT['pts']:g}). Calibrators that need a window see {WINDOW} consecutive unlabelled "
    "rows of one condition at a time; those that need features look at where the last stages of the network end, "
    "and with training images, at how far a row lies from them. All of them were tuned on validation images alone; no shift of a suite was used.",
    "Best -P is the lowest ECE under drift among TS-P, ETS-P, TS-IR-P, IR-P and IRM-P. Better than the paper: its Brier score under "
    "drift is lower beyond its 95 % interval (paired over images) and its in-domain ECE is at most half. Solved: the "
    f"same, and in-domain ECE within {_SOLVED:g} of standard TS.",
)


def _title(bench: Workbench, what: str) -> str:
    return f"All calibrators in domain and under drift, {what}; {bench.settings.describe()}"


def _candidates(bench: Workbench, case: Case, inside: Inside) -> list[Candidate]:
    """The paper's with both tunings; every other one on the ladder, with clean rows weighing more, and on varied drift."""
    listed = bench.candidates(case, PAPER)
    labels, (record, parts) = bench.collector(case, case.validation).labels, bench.ladder(case)
    t_max, drift = bench.settings.t_max, get_shift("varied")
    varied_record, varied = climb(bench.collector(case, case.validation), drift, levels=bench.settings.levels)
    seen = {"noise": CollectedFeatures(), "varied": CollectedFeatures()}
    if inside.methods:
        seen["noise"] = inside.on(bench, case, bench.settings.noise(case.data), record)
        seen["varied"] = inside.on(bench, case, drift, varied_record or {})

    def fit(name: str, method: str, tuned_on: str, clean_weight: float | None = None) -> Candidate:
        ladder = "varied" if tuned_on == "varied" else "noise"
        by_level = varied if ladder == "varied" else parts
        beside = seen[ladder].beside(method)
        calibrator, words = fit_on_levels(method, by_level, labels, t_max, clean_weight, **beside)
        return Candidate(name, method, calibrator, tuned_on, [words] if words else [])

    others = [
        name
        for name, kind in CALIBRATORS.items()
        if name not in PAPER_CALIBRATORS and not kind.adaptive and (not kind.needs_features or name in inside.methods)
    ]
    adaptive = [name for name, kind in CALIBRATORS.items() if kind.adaptive]
    heavier = f"gaussian, clean {CLEAN_WEIGHT:g}"
    return [
        *listed,
        *(fit(f"{name}-p", name, "gaussian") for name in others),
        *(fit(f"{name}-c", name, heavier, CLEAN_WEIGHT) for name in (*PAPER, *others)),
        *(fit(name, name, "gaussian") for name in adaptive),
        *(fit(f"{name}-v", name, "varied") for name in (*PAPER, *adaptive) if name not in ("atc-ec", "doc-ec")),
        *(fit(f"{name}-v", name, "varied", VARIED_CLEAN_WEIGHT[name]) for name in ("hts", "pts", *inside.methods)),
    ]


def beyond_suites(case: Case) -> dict[str, Sequence[Shift]]:
    """The case's own suite, and the simulated corruptions beside the affine one where images have colour."""
    found: dict[str, Sequence[Shift]] = {case.suite: case.shifts}
    if case.suite == "affine" and case.data == "cifar10":
        found["cifar10-c"] = get_suite("cifar10-c").shifts
    return found


@dataclass(frozen=True)
class _Score:
    rows: Sequence[dict[str, Value]]
    points: Mapping[str, tuple[float, float]]


def _needs(kind: type[Calibrator]) -> str:
    """What a calibrator needs beside the logits of one row."""
    if kind.adaptive:
        return f"window of {WINDOW}"
    return ("features, training images" if kind.needs_reference else "features") if kind.needs_features else "nothing"


def _best_paper(drift: Mapping[str, float]) -> str:
    return min((f"{method}-p" for method in PAPER), key=lambda name: drift[name])


def _score(sweep: Sweep, intervals: bool) -> _Score:
    names = sweep.names
    drift = {name: sweep.mean(name) for name in names}
    clean = {name: sweep.clean(name).ece for name in names}
    best = _best_paper(drift)
    rows: list[dict[str, Value]] = []
    kinds = {info.name: CALIBRATORS[info.method] for info in sweep.results.calibrators}
    for name in names:
        row: dict[str, Value] = {
            "calibrator": label(name),
            "needs": _needs(kinds[name]),
            "drift": drift[name],
            "ratio": drift[name] / drift[best],
            "clean": clean[name],
            "clean_ratio": clean[name] / clean[best],
            "worst": max(sweep.row(name, shift).ece for shift in sweep.shifts()),
            "brier": sweep.mean(name, "brier"),
            "nll": sweep.mean(name, "nll"),
            "gain": sweep.mean(best, "brier") - sweep.mean(name, "brier"),
            "verdict": "best -P" if name == best else "",
        }
        if intervals:
            row["drift_low"], row["drift_high"] = sweep.interval(name)
            row["brier_low"], row["brier_high"] = sweep.interval(name, "brier")
            _, gain_low, row["gain_high"] = sweep.difference(best, name, "brier")
            row["gain_low"] = gain_low
            if gain_low > 0 and clean[name] <= clean[best] / 2:
                row["verdict"] = "solved" if clean[name] <= clean["ts"] + _SOLVED else "better than the paper"
        rows.append(row)
    return _Score(rows, {name: (clean[name], drift[name]) for name in names})


def _mean_rows(found: Sequence[_Score]) -> list[dict[str, Value]]:
    """Every calibrator that all networks have averaged over them, ratios of the averages."""
    by_name = [dict(zip(score.points, score.rows, strict=True)) for score in found]

    def mean(name: str, key: str) -> float:
        return float(np.mean([float(rows[name][key] or 0) for rows in by_name]))

    names = [name for name in by_name[0] if all(name in rows for rows in by_name)]
    drift = {name: mean(name, "drift") for name in names}
    best = _best_paper(drift)
    clean = mean(best, "clean")
    rows: list[dict[str, Value]] = []
    for name in names:
        verdicts = {str(one[name]["verdict"]) for one in by_name}
        rows.append(
            {
                "calibrator": label(name),
                "needs": by_name[0][name]["needs"],
                **{key: mean(name, key) for key in ("drift", "clean", "worst", "brier", "nll", "gain")},
                "ratio": drift[name] / drift[best],
                "clean_ratio": mean(name, "clean") / clean,
                "verdict": "best -P" if name == best else verdicts.pop() if len(verdicts) == 1 else "differs",
            }
        )
    return rows


def _front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """The calibrators that no other beats in domain and under drift at once, from left to right.

    >>> _front({"a": (0.1, 0.3), "b": (0.2, 0.2), "c": (0.3, 0.25)})
    ['a', 'b']
    """
    lowest = np.inf
    front = []
    for name, (_, y) in sorted(points.items(), key=lambda item: item[1]):
        if y < lowest:
            front.append(name)
            lowest = y
    return front


def _points(case: Case, suite: str, points: Mapping[str, tuple[float, float]], front: Sequence[str]) -> Points:
    return Points(
        f"beyond-{case.name}-{suite}",
        f"{case.label}, {suite}: in domain against drift",
        "Each marker is a calibrator: the further left, the more honest it is on untouched images; the lower, the more honest under "
        "drift (mean over the shifts, each pooled over its levels). Colour and shape tell the method, the filled part what it was tuned on: "
        "no suffix, clean images (methods that follow a window: the noise ladder); -P, the noise ladder; -C, the noise ladder with "
        f"clean images weighing {CLEAN_WEIGHT:g}; -V, a ladder of varied drift. The line is the Pareto front: below and left of it is nothing, "
        "and those named on it are beaten at both by none.",
        {label(name): value for name, value in points.items()},
        "ECE in domain (untouched images)",
        f"mean ECE under drift ({suite} suite)",
        front=[label(name) for name in front],
    )
