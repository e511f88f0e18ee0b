"""The text of a report: the headline with its ratios, the notes below it, and the glossary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driftcal.pipeline.evaluating.results import POOLED, WINDOWED, Results
from driftcal.pipeline.tuning.candidates import TOLERANCE
from driftcal.report.comparison import (
    ComparisonLine,
    best_p_line,
    clean_tuned_line,
    compare_calibrators,
    featured_line,
    is_tuned_on_shift,
    main_lines,
    plain_name,
    temperature_scaling_line,
    uncalibrated_line,
    windowed_line,
)

#: Term -> explanation for a reader who is new to calibration.
GLOSSARY: dict[str, str] = {
    "Confidence": "The probability that the model gives to its prediction. It is calibrated if 80 % of all predictions with a confidence of 80 % are correct.",
    "Shift": "Data that differ from those the model was built on: from another source, noisy, or damaged. Here shifts are simulated, in levels from none to strong.",
    "In domain": "Data like those the model was built on: level 0, unchanged.",
    "ECE": "Expected calibration error: the mean difference between confidence and accuracy, over bins of predictions with similar confidence. 0 is perfect; 0.10 is ten percentage points.",
    "Null ECE": "The ECE that a perfectly calibrated model would show on this many samples, by chance alone. An ECE near it cannot be distinguished from perfect.",
    "÷ TS": "The ECE divided by that of temperature scaling (TS), tuned on clean samples. Below 1 the ECE is lower than that of TS.",
    "÷ best -P": "The ECE under shift divided by the lowest one of the calibrators with the suffix -P.",
    "Interval": "The range in which the number would lie in 95 of 100 repetitions with other samples.",
    "Pooled": "All levels of a shift together, level 0 included.",
    "NLL": "Negative log-likelihood of the labels. Confident, incorrect predictions raise it most. Lower is better.",
    "Brier": "The squared distance between probabilities and labels. It measures accuracy and calibration together. Lower is better.",
    "Entropy": "0 if all probability lies on one class, highest if it is uniform. A calibrated model has more entropy under stronger shift.",
    "-P": "The calibrator was tuned on the perturbed validation set: at ten levels of noise, from clean to chance, instead of on clean data only.",
    "Form": "A per-sample calibrator treats each sample alone. A windowed one adapts to a window of unlabelled samples; the number is the size of its window.",
    "Keeps accuracy": "The calibrator changes the confidence and never the prediction.",
}


def glossary_of(results: Results) -> dict[str, str]:
    """The terms that the page of these results uses."""
    has_p = any(info.label.endswith("-P") for info in results.calibrators)
    return {term: text for term, text in GLOSSARY.items() if has_p or not term.endswith("-P")}


@dataclass(frozen=True)
class ReportText:
    """The headline, the notes, and the lines that the report shows as cards."""

    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    cards: tuple[ComparisonLine, ...]
    names: tuple[str, ...] = ()
    featured: ComparisonLine | None = None

    @property
    def headline(self) -> str:
        """The sentences of the headline as one text."""
        return " ".join(self.sentences)


def report_text(results: Results) -> ReportText:
    """The text of a report."""
    lines = compare_calibrators(results)
    featured = featured_line(lines, results.metadata)
    if featured is None:
        return ReportText(("There are no results to report.",), (), ())
    if results.in_domain_only:
        return _in_domain_text(results, lines, featured)
    base = uncalibrated_line(lines)
    notes = [
        *_cost_note(temperature_scaling_line(lines), featured),
        *_best_p_note(lines, featured),
        *_form_note(featured),
        *_confidence_note(base, featured),
        *_interval_note(results, temperature_scaling_line(lines), featured),
        *_perturbation_note(lines),
        *_accuracy_note(base, featured),
    ]
    return _with_cards(results, lines, _headline(lines, featured), notes, featured)


def _in_domain_text(results: Results, lines: Sequence[ComparisonLine], featured: ComparisonLine) -> ReportText:
    """The text of a report of an evaluation without shift."""
    base, scaling = uncalibrated_line(lines), temperature_scaling_line(lines)
    others = {"temperature scaling": scaling, "the uncalibrated scores": base}
    compared = [
        f"{line.summary.in_domain_ece:.3f} with {name}"
        if line is scaling
        else f"{line.summary.in_domain_ece:.3f} for {name}"
        for name, line in others.items()
        if line is not None and line is not featured
    ]
    headline = f"The ECE of {featured.info.label} is {featured.summary.in_domain_ece:.3f} on these samples"
    interval = featured.in_domain_interval
    notes = [
        "No shift was evaluated: recorded scores cannot be shifted.",
        f"A perfectly calibrated model would show an ECE of {featured.in_domain_null_ece:.3f} on these samples"
        + ("." if interval is None else f"; the 95 % interval is {interval[0]:.3f} to {interval[1]:.3f}."),
    ]
    if base is not None and base is not featured and featured.info.keeps_accuracy:
        notes.append(f"{featured.info.label} never changes a prediction, only its confidence.")
    sentence = f"{headline}; it is {' and '.join(compared)}." if compared else f"{headline}."
    sentences, windowed = [sentence, *_not_better(featured, scaling)], windowed_line(lines)
    if windowed is not None and windowed is not featured:
        size = f" of {windowed.info.window_size} samples" if windowed.info.window_size else ""
        sentences.append(f"With windows{size} {windowed.info.label} has {windowed.summary.in_domain_ece:.3f}.")
    return _with_cards(results, lines, sentences, notes, featured)


def _not_better(featured: ComparisonLine, scaling: ComparisonLine | None) -> list[str]:
    """A sentence if the chosen calibrator has no lower ECE in domain than temperature scaling."""
    if scaling is None or scaling is featured or featured.summary.in_domain_ece < scaling.summary.in_domain_ece:
        return []
    null_ece = max(featured.in_domain_null_ece, scaling.in_domain_null_ece)
    if _ratio(featured.summary.in_domain_ece, scaling.summary.in_domain_ece, null_ece):
        return ["Temperature scaling is better here: fit with method='ts'."]
    return [f"{featured.info.label} is no better here than temperature scaling: there is no clear difference."]


def _with_cards(
    results: Results,
    lines: Sequence[ComparisonLine],
    headline: Sequence[str],
    notes: Sequence[str],
    featured: ComparisonLine,
) -> ReportText:
    cards = tuple(main_lines(lines, results.metadata))
    names = tuple(plain_name(line, lines, results.metadata) for line in cards)
    return ReportText(tuple(headline), tuple(notes), cards, names, featured)


def _headline(lines: Sequence[ComparisonLine], featured: ComparisonLine) -> list[str]:
    """How the per-sample and the windowed calibrator compare with the uncalibrated model and temperature scaling."""
    scaling, windowed = temperature_scaling_line(lines), windowed_line(lines)
    baselines = {"the uncalibrated model": uncalibrated_line(lines), "temperature scaling": scaling}
    sentences = []
    if featured is scaling:
        sentences.append(_ece_sentence(featured, baselines, "Per sample, temperature scaling was kept: its ECE"))
    elif featured is not windowed:
        sentences.append(_ece_sentence(featured, baselines, f"Per sample ({featured.info.label}), the ECE"))
    if windowed is not None:
        size = f" of {windowed.info.window_size} samples" if windowed.info.window_size else ""
        sentences.append(_ece_sentence(windowed, baselines, f"With windows{size} ({windowed.info.label}), the ECE"))
    return sentences


def _ece_sentence(line: ComparisonLine, baselines: Mapping[str, ComparisonLine | None], start: str) -> str:
    """`start`, then the ECE as a multiple of that of each baseline, except for differences below the null ECE."""
    others = {name: other for name, other in baselines.items() if other is not None and other is not line}
    if not others:
        return f"{start} is {line.summary.mean_ece:.3f} under shift and {line.summary.in_domain_ece:.3f} in domain."
    under_shift = {
        name: _ratio(line.summary.mean_ece, other.summary.mean_ece, max(line.mean_null_ece, other.mean_null_ece))
        for name, other in others.items()
    }
    in_domain = {
        name: _ratio(
            line.summary.in_domain_ece,
            other.summary.in_domain_ece,
            max(line.in_domain_null_ece, other.in_domain_null_ece),
        )
        for name, other in others.items()
    }
    text = _compared(in_domain)
    if len(others) > 1 and not any(in_domain.values()):  # both are named already
        text = "shows no clear difference from either"
    elif len(others) > 1 and all(under_shift.values()) and all(in_domain.values()):
        text = f"is {' and '.join(f'{ratio} ×' for ratio in in_domain.values())}"
    return f"{start} under shift {_compared(under_shift)}; in domain it {text}."


def _compared(ratios: Mapping[str, str]) -> str:
    """Ratios in words; an empty one stands for a difference below the null ECE.

    >>> _compared({"the uncalibrated model": "0.50", "temperature scaling": ""})
    'is 0.50 × that of the uncalibrated model, with no clear difference from temperature scaling'
    """
    parts = " and ".join(f"{ratio} × that of {name}" for name, ratio in ratios.items() if ratio)
    close = " and ".join(name for name, ratio in ratios.items() if not ratio)
    if not close:
        return f"is {parts}"
    difference = f"no clear difference from {close}"
    return f"is {parts}, with {difference}" if parts else f"shows {difference}"


def _ratio(ece: float, baseline: float, null_ece: float) -> str:
    """An ECE divided by a baseline's; empty where the difference is below the null ECE.

    >>> _ratio(0.05, 0.2, 0.02), _ratio(0.021, 0.02, 0.01)
    ('0.25', '')
    """
    return f"{ece / baseline:.2f}" if baseline and abs(ece - baseline) > null_ece else ""


def _best_p_note(lines: Sequence[ComparisonLine], featured: ComparisonLine) -> list[str]:
    best_p = best_p_line(lines)
    if best_p is None or best_p is featured:
        return []
    ece = best_p.summary
    return [
        f"The best -P of the paper, {best_p.info.label}, has an ECE of {ece.mean_ece:.3f} under shift and "
        f"{ece.in_domain_ece:.3f} in domain."
    ]


def _cost_note(scaling: ComparisonLine | None, featured: ComparisonLine) -> list[str]:
    """A warning if tuning on perturbed data raises the ECE in domain by more than `auto` would accept."""
    if scaling is None or not is_tuned_on_shift(featured.info) or featured.info.form == WINDOWED:
        return []
    ece, baseline = featured.summary.in_domain_ece, scaling.summary.in_domain_ece
    if ece - baseline <= max(TOLERANCE, featured.in_domain_null_ece):
        return []
    return [
        f"Warning: tuning on perturbed data costs {ece - baseline:.3f} of ECE in domain ({ece:.3f}, temperature scaling {baseline:.3f}). "
        "If most of your inputs are like the validation data, tune with method='auto', or with a larger clean_weight."
    ]


def _form_note(featured: ComparisonLine) -> list[str]:
    if featured.info.form != WINDOWED:
        return []
    size = f"{featured.info.window_size} " if featured.info.window_size else ""
    return [f"{featured.info.label} adapts to windows of {size}unlabelled samples."]


def _confidence_note(base: ComparisonLine | None, featured: ComparisonLine) -> list[str]:
    if base is None:
        return []
    names = {"the uncalibrated model": base} | ({} if featured is base else {featured.info.label: featured})
    parts = [
        f"{name} has a mean confidence of {percent(line.mean_confidence)} and an accuracy of {percent(line.summary.mean_accuracy)}"
        for name, line in names.items()
    ]
    return [f"Over all shifts and levels {'; '.join(parts)}."]


def _interval_note(results: Results, scaling: ComparisonLine | None, featured: ComparisonLine) -> list[str]:
    """The number of shifts on which the 95 % intervals of the pooled ECE do not overlap."""
    if scaling is None or scaling is featured:
        return []
    intervals = {
        (row.calibrator, row.shift): row.intervals["ece"]
        for row in results.rows
        if row.level == POOLED and row.group is None and "ece" in row.intervals
    }
    pairs = [
        (interval, intervals[scaling.info.name, shift])
        for (name, shift), interval in intervals.items()
        if name == featured.info.name and (scaling.info.name, shift) in intervals
    ]
    if not pairs:
        return []
    lower, higher = sum(a[1] < b[0] for a, b in pairs), sum(b[1] < a[0] for a, b in pairs)
    return [
        f"With 95 % intervals that do not overlap, the ECE of {featured.info.label} is lower than that of temperature "
        f"scaling on {lower} of {len(pairs)} shifts and higher on {higher}."
    ]


def _perturbation_note(lines: Sequence[ComparisonLine]) -> list[str]:
    pairs = [
        (line, clean) for line in lines if is_tuned_on_shift(line.info) and (clean := clean_tuned_line(lines, line))
    ]
    if len(pairs) < 2:
        return []
    lower = sum(line.summary.mean_ece < clean.summary.mean_ece for line, clean in pairs)
    tuned_on = {line.info.tuned_on for line, _ in pairs}
    data = "gaussian noise" if tuned_on == {"gaussian"} else "perturbed samples"
    return [
        f"For {lower} of {len(pairs)} methods the ECE under shift is lower when tuned on {data} than when tuned on clean samples."
    ]


def _accuracy_note(base: ComparisonLine | None, featured: ComparisonLine) -> list[str]:
    if base is None or base is featured:
        return []
    label = featured.info.label
    if featured.info.keeps_accuracy:
        return [f"{label} never changes a prediction, only its confidence."]
    clean, clean_before = (percent(line.summary.in_domain_accuracy, 1) for line in (featured, base))
    shifted, shifted_before = (percent(line.summary.mean_accuracy, 1) for line in (featured, base))
    return [
        f"{label} may change predictions: accuracy {clean} instead of {clean_before} in domain, "
        f"{shifted} instead of {shifted_before} under shift."
    ]


def percent(value: float, digits: int = 0) -> str:
    """A share in percent: 0.832 is 83 %."""
    return f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"
