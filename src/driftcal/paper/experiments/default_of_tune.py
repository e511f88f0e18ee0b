"""Not in the paper: what `tune` chooses by default, per sample and windowed, beside the paper's calibrators."""

from __future__ import annotations

from driftcal.calibrators import name_of
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.paper.calibrator_names import PAPER_METHODS, label
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Points
from driftcal.paper.setups.setup import Setup
from driftcal.paper.suite_results import evaluate_suite
from driftcal.pipeline.collecting.perturbation import with_simulated_shifts
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.pipeline.tuning.candidates import Selection
from driftcal.pipeline.tuning.tune_calibrators import tune_calibrators
from driftcal.report.table import Table, Value

#: Names of the two forms of the default.
_PER_SAMPLE, _WINDOWED = "tune", "tune-windowed"
_COLUMNS = {
    "network": "Network",
    "calibrator": "Calibrator",
    "in_domain": "ECE in domain",
    "under_shift": "Mean ECE under shift",
    "conditions": "ECE of single conditions",
    "brier": "Mean Brier score under shift",
    "gain": "Mean ECE below TS's",
}


def default_of_tune(context: ExperimentContext) -> ExperimentResult:
    """ECE and Brier score of the default of `tune`, with intervals, beside the uncalibrated model and the paper's."""
    rows: list[dict[str, Value]] = []
    figures, notes = [], []
    for setup in context.setups:
        default, explanation = _default(context, setup)
        notes.append(f"{setup.label}: {explanation}")
        candidates = [*context.candidates(setup, PAPER_METHODS), *default]
        results = evaluate_suite(
            context.collector(setup, setup.test), candidates, setup.shifts, suite=setup.suite,
            n_bins=context.settings.n_bins, n_resamples=context.settings.n_resamples, metadata=setup.metadata(),
        )  # fmt: skip
        points = {}
        for name in results.calibrators:
            row: dict[str, Value] = {
                "network": setup.label,
                "calibrator": _label(name, default),
                "in_domain": results.clean(name).ece,
                "under_shift": results.mean(name),
                "conditions": results.mean_of_conditions(name),
                "brier": results.mean(name, "brier"),
            }
            if results.replicates:
                gain = results.difference("ts", name)
                row["under_shift_low"], row["under_shift_high"] = results.interval(name)
                row["brier_low"], row["brier_high"] = results.interval(name, "brier")
                row |= {"gain": gain.value, "gain_low": gain.low, "gain_high": gain.high}
            rows.append(row)
            points[label(name)] = (results.clean(name).ece, results.mean(name))
        figures.append(_figure(setup, points))
    table = Table(
        "default",
        f"The default of tune beside the paper's calibrators; {context.settings.caption()}",
        _COLUMNS,
        rows,
        intervals=True,
    )
    notes.append(
        f"Windowed: windows of {WINDOW_SIZE} consecutive unlabelled images of one condition. ECE under shift is the mean over the "
        "shifts, each pooled over its levels; single conditions are one shift at one level, where opposite errors cannot cancel."
    )
    return ExperimentResult("default", "The default of tune", [table], figures, notes)


def _default(context: ExperimentContext, setup: Setup) -> tuple[list[Candidate], str]:
    """What `tune` chooses from the same levels of noise and its simulated shifts, per sample and windowed, and why."""
    collector = context.collector(setup, setup.validation)
    noise = context.settings.noise(setup.data)
    perturbed = with_simulated_shifts(context.perturbed(setup), noise, collector, setup.validation)
    tuned = tune_calibrators(None, Selection(), perturbed, collector.labels)
    candidates = [Candidate(_PER_SAMPLE, tuned.method, tuned.calibrator, tuned.tuned_on)]
    if tuned.windowed is not None:
        candidates.append(
            Candidate(_WINDOWED, name_of(tuned.windowed), tuned.windowed, "gaussian", window_size=WINDOW_SIZE)
        )
    return candidates, tuned.explanation


def _label(name: str, default: list[Candidate]) -> str:
    """The name in the table: the default with the method that was chosen."""
    for candidate in default:
        if candidate.name == name:
            form = "per sample" if candidate.window_size is None else "windowed"
            return f"tune, {form}: {label(candidate.method)}"
    return label(name)


def _figure(setup: Setup, points: dict[str, tuple[float, float]]) -> Points:
    return Points(
        f"default-{setup.name}",
        f"{setup.label}: the default of tune beside the paper's calibrators",
        "Each marker is a calibrator; the lower left corner is best. The ECE under shift is the mean over the shifts, each pooled "
        "over its levels. No suffix: tuned on clean images; -P: on levels of noise. TUNE: what tune chooses by default, for single "
        "samples; TUNE-WINDOWED: the form that follows a window of unlabelled images. TS: temperature scaling; IR: isotonic "
        "regression per class; IRM: one isotonic curve for all classes; ETS: ensemble temperature scaling.",
        points,
        "ECE in domain (clean images)",
        "mean ECE under shift",
    )
