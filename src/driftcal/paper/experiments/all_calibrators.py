"""Not in the paper: all calibrators of driftcal, compared in domain and under shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from driftcal.calibrators import CALIBRATORS, PAPER_CALIBRATORS, Calibrator
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.paper.available_features import AvailableFeatures
from driftcal.paper.calibrator_names import PAPER_METHODS, label
from driftcal.paper.experiment_context import ExperimentContext, capped
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Points
from driftcal.paper.setups.setup import Setup
from driftcal.paper.suite_results import SuiteResults, evaluate_suite
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.collecting.perturbation import perturb, with_simulated_shifts
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.pipeline.tuning.fit import fit_on_levels
from driftcal.report.table import Table, Value
from driftcal.shifts import get_shift

#: Weight of the clean samples for the suffix -C; chosen on validation images, see benchmarks/notebook/beyond.md.
CLEAN_WEIGHT = 0.7
#: Method -> weight of the clean samples for the suffix -V, whose varied shifts are milder than noise. None: the clean
#: samples have the weight of one level.
VARIED_CLEAN_WEIGHT: dict[str, float | None] = {"hts": 0.3, "pts": 0.3, "dac": 0.3, "md-ts": 0.3, "dac-pts": None}

#: Keys of a row that are averaged over the networks.
_AVERAGED = ("under_shift", "conditions", "in_domain", "worst", "brier", "nll", "gain")
_COLUMNS = {
    "calibrator": "Calibrator",
    "needs": "Needs",
    "under_shift": "ECE under shift",
    "ratio_to_ts": "× TS",
    "ratio_to_best_p": "× best -P",
    "conditions": "ECE of single conditions",
    "in_domain": "ECE in domain",
    "in_domain_ratio_to_ts": "× TS's",
    "worst": "Worst shift",
    "brier": "Brier",
    "nll": "NLL",
    "gain": "Brier below best -P",
}
_NOTES = (
    "Suffixes: none, tuned on clean images (LEVEL-TS: on levels of noise; WINDOW-TS: on simulated shifts, as in tune); -P, on levels of noise as in the paper; "
    f"-C, the same with clean images weighing {CLEAN_WEIGHT:g}; -V, on levels of varied shifts, none of them in a suite "
    f"(HTS, PTS, DAC and MD-TS with clean images weighing {VARIED_CLEAN_WEIGHT['pts']:g}). Calibrators that need a window "
    f"read {WINDOW_SIZE} consecutive unlabelled samples of one condition at a time. Those that need features read the ends of the "
    "network's last stages; with training images, they compare with those. All of them were tuned on validation images alone.",
    "Ratios compare with temperature scaling tuned on clean images (TS) and with the best -P: the lowest ECE under shift of "
    "TS-P, ETS-P, TS-IR-P, IR-P and IRM-P. ECE under shift is the mean over the shifts, each pooled over its levels; single "
    "conditions are one shift at one level, where opposite errors cannot cancel.",
)


def all_calibrators(context: ExperimentContext) -> ExperimentResult:
    """ECE in domain, ECE, Brier score and NLL under shift of all calibrators on every suite, with paired intervals."""
    by_suite: dict[str, list[dict[str, dict[str, Value]]]] = {}
    network_rows: list[dict[str, Value]] = []
    pareto_rows: list[dict[str, Value]] = []
    figures, notes = [], list(_NOTES)
    for setup in context.setups:
        features = AvailableFeatures.of(context, setup)
        notes += _unavailable_notes(setup, features)
        candidates = _candidates(context, setup, features)
        for suite, shifts in setup.all_suites.items():
            results = evaluate_suite(
                context.collector(setup, setup.test), candidates, shifts, suite=suite,
                n_bins=context.settings.n_bins, n_resamples=context.settings.n_resamples, metadata=setup.metadata(),
                layers=features.layers,
            )  # fmt: skip
            setup_and_suite = {"network": setup.label, "suite": suite}
            rows = _rows(results)
            by_suite.setdefault(suite, []).append(rows)
            network_rows += [{**setup_and_suite, **row} for row in rows.values()]
            points = {name: (results.clean(name).ece, results.mean(name)) for name in results.calibrators}
            pareto_front = _pareto_front(points)
            pareto_rows.append({**setup_and_suite, "front": ", ".join(map(label, pareto_front))})
            figures.append(_figure(setup, suite, points, pareto_front))
    mean_rows = [{"suite": suite, **row} for suite, networks in by_suite.items() for row in _mean_rows(networks)]
    title, settings = "All calibrators in domain and under shift", context.settings.caption()
    setup_columns = {"network": "Network", "suite": "Suite"}
    return ExperimentResult(
        "beyond", "All calibrators of driftcal",
        [
            Table("beyond", f"{title}, mean over the networks; {settings}", {"suite": "Suite", **_COLUMNS}, mean_rows),
            Table("beyond-networks", f"{title}, each network; {settings}", setup_columns | _COLUMNS, network_rows, intervals=True),
            Table("beyond-front", "Pareto front: no other calibrator is better in domain and under shift",
                  setup_columns | {"front": "On the Pareto front"}, pareto_rows),
        ],
        figures, notes,
    )  # fmt: skip


def _unavailable_notes(setup: Setup, features: AvailableFeatures) -> list[str]:
    notes = []
    for reason in dict.fromkeys(features.unavailable.values()):
        names = ", ".join(label(name) for name, other in features.unavailable.items() if other == reason)
        notes.append(f"{setup.label} is without {names}, which need layer features: {reason}.")
    return notes


def _candidates(context: ExperimentContext, setup: Setup, features: AvailableFeatures) -> list[Candidate]:
    """The paper's calibrators tuned on clean samples and on noise, and all calibrators with the other tunings."""
    collector = context.collector(setup, setup.validation)
    noise, varied = context.settings.noise(setup.data), get_shift("varied")
    on_noise = with_simulated_shifts(context.perturbed(setup), noise, collector, setup.validation)
    on_varied = perturb(collector, varied, n_levels=context.settings.n_levels)
    noise_features = varied_features = CollectedFeatures()
    if features.methods:
        noise_features = features.at_levels(context, setup, noise, on_noise.record or {})
        varied_features = features.at_levels(context, setup, varied, on_varied.record or {})

    def fit(method: str, suffix: str = "-p", clean_weight: float | None = None) -> Candidate:
        perturbed, level_features = (on_varied, varied_features) if suffix == "-v" else (on_noise, noise_features)
        fitted = fit_on_levels(
            capped(method, context.settings.t_max), perturbed, collector.labels, clean_weight=clean_weight,
            features=level_features.for_method(method),
        )  # fmt: skip
        tuned_on = {"-v": "varied", "-c": f"gaussian, clean {CLEAN_WEIGHT:g}"}.get(suffix, "gaussian")
        window_size = WINDOW_SIZE if CALIBRATORS[method].needs_window else None
        return Candidate(f"{method}{suffix}", method, fitted.calibrator, tuned_on, fitted.warnings, window_size)

    per_sample = [
        name
        for name, kind in CALIBRATORS.items()
        if name not in PAPER_CALIBRATORS
        and not kind.needs_window
        and (not kind.needs_features or name in features.methods)
    ]
    windowed = [name for name, kind in CALIBRATORS.items() if kind.needs_window]
    return [
        *context.candidates(setup, PAPER_METHODS),
        *(fit(name) for name in per_sample),
        *(fit(name, "-c", CLEAN_WEIGHT) for name in (*PAPER_METHODS, *per_sample)),
        *(fit(name, "") for name in windowed),
        *(fit(name, "-v") for name in (*PAPER_METHODS, *windowed) if not CALIBRATORS[name].uses_families),
        *(fit(name, "-v", VARIED_CLEAN_WEIGHT[name]) for name in ("hts", "pts", *features.methods)),
    ]


