"""What the threshold of the confidence keeps: a table, a curve, and the section of the page with both."""

from __future__ import annotations

import math
from collections.abc import Sequence

from driftcal.decisions import Threshold
from driftcal.pipeline.evaluating.results import POOLED, CalibratorInfo, ResultRow, Results
from driftcal.report.comparison import compare_calibrators, form_text, is_uncalibrated, main_lines
from driftcal.report.page_data import method_colours
from driftcal.report.table import Table, Value, escape_html, to_html

IN_DOMAIN_TEXT = "in domain"
#: Width and height of the drawing for wide and for narrow pages, as wide as the other charts, so that text has their size.
_SIZES = {"wide": (1130, 340), "narrow": (320, 230)}
_LEFT, _TOP, _BOTTOM = 46, 26, 46


def threshold_of(results: Results) -> Threshold | None:
    """The threshold that the results were computed with."""
    values = results.metadata.get("threshold")
    return None if values is None else Threshold.from_dict(values)


def decision_table(results: Results) -> Table:
    """A row per calibrator and shift, all levels pooled: what the threshold keeps, and how accurate that is."""
    rows: list[dict[str, Value]] = []
    for shift, infos in _conditions(results):
        for info, row in infos:
            if row.decision is None:
                continue
            rows.append(
                {
                    "shift": shift,
                    "calibrator": info.name,
                    "label": info.label,
                    "form": form_text(info),
                    "coverage": row.decision["coverage"],
                    "accepted_accuracy": row.decision["accuracy"],
                    "accuracy": row.accuracy,
                }
            )
    columns = {
        "shift": "Shift",
        "label": "Calibrator",
        "form": "Form",
        "coverage": "Coverage",
        "accepted_accuracy": "Accuracy of the accepted",
        "accuracy": "Accuracy of all",
    }
    return Table("decisions", "What the threshold keeps", columns, rows)


def decision_section(results: Results) -> str:
    """The section of the HTML report; empty without a threshold and without curves."""
    threshold, curves = threshold_of(results), _curves(results)
    if threshold is None and not curves:
        return ""
    lead = "The accuracy of the most confident predictions, by the share that is kept."
    parts = []
    if threshold is not None:
        lead = f"{threshold} The bound holds for data like the validation samples. The table shows what the same threshold does under each shift, all levels pooled."
        table = to_html(decision_table(results))
        parts.append(f'<div class="panel">{table}</div>')
    if curves:
        parts.append(f'<figure class="panel">{_figure(curves, threshold)}</figure>')
    return (
        f'<section id="decisions"><h2>Decisions</h2><p class="lead">{escape_html(lead)}</p>{"".join(parts)}</section>'
    )


def _conditions(results: Results) -> list[tuple[str, list[tuple[CalibratorInfo, ResultRow]]]]:
    """The rows in domain and of each shift, for the main calibrators but the uncalibrated one."""
    lines = main_lines(compare_calibrators(results), results.metadata)
    infos = [line.info for line in lines if not is_uncalibrated(line.info)]
    rows = {(row.calibrator, row.shift, row.level): row for row in results.rows if row.group is None}
    shifts = [shift.name for shift in results.shifts]
    conditions: list[tuple[str, str, int | str]] = [(IN_DOMAIN_TEXT, shifts[0], 0)] if shifts else []
    if not results.in_domain_only:
        conditions += [(shift, shift, POOLED) for shift in shifts]
    return [
        (text, [(info, row) for info in infos if (row := rows.get((info.name, shift, level))) is not None])
        for text, shift, level in conditions
    ]


def _curves(results: Results) -> list[tuple[str, int, bool, list[float]]]:
    """Name, number of the colour, whether it is under shift, and accuracies of each curve; under shift the mean over the shifts."""
    conditions, curves = _conditions(results), []
    infos, colours = [info for info, _ in conditions[0][1]] if conditions else [], method_colours(results)
    for info in infos:
        colour = colours[info.method]
        by_condition = [next((row for i, row in rows if i is info), None) for _, rows in conditions]
        accuracies = [
            list(row.accuracy_at_coverage) for row in by_condition if row is not None and row.accuracy_at_coverage
        ]
        if not accuracies:
            continue
        curves.append((f"{info.label}, in domain", colour, False, accuracies[0]))
        if shifted := accuracies[1:]:
            mean = [sum(values) / len(values) for values in zip(*shifted, strict=True)]
            curves.append((f"{info.label}, mean over shifts", colour, True, mean))
    return curves


