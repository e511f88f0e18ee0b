"""Which calibrator to choose: the paper's advice beside what these numbers say."""

from __future__ import annotations

import numpy as np

from driftcal.paper.cases import Case
from driftcal.paper.experiments.captions import ECE, who_is_who
from driftcal.paper.experiments.experiment import label, with_suffix
from driftcal.paper.outcome import Outcome, Points, Table, Value
from driftcal.paper.sweep import Sweep
from driftcal.paper.workbench import METHODS, Workbench

_NAMES = with_suffix(METHODS, "", "-p")
#: The situation, what the paper advises in it, and what decides it here.
_ADVICE = {
    "in domain above all": ("IR-P or TS-IR-P", "in_domain", False),
    "in domain and drift alike": ("IR-P or IRM-P", "both", False),
    "accuracy must stay, drift of any size": ("IRM-P or ETS-P", "drift", True),
    "accuracy must stay, large drift": ("TS-P or ETS-P", "strongest", True),
    "truly unknown data": ("IRM-P or ETS-P", "strongest", False),
}


def choose_guide(bench: Workbench) -> Outcome:
    """Every calibrator's price in domain and gain under drift, and the best for each situation of the paper's guidelines."""
    rows: list[dict[str, Value]] = []
    best: list[dict[str, Value]] = []
    figures = []
    for case in bench.cases:
        sweep = bench.sweep(case)
        keeps = {info.name: info.keeps_accuracy for info in sweep.results.calibrators}
        numbers = {name: _numbers(sweep, name) for name in _NAMES}
        for name in _NAMES:
            rows.append(
                {
                    "network": case.label,
                    "calibrator": label(name),
                    "keeps": "yes" if keeps[name] else "no",
                    **numbers[name],
                }
            )
        for situation, (advice, key, must_keep) in _ADVICE.items():
            allowed = [name for name in _NAMES if keeps[name] or not must_keep]
            ranked = sorted(allowed, key=lambda name: numbers[name][key])
            best.append(
                {
                    "network": case.label,
                    "situation": situation,
                    "advice": advice,
                    "best": label(ranked[0]),
                    "ece": numbers[ranked[0]][key],
                    "advised": min(numbers[name.lower()][key] for name in advice.split(" or ")),
                }
            )
        figures.append(_points(case, numbers))
    table = Table(
        "guide",
        "Price in domain and gain under drift of every calibrator (ECE, lower is better)",
        {
            "network": "Network",
            "calibrator": "Calibrator",
            "keeps": "Keeps accuracy",
            "in_domain": "In domain",
            "drift": "Mean under drift",
            "both": "Mean of both",
            "strongest": "Strongest level",
        },
        rows,
    )
    beside = Table(
        "guide-advice",
        "The paper's guidelines beside the best calibrator of these numbers",
        {
            "network": "Network",
            "situation": "What matters",
            "advice": "The paper advises",
            "advised": "ECE of the better one",
            "best": "Best here",
            "ece": "its ECE",
        },
        best,
    )
    note = (
        "These choices look at test data. For a choice from validation data alone, which is what one has, use "
        "driftcal tune --method auto."
    )
    return Outcome("guide", "Which calibrator to choose", [beside, table], figures, [note])


def _numbers(sweep: Sweep, name: str) -> dict[str, float]:
    clean, drift = sweep.clean(name).ece, sweep.mean(name)
    last = {shift.name: shift.levels[-1] for shift in sweep.results.shifts}
    strongest = float(np.mean([sweep.row(name, shift, last[shift]).ece for shift in sweep.shifts()]))
    return {"in_domain": clean, "drift": drift, "both": (clean + drift) / 2, "strongest": strongest}


def _points(case: Case, numbers: dict[str, dict[str, float]]) -> Points:
    return Points(
        f"guide-{case.name}",
        f"{case.label}: price in domain against gain under drift",
        "Each point is a calibrator: to the left it is honest on untouched images, below under drift; the lower left corner is "
        f"the place to be. Hollow: tuned on clean images; filled: tuned on noise (-P). {who_is_who(_NAMES)} {ECE}",
        {label(name): (found["in_domain"], found["drift"]) for name, found in numbers.items()},
        "ECE in domain",
        "mean ECE under drift",
    )
