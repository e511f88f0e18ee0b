"""Every table and figure of the paper by its id. An experiment is a function from a workbench to an outcome, and a line here."""

from __future__ import annotations

from collections.abc import Sequence

from driftcal.errors import UnknownName
from driftcal.paper.cases import Case
from driftcal.paper.experiments.beyond import beyond_paper, beyond_suites
from driftcal.paper.experiments.experiment import Experiment
from driftcal.paper.experiments.guideline import choose_guide
from driftcal.paper.experiments.images import show_examples
from driftcal.paper.experiments.means import (
    mean_baselines,
    mean_brier,
    mean_debiased,
    mean_delta,
    mean_ece,
    mean_nll,
)
from driftcal.paper.experiments.shifts import (
    accuracy_lost,
    ece_by_level,
    ece_per_shift,
    in_domain,
    one_shift,
    reliability,
)
from driftcal.paper.experiments.unknown import on_objectnet, out_of_distribution
from driftcal.paper.experiments.validation import other_shifts, other_sizes

#: id -> experiment, in the order of the paper
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment("table1", "mean ECE under drift of every calibrator", "Table 1, Fig. 3", mean_ece, other=True),
        Experiment("shear", "accuracy, entropy and ECE against the level of one shift", "Fig. 2", one_shift),
        Experiment("per-shift", "ECE of every shift, pooled over its levels", "Fig. 4", ece_per_shift),
        Experiment("by-level", "ECE and accuracy against the level of drift", "Fig. 7", ece_by_level),
        Experiment("teaser", "confidence against accuracy under drift", "Fig. 1, left", reliability),
        Experiment("examples", "images clean and drifted, and how sure each calibrator is", "Fig. 1, right", show_examples),
        Experiment("objectnet", "ECE on ObjectNet's classes that the network knows", "Fig. 5", on_objectnet, objectnet=True),
        Experiment("ood", "confidence where no answer is right", "Fig. 6", out_of_distribution, ood=True),
        Experiment("accuracy", "accuracy in domain, at the strongest level, and what calibrators change", "Appendix B.2", accuracy_lost),
        Experiment("in-domain", "ECE on untouched images", "Section 5.2", in_domain),
        Experiment("baselines", "Platt scaling and binning", "Appendix C.1", mean_baselines),
        Experiment("debiased", "mean debiased ECE under drift", "Appendix C.2", mean_debiased),
        Experiment("nll", "mean negative log-likelihood under drift", "Appendix C.2", mean_nll),
        Experiment("brier", "mean Brier score under drift", "Appendix C.2", mean_brier),
        Experiment("delta", "share of the ECE that tuning on noise takes away", "Appendix C.2", mean_delta),
        Experiment("val-size", "ECE and accuracy against the number of validation images", "Appendix C.3", other_sizes),
        Experiment("val-shift", "tuning on corruptions (-H) instead of on noise (-P)", "Appendix C.3", other_shifts, corruptions=True),
        Experiment("guide", "which calibrator to choose", "Appendix D", choose_guide),
        Experiment("beyond", "every calibrator, in domain and under drift, beside the paper's", "beyond it", beyond_paper, varied=True, inside=True, suites=beyond_suites),
    )
}  # fmt: skip


def chosen_experiments(name: str, cases: Sequence[Case]) -> tuple[list[Experiment], list[str]]:
    """The experiment of this name, or for ``all`` every one that these cases allow; and sentences on those they do not."""
    if name != "all" and name not in EXPERIMENTS:
        raise UnknownName.of("experiment", name, [*EXPERIMENTS, "all"])
    wanted = list(EXPERIMENTS.values()) if name == "all" else [EXPERIMENTS[name]]
    lacking = {experiment.name: experiment.lacks(cases) for experiment in wanted}
    return (
        [experiment for experiment in wanted if not lacking[experiment.name]],
        [f"{experiment}: {reason}" for experiment, reason in lacking.items() if reason],
    )


__all__ = ["EXPERIMENTS", "Experiment", "chosen_experiments"]
