"""What the threshold of the confidence keeps: a table, a curve, and the section of the page with both."""

from __future__ import annotations

from collections.abc import Sequence

from driftcal.decisions import Threshold
from driftcal.pipeline.evaluating.results import POOLED, CalibratorInfo, ResultRow, Results
from driftcal.report.comparison import compare_calibrators, form_text, is_uncalibrated, main_lines
from driftcal.report.page_data import method_colours
from driftcal.report.table import Table, Value, escape_html, to_html

IN_DOMAIN_TEXT = "in domain"
#: In units of the drawing, which grows and shrinks with the page: small enough that text stays readable on a phone.
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 400, 240, 40, 40


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
        parts.append(f'<figure class="panel">{_svg(curves, threshold)}</figure>')
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
    """Round accuracies from the lowest one up to 1.

    >>> _ticks(0.45), _ticks(0.9)
    ([0.6, 0.8, 1.0], [0.9, 0.92, 0.94, 0.96, 0.98, 1.0])
    """
    step = 0.2 if lowest < 0.6 else 0.1 if lowest < 0.8 else 0.02
    return sorted(
        round(1 - k * step, 2) for k in range(round((1 - lowest) / step + 0.5) + 1) if 1 - k * step >= lowest - 1e-9
    )


def _svg(curves: Sequence[tuple[str, int, bool, list[float]]], threshold: Threshold | None) -> str:
    """Accuracy against coverage as a drawing."""
    lowest = min(0.9, *(value for *_, values in curves for value in values))
    target = threshold.target if threshold is not None and threshold.criterion == "accuracy" else None
    width, height = _WIDTH - _LEFT - 10, _HEIGHT - _BOTTOM - 10

    def x(coverage: float) -> float:
        return _LEFT + width * coverage

    def y(accuracy: float) -> float:
        return 10 + height * (1 - accuracy) / (1 - lowest)

    text = '<text font-size="12" fill="currentColor"'
    parts = [
        f'<line x1="{x(0):.1f}" y1="{y(lowest):.1f}" x2="{x(1):.1f}" y2="{y(lowest):.1f}" stroke="currentColor" stroke-width="1"/>',
        *(
            f'{text} x="{x(v):.1f}" y="{_HEIGHT - 24}" text-anchor="middle">{v:.1f}</text>'
            for v in (0, 0.2, 0.4, 0.6, 0.8, 1)
        ),
        *(f'{text} x="{_LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.2f}</text>' for v in _ticks(lowest)),
        f'{text} x="{x(0.5):.1f}" y="{_HEIGHT - 6}" text-anchor="middle">coverage: share of the predictions that is kept</text>',
    ]
    if target is not None and target > lowest:
        parts.append(
            f'<line x1="{x(0):.1f}" y1="{y(target):.1f}" x2="{x(1):.1f}" y2="{y(target):.1f}" stroke="currentColor" stroke-width="1" stroke-dasharray="2 4"/>'
        )
    legend = []
    for name, colour, is_shifted, values in curves:
        points = " ".join(f"{x((k + 1) / len(values)):.1f},{y(value):.1f}" for k, value in enumerate(values))
        dashes = ' stroke-dasharray="6 4"' if is_shifted else ""
        parts.append(f'<polyline points="{points}" class="curve s{colour}"{dashes}/>')
        legend.append(
            f'<li><svg width="28" height="8" aria-hidden="true"><line x1="0" y1="4" x2="28" y2="4" class="curve s{colour}"{dashes}/></svg> {escape_html(name)}</li>'
        )
    label = f"Accuracy against coverage: {'; '.join(name for name, *_ in curves)}"
    return (
        f'<figcaption><strong>Accuracy against coverage</strong><ul class="legend">{"".join(legend)}</ul></figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" class="drawing" role="img" aria-label="{escape_html(label)}">{"".join(parts)}</svg>'
    )