def _ticks(lowest: float) -> list[float]:
    """Round accuracies up to 1; the first one is not above the lowest accuracy.

    >>> _ticks(0.45), _ticks(0.9)
    ([0.4, 0.6, 0.8, 1.0], [0.9, 0.92, 0.94, 0.96, 0.98, 1.0])
    """
    step = 0.2 if lowest < 0.6 else 0.1 if lowest < 0.8 else 0.02
    return [round(1 - k * step, 2) for k in range(math.ceil((1 - lowest) / step - 1e-9), -1, -1)]


def _figure(curves: Sequence[tuple[str, int, bool, list[float]]], threshold: Threshold | None) -> str:
    """Accuracy against coverage: a caption, and a drawing for wide and one for narrow pages."""
    legend = [
        f'<li><svg width="28" height="8" aria-hidden="true"><line x1="0" y1="4" x2="28" y2="4" class="curve s{colour}"{_dashes(is_shifted)}/></svg> {escape_html(name)}</li>'
        for name, colour, is_shifted, _ in curves
    ]
    drawings = "".join(_svg(curves, threshold, page) for page in _SIZES)
    return f'<figcaption><strong>Accuracy against coverage</strong><ul class="legend">{"".join(legend)}</ul></figcaption>{drawings}'


def _dashes(is_shifted: bool) -> str:
    return ' stroke-dasharray="6 4"' if is_shifted else ""


def _svg(curves: Sequence[tuple[str, int, bool, list[float]]], threshold: Threshold | None, page: str) -> str:
    """Accuracy against coverage as a drawing for this width of the page."""
    ticks = _ticks(min(0.9, *(value for *_, values in curves for value in values)))
    lowest = ticks[0]
    target = threshold.target if threshold is not None and threshold.criterion == "accuracy" else None
    full_width, full_height = _SIZES[page]
    width, height = full_width - _LEFT - 12, full_height - _BOTTOM - _TOP

    def x(coverage: float) -> float:
        return _LEFT + width * coverage

    def y(accuracy: float) -> float:
        return _TOP + height * (1 - accuracy) / (1 - lowest)

    def level(accuracy: float, style: str) -> str:
        return f'<line x1="{x(0):.1f}" y1="{y(accuracy):.1f}" x2="{x(1):.1f}" y2="{y(accuracy):.1f}" {style}/>'

    parts = [
        *(level(v, 'class="grid"') for v in ticks[1:]),
        level(lowest, 'class="axis"'),
        *(
            f'<text x="{x(v):.1f}" y="{full_height - 28}" text-anchor="middle">{v:.1f}</text>'
            for v in (0, 0.2, 0.4, 0.6, 0.8, 1)
        ),
        *(f'<text x="{_LEFT - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.2f}</text>' for v in ticks),
        '<text x="0" y="11">Accuracy of the kept predictions</text>',
        f'<text x="{x(0.5):.1f}" y="{full_height - 8}" text-anchor="middle">Coverage: share of the predictions that is kept</text>',
    ]
    if target is not None and target > lowest:
        parts.append(level(target, 'class="ideal"'))
    for _, colour, is_shifted, values in curves:
        points = " ".join(f"{x((k + 1) / len(values)):.1f},{y(value):.1f}" for k, value in enumerate(values))
        parts.append(f'<polyline points="{points}" class="curve s{colour}"{_dashes(is_shifted)}/>')
    label = f"Accuracy against coverage: {'; '.join(name for name, *_ in curves)}"
    return (
        f'<svg viewBox="0 0 {full_width} {full_height}" class="drawing {page}" role="img" aria-label="{escape_html(label)}">'
        f"{''.join(parts)}</svg>"
    )
