"""Every claim of the paper that these data can test, each with a verdict by the interval of a difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.intervals import bootstrap_interval
from driftcal.metrics.sample_scores import SampleScores
from driftcal.paper.calibrator_names import BASELINE_METHODS, PAPER_METHODS, label
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Bars
from driftcal.paper.left_out_classes import leave_out_classes
from driftcal.paper.setups.setup import Setup
from driftcal.paper.suite_results import Difference, SuiteResults
from driftcal.paper.verdict import verdict
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.pipeline.evaluating.image_bootstrap import ImageBootstrap
from driftcal.report.table import Table, Value
from driftcal.types import Float64, Logits

#: A difference of ECE or accuracy that counts as minor.
_MINOR = 0.01
#: Verdict -> its mark in the bar of a claim.
_MARKS = {"holds": "■", "does not hold": "□", "cannot be told": "▨"}
_TEMPERATURES, _ISOTONIC = ("ts", "ets", "ts-ir"), ("ir", "irm")
_CHANGING = ("ir", "ts-ir", "ir-p", "ts-ir-p")


@dataclass(frozen=True)
class _Claim:
    """A claim, where the paper makes it, and the difference that is measured; it holds if that is above `margin`."""

    text: str
    where: str
    measured: str
    differences: dict[str, Difference]
    margin: float = 0.0


def claims(context: ExperimentContext) -> ExperimentResult:
    """One row per claim with a mark per calibrator, and one row per calibrator with its interval."""
    claim_rows: list[dict[str, Value]] = []
    calibrator_rows: list[dict[str, Value]] = []
    figures = []
    for setup in context.setups:
        setup_claims = list(_claims(context, setup))
        for claim in setup_claims:
            claim_cells = {"network": setup.label, "claim": claim.text, "where": claim.where}
            verdicts = {
                name: verdict(difference.low, difference.high, claim.margin)
                for name, difference in claim.differences.items()
            }
            claim_rows.append(
                {**claim_cells, "bar": "".join(_MARKS[result] for result in verdicts.values()), **_names(verdicts)}
            )
            for name, difference in claim.differences.items():
                calibrator_rows.append(
                    {
                        **claim_cells,
                        "measured": claim.measured,
                        "calibrator": label(name),
                        "difference": difference.value,
                        "difference_low": difference.low,
                        "difference_high": difference.high,
                        "verdict": verdicts[name],
                    }
                )
        figures.append(_figure(setup, setup_claims))
    columns = {"network": "Network", "claim": "The paper's claim", "where": "Where"}
    # few columns, which fit a terminal; files of this table and the next one say where each claim is
    networks = {"network": columns["network"]} if len(context.setups) > 1 else {}
    in_short = Table(
        "claims",
        "The paper's claims, with the calibrators of each mark",
        {**networks, "claim": columns["claim"], **dict(zip(_KEYS, _MARKS, strict=True))},
        claim_rows,
    )
    in_full = Table(
        "claims-calibrators",
        f"The paper's claims, calibrator by calibrator, 95 % intervals over images; {context.settings.caption()}",
        {
            **columns,
            "measured": "Measured",
            "calibrator": "Calibrator",
            "difference": "Difference",
            "verdict": "Verdict",
        },
        calibrator_rows,
        intervals=True,
    )
    note = (
        "■ holds: the whole 95 % interval of the difference is on the claim's side; □ does not hold: all of it is on the other side; "
        f"▨ cannot be told. Minor means at most {_MINOR:g}. Intervals resample test images; calibrators are not tuned again."
    )
    return ExperimentResult("claims", "The paper's claims", [in_short, in_full], figures, [note])


#: Keys of the columns that list calibrators by verdict, in the order of `_MARKS`.
_KEYS = ("holds", "fails", "unknown")


def _names(verdicts: dict[str, str]) -> dict[str, Value]:
    """The calibrators of each verdict."""
    return {
        key: ", ".join(label(name) for name, result in verdicts.items() if result == mark) or "–"
        for key, mark in zip(_KEYS, _MARKS, strict=True)
    }


def _claims(context: ExperimentContext, setup: Setup) -> Iterator[_Claim]:
    results = context.suite_results(setup)
    conditions = _Conditions.of(context, setup)
    yield _Claim(
        "tuned on clean images, calibrators are over-confident under strong shift", "Section 5.1",
        "confidence − accuracy at the strongest level", {name: conditions.overconfidence(name) for name in PAPER_METHODS},
    )  # fmt: skip
    yield _Claim(
        "tuning on noise lowers the mean ECE under shift", "Table 1", "mean ECE − that of -P", _gains(results, "ece")
    )
    for metric, name in (("nll", "NLL"), ("brier", "Brier score")):
        yield _Claim(
            f"… and the mean {name}", "Appendix C.2", f"mean {name} − that of -P", _gains(results, metric)
        )  # fmt: skip
    yield _Claim(
        "Platt scaling and binning gain from noise, too", "Appendix C.1", "mean ECE − that of -P",
        _gains(results, "ece", BASELINE_METHODS),
    )  # fmt: skip
    yield _Claim(
        "-P is better calibrated under strong shift", "Section 5.2, Fig. 7", "ECE at the strongest level − that of -P",
        {f"{name}-p": conditions.strongest_gain(name) for name in PAPER_METHODS},
    )  # fmt: skip
    yield _Claim(
        "TS-P, ETS-P and TS-IR-P are worse calibrated in domain", "Section 5.2", "ECE in domain of -P − that without",
        {f"{name}-p": conditions.clean_difference(f"{name}-p", name) for name in _TEMPERATURES},
    )  # fmt: skip
    yield _Claim(
        "IR-P and IRM-P keep the calibration in domain", "Section 6", "ECE in domain − that of -P",
        {f"{name}-p": conditions.clean_difference(name, f"{name}-p") for name in _ISOTONIC}, margin=-_MINOR,
    )  # fmt: skip
    yield _Claim(
        "calibrators that may change predictions cost little accuracy", "Section 5.2", "accuracy under shift − uncalibrated",
        {name: results.difference(name, "base", "accuracy") for name in _CHANGING}, margin=-_MINOR,
    )  # fmt: skip
    h_results, p_results = _h_results(context, setup)
    yield _Claim(
        "tuning on corruptions (-H) is worse than on noise (-P)", "Appendix C.3", "mean ECE of -H − that of -P",
        {name: _difference(h_results, f"{name}-h", p_results, f"{name}-p") for name in PAPER_METHODS},
    )  # fmt: skip
    yield _Claim(
        "-P is less confident where shift is strongest", "Fig. 6", "confidence at the strongest level − that of -P",
        {f"{name}-p": conditions.confidence_drop(name) for name in PAPER_METHODS},
    )  # fmt: skip
    left_out = leave_out_classes(context, setup, PAPER_METHODS)
    if left_out is not None:
        by_name = {candidate.name: candidate for candidate in left_out.candidates}
        unknown = {name: _confidence(candidate, left_out.unknown) for name, candidate in by_name.items()}
        counts = ImageBootstrap(len(left_out.unknown), context.settings.n_resamples, context.settings.n_bins).counts
        yield _Claim(
            "-P is less confident on unknown classes", "Fig. 6", "confidence on classes left out − that of -P",
            {f"{name}-p": _mean_difference(unknown[name] - unknown[f"{name}-p"], counts) for name in PAPER_METHODS},
        )  # fmt: skip


def _gains(results: SuiteResults, metric: str, methods: Sequence[str] = PAPER_METHODS) -> dict[str, Difference]:
    return {f"{name}-p": results.difference(name, f"{name}-p", metric) for name in methods}


def _h_results(context: ExperimentContext, setup: Setup) -> tuple[SuiteResults, SuiteResults]:
    """The results of -H and of -P, tuned on as many images."""
    n_images = len(context.h_validation(setup))
    if n_images < len(setup.validation):
        both = context.suite_results(setup, PAPER_METHODS, ("", "-p", "-h"), n_images=n_images)
        return both, both
    return context.suite_results(setup, PAPER_METHODS, ("-h",)), context.suite_results(setup)


def _difference(first: SuiteResults, name: str, second: SuiteResults, other: str) -> Difference:
    """The mean ECE of a calibrator minus that of one in other results, paired over images."""
    value = first.mean(name) - second.mean(other)
    interval = bootstrap_interval(value, first.mean_replicates(name, "ece") - second.mean_replicates(other, "ece"))
    return Difference(value, interval.low, interval.high)


@dataclass(frozen=True, eq=False)
class _Conditions:
    """Scores of every candidate on clean test images and at the strongest level of each shift."""

    bootstrap: ImageBootstrap
    n_bins: int
    scores: dict[str, list[SampleScores]]  # clean, then each shift

    @classmethod
    def of(cls, context: ExperimentContext, setup: Setup) -> _Conditions:
        collector, settings = context.collector(setup, setup.test), context.settings
        shifts = [shift for shift in setup.shifts if shift.name in context.suite_results(setup).shifts()]
        logits = [context.clean_logits(setup, setup.test)]
        logits += [collector.logits(shift, shift.levels[-1]) for shift in shifts if shift.levels]
        scores = {
            candidate.name: [
                SampleScores.of_probabilities(collector.labels, candidate.calibrator.predict_proba(condition))
                for condition in logits
            ]
            for candidate in context.candidates(setup, PAPER_METHODS)
        }
        return cls(
            ImageBootstrap(len(collector.labels), settings.n_resamples, settings.n_bins), settings.n_bins, scores
        )

    def overconfidence(self, name: str) -> Difference:
        """Confidence minus accuracy at the strongest level, mean over the shifts."""
        return self._difference(self._means(name, "calibration_gap"))

    def strongest_gain(self, method: str) -> Difference:
        """The ECE at the strongest level minus that of -P, mean over the shifts."""
        return self._difference(self._means(method, "ece"), self._means(f"{method}-p", "ece"))

    def clean_difference(self, first: str, second: str) -> Difference:
        """The ECE in domain of the first minus that of the second."""
        return self._difference(*(self._means(name, "ece", slice(0, 1)) for name in (first, second)))

    def confidence_drop(self, method: str) -> Difference:
        """The mean confidence at the strongest level minus that of -P."""
        by_image = [
            np.mean([scores.confidence for scores in self.scores[name][1:]], axis=0) for name in (method, f"{method}-p")
        ]
        return _mean_difference(by_image[0] - by_image[1], self.bootstrap.counts)

    def _means(self, name: str, metric: str, conditions: slice = slice(1, None)) -> tuple[float, Float64]:
        """The mean of a metric over conditions, and its replicates."""
        chosen = self.scores[name][conditions]
        values = [getattr(Statistics.of_samples(scores, n_bins=self.n_bins), metric) for scores in chosen]
        replicates = [
            self.bootstrap.metrics(table)[metric] for table in self.bootstrap.replicates([[s] for s in chosen])
        ]
        return float(np.mean(values)), np.mean(replicates, axis=0)

    @staticmethod
    def _difference(first: tuple[float, Float64], second: tuple[float, Float64] | None = None) -> Difference:
        value, replicates = first
        if second is not None:
            value, replicates = value - second[0], replicates - second[1]
        interval = bootstrap_interval(value, replicates)
        return Difference(value, interval.low, interval.high)


def _confidence(candidate: Candidate, logits: Logits) -> Float64:
    confidence: Float64 = candidate.calibrator.predict_proba(logits).max(axis=1)
    return confidence


def _mean_difference(by_image: Float64, counts: Float64) -> Difference:
    value = float(by_image.mean())
    interval = bootstrap_interval(value, counts @ by_image / len(by_image))
    return Difference(value, interval.low, interval.high)


def _figure(setup: Setup, setup_claims: Sequence[_Claim]) -> Bars:
    """What tuning on noise lowers, claim by claim, for every method."""
    shown = [claim for claim in setup_claims if set(claim.differences) == {f"{m}-p" for m in PAPER_METHODS}]
    names = [f"{method}-p" for method in PAPER_METHODS]
    return Bars(
        f"claims-{setup.name}",
        f"{setup.label}: the paper's claims about tuning on noise",
        "Each group is a claim; each bar is the measured difference, above 0 where the claim holds; thin lines: 95 % intervals over "
        "images. TS: temperature scaling; ETS: ensemble temperature scaling; TS-IR: temperature scaling, then isotonic regression "
        "per class; IR: isotonic regression per class; IRM: isotonic regression, one curve for all classes.",
        [claim.measured.replace(" − that of -P", "") for claim in shown],
        {label(name): [claim.differences[name].value for claim in shown] for name in names},
        "without -P minus with -P",
        intervals={
            label(name): [(claim.differences[name].low, claim.differences[name].high) for claim in shown]
            for name in names
        },
    )