def _needs(kind: type[Calibrator]) -> str:
    """What a calibrator needs in addition to the logits of one sample."""
    if kind.needs_window:
        return f"window of {WINDOW_SIZE}"
    if not kind.needs_features:
        return "nothing"
    return "features, training images" if kind.needs_reference else "features"


def _best_p(under_shift: Mapping[str, Any]) -> str:
    """The paper's calibrator with the lowest ECE under shift."""
    return min((f"{method}-p" for method in PAPER_METHODS), key=lambda name: under_shift[name])


def _rows(results: SuiteResults) -> dict[str, dict[str, Value]]:
    """The row of each calibrator on one network."""
    best = _best_p({name: results.mean(name) for name in results.calibrators})
    rows: dict[str, dict[str, Value]] = {}
    for info in results.results.calibrators:
        name = info.name
        row: dict[str, Value] = {
            "calibrator": label(name),
            "needs": _needs(CALIBRATORS[info.method]),
            "under_shift": results.mean(name),
            "conditions": results.mean_of_conditions(name),
            "in_domain": results.clean(name).ece,
            "worst": max(results.row(name, shift).ece for shift in results.shifts()),
            "brier": results.mean(name, "brier"),
            "nll": results.mean(name, "nll"),
            "gain": results.mean(best, "brier") - results.mean(name, "brier"),
        }
        if results.replicates:
            gain = results.difference(best, name, "brier")
            row["under_shift_low"], row["under_shift_high"] = results.interval(name)
            row["brier_low"], row["brier_high"] = results.interval(name, "brier")
            row["gain_low"], row["gain_high"] = gain.low, gain.high
        rows[name] = row
    return _with_ratios(rows)


