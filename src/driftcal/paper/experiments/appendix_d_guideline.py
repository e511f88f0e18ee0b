"""Appendix D: which calibrator to choose, by the paper's guidelines and by these numbers."""

from __future__ import annotations

from dataclasses import dataclass

from driftcal.paper.calibrator_names import BASELINE_METHODS, PAPER_METHODS, label, with_suffixes
from driftcal.paper.captions import ECE_CAPTION, method_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Points
from driftcal.paper.setups.setup import Setup
from driftcal.paper.suite_results import SuiteResults
from driftcal.report.table import Table, Value

_CALIBRATORS = with_suffixes((*PAPER_METHODS, *BASELINE_METHODS), "", "-p")


@dataclass(frozen=True)
class _Situation:
    """A situation of the paper's guidelines, the paper's advice, and the ECE that is compared here."""

    description: str
    advice: str
    decided_by: str
    keeps_accuracy: bool = False


_SITUATIONS = (
    _Situation("in domain above all", "IR-P or TS-IR-P", "in_domain"),
    _Situation("in domain and shift alike", "IR-P or IRM-P", "both"),
    _Situation("accuracy must stay, shift of any size", "IRM-P or ETS-P", "under_shift", keeps_accuracy=True),
    _Situation("accuracy must stay, large shift", "TS-P or ETS-P", "strongest", keeps_accuracy=True),
    _Situation("truly unknown data", "IRM-P or ETS-P", "strongest"),
)


def guideline(context: ExperimentContext) -> ExperimentResult:
    """Every calibrator in domain and under shift, and the best one for each situation of the paper's guidelines."""
    calibrator_rows: list[dict[str, Value]] = []
    advice_rows: list[dict[str, Value]] = []
    figures = []
    for setup in context.setups:
        results = context.suite_results(setup)
        keeps_accuracy = {info.name: info.keeps_accuracy for info in results.results.calibrators}
        errors = {name: _errors(results, name) for name in _CALIBRATORS}
        for name in _CALIBRATORS:
            keeps = "yes" if keeps_accuracy[name] else "no"
            calibrator_rows.append({"network": setup.label, "calibrator": label(name), "keeps": keeps, **errors[name]})
        for situation in _SITUATIONS:
            key = situation.decided_by
            allowed = [name for name in _CALIBRATORS if keeps_accuracy[name] or not situation.keeps_accuracy]
            best = min(allowed, key=lambda name: errors[name][key])
            advice_rows.append(
                {
                    "network": setup.label,
                    "situation": situation.description,
                    "advice": situation.advice,
                    "best": label(best),
                    "ece": errors[best][key],
                    "advised": min(errors[name.lower()][key] for name in situation.advice.split(" or ")),
                }
            )
        figures.append(_figure(setup, errors))
    calibrators = Table(
        "guide",
        "ECE of every calibrator in domain and under shift (lower is better)",
        {
            "network": "Network",
            "calibrator": "Calibrator",
            "keeps": "Keeps accuracy",
            "in_domain": "In domain",
            "under_shift": "Mean under shift",
            "both": "Mean of both",
            "strongest": "Strongest level",
        },
        calibrator_rows,
    )
    advice = Table(
        "guide-advice",
        "The paper's guidelines and the best calibrator of these numbers",
        {
            "network": "Network",
            "situation": "What matters",
            "advice": "The paper advises",
            "advised": "ECE of the better one",
            "best": "Best of these numbers",
            "ece": "its ECE",
        },
        advice_rows,
    )
    note = (
        "These choices use test data. In practice there are only validation data: driftcal tune --method auto chooses from "
        "them alone."
    )
    return ExperimentResult("guide", "Which calibrator to choose", [advice, calibrators], figures, [note])


def _errors(results: SuiteResults, calibrator: str) -> dict[str, float]:
    in_domain, under_shift = results.clean(calibrator).ece, results.mean(calibrator)
    return {
        "in_domain": in_domain,
        "under_shift": under_shift,
        "both": (in_domain + under_shift) / 2,
        "strongest": results.mean_at_strongest_level(calibrator),
    }


def _figure(setup: Setup, errors: dict[str, dict[str, float]]) -> Points:
    return Points(
        f"guide-{setup.name}",
        f"{setup.label}: ECE in domain against ECE under shift",
        "Each point is a calibrator; the lower left corner is best. Hollow: tuned on clean images; filled: tuned on noise "
        f"(-P). {method_legend(_CALIBRATORS)} {ECE_CAPTION}",
        {label(name): (ece["in_domain"], ece["under_shift"]) for name, ece in errors.items()},
        "ECE in domain",
        "mean ECE under shift",
    )
