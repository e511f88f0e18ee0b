"""The numbers in words: the headline, what stands behind it, and the glossary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from driftcal.pipeline.results import POOLED, Results
from driftcal.report.numbers import Line, find_base, find_featured, find_twin, is_drift_tuned, lines_of

GLOSSARY: dict[str, str] = {
    "Confidence": "The probability the model gives to the answer it chose. It is honest when, of all answers given with 80 %, 80 % are right.",
    "Drift": "Data that differ from those the model was built on: rotated, noisy, badly lit. Here it is simulated, in levels from none to strong.",
    "In domain": "Data like those the model was built on: level 0, untouched.",
    "ECE": "Expected calibration error: by how much stated confidence misses the share of right answers, on average over all predictions, grouped into bins of similar confidence. 0 is perfect; 0.10 is ten percentage points.",
    "Floor": "The ECE that a perfectly honest model would still show on this many rows, by chance alone. An ECE near its floor cannot be told from perfect.",
    "Interval": "The range in which the number would fall in 95 of 100 repetitions with other images.",
    "Pooled": "All levels of a shift taken together, the untouched one included.",
    "NLL": "Negative log-likelihood: how surprised the model is by the truth. Punishes being sure and wrong most of all. Lower is better.",
    "Brier": "The squared distance between stated probabilities and what happened. Rewards being both right and honest. Lower is better.",
    "Entropy": "How spread out the stated probabilities are: 0 is certain, higher is unsure. An honest model grows unsure as drift grows.",
    "-P": "The calibrator was tuned on perturbed data: the validation set at ten levels of noise, from clean to chance, instead of on clean data only.",
    "Keeps accuracy": "The calibrator changes how sure the model is and never which answer it gives.",
}


@dataclass(frozen=True)
class Story:
    """The report in words, and the lines it speaks of: no calibration, the clean-tuned twin, the featured calibrator."""

    headline: str
    notes: tuple[str, ...]
    cards: tuple[Line, ...]


def tell(results: Results) -> Story:
    """The headline with its numbers; says so when calibration does not help."""
    lines = lines_of(results)
    featured, base = find_featured(lines, results.metadata.get("method")), find_base(lines)
    if featured is None:
        return Story("There are no results to report.", (), ())
    twin = find_twin(lines, featured)
    cards = tuple(dict.fromkeys(id(line) for line in (base, twin, featured) if line is not None))
    by_id = {id(line): line for line in lines}
    notes = [
        *_said_and_right(base, featured),
        *_beyond_chance(results, base, featured),
        *_drift_tuning(lines),
        *_accuracy(base, featured),
    ]
    return Story(
        _headline(base, twin, featured, _apart(results, base, featured)), tuple(notes), tuple(by_id[i] for i in cards)
    )


def _headline(base: Line | None, twin: Line | None, featured: Line, apart: tuple[int, int, int]) -> str:
    name, here = featured.info.label, featured.summary
    if base is None or base is featured:
        subject = f"{name} states" if base is None else "without calibration, the model states"
        drift, clean = numbers(here.mean_ece, here.in_domain_ece)
        return f"Under drift, {subject} confidence that is off by {drift} on average; in domain by {clean}."
    ours, plain = numbers(here.mean_ece, base.summary.mean_ece)
    if ours == plain:
        first = f"Under drift, {name} changes nothing that shows: confidence is off by {ours} on average with it and without."
    elif here.mean_ece < base.summary.mean_ece and apart[2] and not apart[0]:
        first = f"Under drift, {name} gains little and not beyond chance: its confidence is off by {ours} on average; without calibration it is {plain}."
    elif here.mean_ece < base.summary.mean_ece:
        first = f"Under drift, {name} states confidence that is off by {ours} on average; without calibration it is {plain}."
    else:
        first = f"Under drift, {name} does not help: its confidence is off by {ours} on average; without calibration it is {plain}."
    other = twin or base
    clean, before = numbers(here.in_domain_ece, other.summary.in_domain_ece)
    with_other = f" with {other.info.label}" if twin else ""
    if clean == before:
        return f"{first} In domain it costs nothing: {clean}, as{with_other or ' without calibration'}."
    if here.in_domain_ece > other.summary.in_domain_ece:
        return f"{first} The price in domain: {clean} instead of {before}{with_other}."
    return f"{first} In domain it is better too: {clean} instead of {before}{with_other}."


def _said_and_right(base: Line | None, featured: Line) -> list[str]:
    if base is None:
        return []
    said, right = percent(base.mean_confidence), percent(base.summary.mean_accuracy)
    note = f"Over all shifts and levels the uncalibrated model says {said} on average and is right {right} of the time"
    if featured is base:
        return [f"{note}."]
    ours, hits = percent(featured.mean_confidence), percent(featured.summary.mean_accuracy)
    return [f"{note}; {featured.info.label} says {ours}{'' if hits == right else f' and is right {hits}'}."]


def _apart(results: Results, base: Line | None, featured: Line) -> tuple[int, int, int]:
    """On how many shifts the pooled ECE is better, worse, and comparable: better where the recorded intervals lie apart."""
    if base is None or base is featured:
        return 0, 0, 0
    seen = {
        (row.calibrator, row.shift): row.intervals["ece"]
        for row in results.rows
        if row.level == POOLED and row.group is None and "ece" in row.intervals
    }
    ours, plain = (
        {s: pair for (c, s), pair in seen.items() if c == name} for name in (featured.info.name, base.info.name)
    )
    both = [(ours[shift], plain[shift]) for shift in ours if shift in plain]
    return sum(a[1] < b[0] for a, b in both), sum(b[1] < a[0] for a, b in both), len(both)


def _beyond_chance(results: Results, base: Line | None, featured: Line) -> list[str]:
    better, worse, shifts = _apart(results, base, featured)
    note = f"Beyond chance (intervals apart), {featured.info.label} is better on {better} of {shifts} shifts"
    return [f"{note} and worse on {worse}."] if shifts else []


def _drift_tuning(lines: Sequence[Line]) -> list[str]:
    pairs = [(line, twin) for line in lines if is_drift_tuned(line.info) and (twin := find_twin(lines, line))]
    if len(pairs) < 2:
        return []
    wins = sum(line.summary.mean_ece < twin.summary.mean_ece for line, twin in pairs)
    kinds = Counter(line.info.tuned_on for line, _ in pairs)
    noise = f" on {next(iter(kinds))} noise" if set(kinds) == {"gaussian"} else " on simulated drift"
    return [f"Tuning{noise} instead of on clean rows lowers the error under drift for {wins} of {len(pairs)} methods."]


def _accuracy(base: Line | None, featured: Line) -> list[str]:
    if base is None or base is featured:
        return []
    label = featured.info.label
    if featured.info.keeps_accuracy:
        return [f"{label} never changes an answer, only how sure the model is of it."]
    clean, before = (percent(line.summary.in_domain_accuracy, 1) for line in (featured, base))
    drift, plain = (percent(line.summary.mean_accuracy, 1) for line in (featured, base))
    return [
        f"{label} may change answers: accuracy {clean} instead of {before} in domain, {drift} instead of {plain} under drift."
    ]


def numbers(*values: float) -> tuple[str, ...]:
    """The values with two decimals, or three where two would hide that they differ or show nothing.

    >>> numbers(0.052, 0.211), numbers(0.012, 0.0142), numbers(0.004, 0.2)
    (('0.05', '0.21'), ('0.012', '0.014'), ('0.004', '0.200'))
    """
    short = tuple(f"{value:.2f}" for value in values)
    return short if len(set(short)) == len(short) and "0.00" not in short else tuple(f"{value:.3f}" for value in values)


def percent(value: float, digits: int = 0) -> str:
    """A share as people say it: 0.832 is 83 %."""
    return f"{100 * value:.{digits}f} %"