def _with_ratios(rows: dict[str, dict[str, Value]]) -> dict[str, dict[str, Value]]:
    """The rows with their ratios to temperature scaling and to the paper's best -P."""
    under_shift = {name: float(row["under_shift"] or 0) for name, row in rows.items()}
    in_domain = {name: float(row["in_domain"] or 0) for name, row in rows.items()}
    best = under_shift[_best_p(under_shift)]
    return {
        name: row
        | {
            "ratio_to_ts": under_shift[name] / under_shift["ts"],
            "ratio_to_best_p": under_shift[name] / best,
            "in_domain_ratio_to_ts": in_domain[name] / in_domain["ts"],
        }
        for name, row in rows.items()
    }


def _mean_rows(networks: Sequence[dict[str, dict[str, Value]]]) -> list[dict[str, Value]]:
    """Every calibrator that all networks have, averaged over them; ratios are those of the averages."""
    common = [name for name in networks[0] if all(name in rows for rows in networks)]
    means: dict[str, dict[str, Value]] = {}
    for name in common:
        averages = {key: float(np.mean([float(rows[name][key] or 0) for rows in networks])) for key in _AVERAGED}
        means[name] = {**{key: networks[0][name][key] for key in ("calibrator", "needs")}, **averages}
    return list(_with_ratios(means).values())


def _pareto_front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """The calibrators for which no other is better both in domain and under shift, ordered by ECE in domain.

    >>> _pareto_front({"a": (0.1, 0.3), "b": (0.2, 0.2), "c": (0.3, 0.25)})
    ['a', 'b']
    """
    lowest = np.inf
    pareto_front = []
    for name, (_, under_shift) in sorted(points.items(), key=lambda item: item[1]):
        if under_shift < lowest:
            pareto_front.append(name)
            lowest = under_shift
    return pareto_front


def _figure(setup: Setup, suite: str, points: Mapping[str, tuple[float, float]], pareto_front: Sequence[str]) -> Points:
    return Points(
        f"beyond-{setup.name}-{suite}",
        f"{setup.label}, {suite}: ECE in domain against ECE under shift",
        "Each marker is a calibrator; the lower left corner is best. The ECE under shift is the mean over the shifts, each pooled "
        "over its levels. Colour and shape show the method, the filled part what it was tuned on: no suffix, clean images (windowed "
        f"methods: levels of noise or simulated shifts); -P, levels of noise; -C, levels of noise with clean images weighing {CLEAN_WEIGHT:g}; -V, levels of "
        "varied shifts. The line is the Pareto front: no calibrator is better in domain and under shift than those on it.",
        {label(name): point for name, point in points.items()},
        "ECE in domain (clean images)",
        f"mean ECE under shift ({suite} suite)",
        pareto_front=[label(name) for name in pareto_front],
    )
