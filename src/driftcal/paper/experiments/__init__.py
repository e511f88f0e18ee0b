"""The experiments of the paper: a list, and a file for each table or figure.

An experiment is a function ``(ExperimentContext) -> ExperimentResult`` and an entry of the list. Its file is imported
when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from driftcal.errors import UnknownName

if TYPE_CHECKING:
    from driftcal.paper.experiment_context import ExperimentContext
    from driftcal.paper.experiment_result import ExperimentResult
    from driftcal.paper.setups.setup import Setup

#: What an experiment may need in addition to the perturbation levels and the test images under the suite.
Need = Literal[
    "both settings", "h-tuning", "objectnet", "out of distribution", "varied shifts", "features", "all suites"
]


@dataclass(frozen=True)
class Experiment:
    """A table or figure: its name, what it shows, where it is in the paper, and ``module:function``."""

    name: str
    title: str
    where: str
    function: str
    needs: tuple[Need, ...] = ()

    def run(self, context: ExperimentContext) -> ExperimentResult:
        """Run the experiment."""
        module, function = self.function.split(":")
        result: ExperimentResult = getattr(import_module(f"{__name__}.{module}"), function)(context)
        return result

    def missing_data(self, setups: Sequence[Setup]) -> str:
        """The data that these setups lack for the experiment; "" if they have all."""
        if "objectnet" in self.needs and all(setup.objectnet is None for setup in setups):
            return "needs ObjectNet and a network with ImageNet's outputs: --data imagenet=DIR --data objectnet=DIR"
        return ""


#: Name -> experiment, in the order of the paper.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment("table1", "mean ECE under shift of every calibrator", "Table 1, Fig. 3",
                   "table1_and_figure3_mean_ece:mean_ece", ("both settings",)),
        Experiment("shear", "accuracy, entropy and ECE against the level of one shift", "Fig. 2",
                   "figure2_one_shift:one_shift"),
        Experiment("per-shift", "ECE of every shift, pooled over its levels", "Fig. 4",
                   "figure4_each_shift:each_shift"),
        Experiment("by-level", "ECE and accuracy against the level of shift", "Fig. 7",
                   "figure7_by_level:by_level"),
        Experiment("teaser", "confidence against accuracy under shift", "Fig. 1, left",
                   "figure1_reliability:reliability"),
        Experiment("examples", "clean and shifted images with the confidence of each calibrator", "Fig. 1, right",
                   "figure1_examples:examples"),
        Experiment("objectnet", "ECE on ObjectNet's classes that the network knows", "Fig. 5",
                   "figure5_objectnet:known_classes", ("objectnet",)),
        Experiment("ood", "confidence on out-of-distribution data", "Fig. 6",
                   "figure6_out_of_distribution:out_of_distribution", ("out of distribution",)),
        Experiment("accuracy", "accuracy in domain and at the strongest level, and what calibrators change",
                   "Appendix B.2", "appendix_b_accuracy:accuracy"),
        Experiment("in-domain", "ECE on clean images", "Section 5.2", "section5_in_domain:in_domain"),
        Experiment("baselines", "Platt scaling and binning", "Appendix C.1", "appendix_c_metrics:baselines"),
        Experiment("debiased", "mean debiased ECE under shift", "Appendix C.2", "appendix_c_metrics:debiased_ece"),
        Experiment("nll", "mean negative log-likelihood under shift", "Appendix C.2", "appendix_c_metrics:nll"),
        Experiment("brier", "mean Brier score under shift", "Appendix C.2", "appendix_c_metrics:brier"),
        Experiment("delta", "relative reduction of the ECE by tuning on noise", "Appendix C.2",
                   "appendix_c_metrics:delta_ece"),
        Experiment("val-size", "ECE and accuracy against the number of validation images", "Appendix C.3",
                   "appendix_c_validation_size:validation_size"),
        Experiment("val-shift", "tuning on corruptions (-H) instead of on noise (-P)", "Appendix C.3",
                   "appendix_c_validation_shift:validation_shift", ("h-tuning",)),
        Experiment("guide", "which calibrator to choose", "Appendix D", "appendix_d_guideline:guideline"),
        Experiment("claims", "every claim of the paper with a verdict", "all sections", "claims:claims", ("h-tuning",)),
        Experiment("default", "what tune chooses by default, per sample and windowed", "not in the paper",
                   "default_of_tune:default_of_tune"),
        Experiment("beyond", "all calibrators of driftcal, in domain and under shift",
                   "not in the paper", "all_calibrators:all_calibrators", ("varied shifts", "features", "all suites")),
    )
}  # fmt: skip


def select_experiments(name: str, setups: Sequence[Setup]) -> tuple[list[Experiment], list[str]]:
    """The experiment with this name, or all that are possible for ``all``; and a sentence for each impossible one."""
    if name != "all" and name not in EXPERIMENTS:
        raise UnknownName.of("experiment", name, [*EXPERIMENTS, "all"])
    named = list(EXPERIMENTS.values()) if name == "all" else [EXPERIMENTS[name]]
    missing = {experiment.name: experiment.missing_data(setups) for experiment in named}
    return (
        [experiment for experiment in named if not missing[experiment.name]],
        [f"{name}: {reason}" for name, reason in missing.items() if reason],
    )
