"""The timeline of a monitor as one HTML page: estimated accuracy, levels and states, drawn as SVG without a script."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from driftcal.io.atomic import write_atomic
from driftcal.monitor.alarm_rule import ALARMS, CLASS_MIX, LABELS, NO_CHANGE, OK, OUT, SHIFTED, UNKNOWN
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.summary import Summary
from driftcal.monitor.window_report import WindowReport
from driftcal.report.html import asset, policy
from driftcal.report.table import Table, Value, escape_html, to_html

#: State -> variable of the style sheet with its colour.
_COLOURS = {
    OK: "--s3",
    NO_CHANGE: "--s6",
    CLASS_MIX: "--s8",
    SHIFTED: "--s5",
    OUT: "--s2",
    LABELS: "--s4",
    UNKNOWN: "--s0",
}
#: State -> height of its bar, for readers who cannot distinguish the colours.
_HEIGHTS = {OK: 6, NO_CHANGE: 8, CLASS_MIX: 11, UNKNOWN: 13, SHIFTED: 17, LABELS: 21, OUT: 25}
#: The width of a chart and its margins, in units of the SVG.
_WIDTH, _LEFT, _RIGHT = 960, 52, 12
#: The most rows of the table of windows; the charts show all windows.
_MAX_ROWS = 200
#: The most circles of a chart, and the most classes of the table of classes: more could not be read.
_MAX_CIRCLES, _MAX_CLASSES = 60, 20
#: Beginnings of windows between these numbers are seconds since 1970 (1973 to 5138), others are sample numbers.
_FIRST_TIME, _LAST_TIME = 1e8, 1e11

_STYLE = """
.hero h1 + p { margin-top: 0.75rem; }
.timeline { width: 100%; min-width: 36rem; height: auto; display: block; font-size: 12px; }
.scroll:has(> .timeline) { direction: rtl; } .timeline { direction: ltr; }
.windows table.data { overflow-wrap: normal; } .windows table.data :is(th, td:nth-child(4)) { white-space: normal; }
.windows table.data :is(th, td):nth-child(4) { min-width: 14rem; text-align: left; }
.windows table.data td:first-child { min-width: 0; white-space: nowrap; } .windows table.data th:first-child { min-width: 0; }
.timeline text { fill: var(--soft); } .timeline .grid { stroke: var(--line); } .timeline .axis { stroke: var(--edge); }
.timeline .band { fill: var(--s1); opacity: 0.18; } .timeline .line { fill: none; stroke: var(--s1); stroke-width: 1.8; }
.timeline .confidence { fill: none; stroke: var(--s0); stroke-width: 1.2; stroke-dasharray: 4 3; }
.timeline .true { fill: var(--surface); stroke: var(--text); stroke-width: 1.3; }
.states { display: flex; flex-wrap: wrap; gap: 1.25rem; padding: 0; list-style: none; font-size: 0.875rem; color: var(--soft); }
.key { display: inline-block; width: 0.8rem; height: 0.8rem; margin-right: 0.4rem; border-radius: 2px; vertical-align: -1px; }
"""
_STYLE += "".join(
    f".s-{state.replace(' ', '-')} {{ fill: var({colour}); background: var({colour}); }}\n"
    for state, colour in _COLOURS.items()
)

_ACCURACY_LEAD = (
    "The line is the accuracy estimated without labels, the band its interval, the dashed line the mean confidence. "
    "Circles are accuracies of windows with labels. The strip below shows the state of each window."
)
_LEVEL_LEAD = (
    "The perturbation level whose mean entropy is that of the window. Level 1 is clean data, and any window whose entropy "
    "raises no alarm."
)
_CLASSES_LEAD = f"Share of each class among the predictions of the newest window, the {_MAX_CLASSES} most frequent."


def write_timeline(monitor: Monitor, path: str | os.PathLike[str], *, title: str = "Monitor") -> Path:
    """Write the timeline of a monitor as one HTML file that works offline."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    return write_atomic(target, timeline_html(monitor, title=title).encode())


def timeline_html(monitor: Monitor, *, title: str) -> str:
    """The page that :func:`write_timeline` writes."""
    windows, summary = monitor.windows(), monitor.summary()
    style = asset("report.css") + _STYLE
    with_level = [window for window in windows if window.level is not None]
    newest = next((window for window in windows if window.window == summary.newest), None)
    sections = [
        _section("Accuracy", _ACCURACY_LEAD, accuracy_svg(windows) + _legend(summary)),
        _section("Perturbation level", _LEVEL_LEAD, _level_svg(with_level)) if with_level else "",
        _section("Accepted predictions", "", _accepted(summary)) if summary.accepted_share is not None else "",
        _section("Low confidence", "Share of predictions with low confidence.", _low_confidence_svg(windows)),
        _section("Late labels", "", _labels(summary)),
        _section("Predicted classes", _CLASSES_LEAD, _classes(newest, monitor.class_names)) if newest else "",
        _section("Windows", f"The newest {_MAX_ROWS} at most.", _table(windows[-_MAX_ROWS:])),
        _section("Samples that could not be used", "", _rejected(summary)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy("", style)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f'<title>{escape_html(title)}</title><style>{style}</style></head><body><div class="page"><main id="main">'
        f'<div class="hero"><p class="title">{escape_html(title)}</p><h1>{escape_html(_headline(summary))}</h1>'
        f"<p>{escape_html(summary.recommendation)}</p></div>{''.join(sections)}</main>"
        "<footer>Made with driftcal. This file is complete: it loads nothing and sends nothing.</footer></div></body></html>\n"
    )


def _headline(summary: Summary) -> str:
    sentences = {
        OK: "The newest window is like the validation data.",
        NO_CHANGE: "No change is seen in the newest window; its accuracy cannot be estimated closely.",
        CLASS_MIX: "The class mix of the newest window has changed.",
        SHIFTED: "The inputs of the newest window have shifted.",
        OUT: "The newest window is out of distribution.",
        LABELS: "The labels of the newest window contradict its estimated accuracy.",
        UNKNOWN: "The state of the newest window is unknown.",
    }
    if summary.objection:
        sentences[OK] = f"The newest window is like the validation data, but {summary.objection}."
        sentences[NO_CHANGE] = f"No change is seen in the newest window, but {summary.objection}."
    counts = [f"{summary.states[state]:,} {state}" for state in reversed(ALARMS) if summary.states[state]]
    others = f" Of {summary.n_windows:,} windows: {', '.join(counts)}." if counts else ""
    return f"{sentences[summary.state]}{others} {summary.n_samples:,} samples."


def _section(title: str, lead: str, body: str) -> str:
    return f'<section><h2>{title}</h2><p class="lead">{lead}</p><div class="panel">{body}</div></section>'


def accuracy_svg(windows: Sequence[WindowReport]) -> str:
    """The chart of estimated accuracy with its interval, mean confidence, late labels, and the strip of states."""
    top, height, strip = 10, 230, 30
    x, y = _x_axis(windows), _y_axis(top, height, 1.0)
    all_estimates = [(i, w.accuracy, w.accuracy_interval) for i, w in enumerate(windows)]
    estimates = [
        (i, accuracy, interval) for i, accuracy, interval in all_estimates if accuracy is not None and interval
    ]
    shapes = []
    if estimates:
        upper = [f"{x(i):.1f},{y(high):.1f}" for i, _, (_, high) in estimates]
        lower = [f"{x(i):.1f},{y(low):.1f}" for i, _, (low, _) in reversed(estimates)]
        shapes.append(f'<polygon class="band" points="{" ".join(upper + lower)}"/>')
        shapes.append(_line("line", [(x(i), y(accuracy)) for i, accuracy, _ in estimates]))
    shapes.append(_line("confidence", [(x(i), y(window.confidence)) for i, window in enumerate(windows)]))
    for i, accuracy in _labelled_accuracies(windows):
        shapes.append(f'<circle class="true" cx="{x(i):.1f}" cy="{y(accuracy):.1f}" r="3"/>')
    bottom = top + height + strip
    bar_width = max(1.0, (_WIDTH - _LEFT - _RIGHT) / max(1, len(windows)))
    for i, window in enumerate(windows):
        bar_height = _HEIGHTS[window.state]
        tip = f"{_begin(window)}: {window.state}, {window.reason}"
        shapes.append(
            f'<rect class="s-{window.state.replace(" ", "-")}" x="{x(i) - bar_width / 2:.1f}" y="{bottom - bar_height}" '
            f'width="{bar_width:.2f}" height="{bar_height}"><title>{escape_html(tip)}</title></rect>'
        )
    frame = _frame(windows, top, height, 1.0, label_offset=48)
    return _svg("Estimated accuracy over time", bottom + 24, frame + "".join(shapes))


def _labelled_accuracies(windows: Sequence[WindowReport]) -> list[tuple[int, float]]:
    """Positions and accuracies of the circles; neighbouring windows share a circle if there are too many."""
    labelled = [(i, window.labelled) for i, window in enumerate(windows) if window.labelled]
    size = max(1, -(-len(labelled) // _MAX_CIRCLES))
    groups = [labelled[k : k + size] for k in range(0, len(labelled), size)]
    return [
        (
            group[len(group) // 2][0],
            sum(metrics.accuracy * metrics.n_samples for _, metrics in group)
            / sum(metrics.n_samples for _, metrics in group),
        )
        for group in groups
    ]


def _level_svg(windows: Sequence[WindowReport]) -> str:
    # nearest_level is "level 1 of 4"
    highest = max(1.0, *(float(str(window.nearest_level).split()[3]) for window in windows))
    x, y = _x_axis(windows), _y_axis(10, 130, highest)
    points = [(x(i), y((window.level or 0.0) + 1)) for i, window in enumerate(windows)]
    return _svg("Perturbation level over time", 170, _frame(windows, 10, 130, highest) + _line("line", points))


def _low_confidence_svg(windows: Sequence[WindowReport]) -> str:
    x, y = _x_axis(windows), _y_axis(10, 130, 1.0)
    points = [(x(i), y(window.low_confidence_share)) for i, window in enumerate(windows)]
    return _svg("Share of low confidence over time", 170, _frame(windows, 10, 130, 1.0) + _line("line", points))


def _x_axis(windows: Sequence[WindowReport]) -> Callable[[int], float]:
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(windows))
    return lambda i: _LEFT + (i + 0.5) * step


def _y_axis(top: float, height: float, highest: float) -> Callable[[float], float]:
    return lambda value: top + height * (1 - min(max(value / highest, 0.0), 1.0))


def _line(kind: str, points: Sequence[tuple[float, float]]) -> str:
    return f'<polyline class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def _svg(name: str, height: float, body: str) -> str:
    label = escape_html(name)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}; scrolls sideways">'
        f'<svg class="timeline" role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {height:g}">{body}</svg></div>'
    )


def _frame(
    windows: Sequence[WindowReport], top: float, height: float, highest: float, *, label_offset: float = 18
) -> str:
    """Grid lines and labels of both axes."""
    y, x = _y_axis(top, height, highest), _x_axis(windows)
    parts = []
    for k in range(5):
        value = highest * k / 4
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        )
        parts.append(f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    baseline = top + height + label_offset
    parts += [
        f'<text x="{x(i):.1f}" y="{baseline}" text-anchor="middle">{escape_html(_begin(windows[i]))}</text>'
        for i in range(0, len(windows), max(1, -(-len(windows) // 6)))
    ]
    return "".join(parts)


def _begin(window: WindowReport) -> str:
    if _FIRST_TIME < window.begin < _LAST_TIME:
        return datetime.fromtimestamp(window.begin, UTC).strftime("%Y-%m-%d %H:%M")
    return f"{window.begin:,.6g}"


def _legend(summary: Summary) -> str:
    items = "".join(
        f'<li><span class="key s-{state.replace(" ", "-")}"></span>{escape_html(state)}: {count:,}</li>'
        for state, count in summary.states.items()
    )
    return f'<ul class="states">{items}</ul>'


def _labels(summary: Summary) -> str:
    metrics = summary.labelled
    if metrics is None:
        return "<p>There are no labels yet.</p>"
    low, high = metrics.accuracy_interval
    ece_low, ece_high = metrics.ece_interval
    return (
        f"<p>{metrics.n_samples:,} samples have a label. Accuracy {metrics.accuracy:.3f} ({low:.3f} to {high:.3f}), "
        f"ECE {metrics.ece:.3f} ({ece_low:.3f} to {ece_high:.3f}). Calibration {escape_html(summary.calibration)} "
        f"(log evidence against it {summary.log_evidence:.2f}).</p>"
    )


def _accepted(summary: Summary) -> str:
    accuracy = summary.accepted_accuracy
    estimated = "" if accuracy is None else f" Their estimated accuracy is {accuracy:.3f}."
    return f"<p>{summary.accepted_share:.1%} of the predictions have a confidence above the threshold.{estimated}</p>"


def _classes(window: WindowReport, names: Sequence[str]) -> str:
    shares = window.class_shares
    most_frequent = sorted(range(len(shares)), key=lambda c: -shares[c])[:_MAX_CLASSES]
    rows: list[dict[str, Value]] = [{"class": names[c], "share": shares[c]} for c in most_frequent]
    return to_html(Table("classes", "Table of classes", {"class": "Class", "share": "Share"}, rows))


_WINDOW_COLUMNS = {
    "begin": "From",
    "n_samples": "Samples",
    "state": "State",
    "reason": "Reason",
    "accuracy": "Accuracy",
    "interval": "Interval",
    "overconfidence": "Overconfidence",
    "nearest_level": "Nearest level",
    "low_confidence_share": "Low confidence",
    "accepted_share": "Accepted",
    "accepted_accuracy": "Accuracy of the accepted",
}


def _table(windows: Sequence[WindowReport]) -> str:
    has_threshold = any(window.accepted_share is not None for window in windows)
    columns = {key: text for key, text in _WINDOW_COLUMNS.items() if has_threshold or not key.startswith("accepted")}
    rows = []
    for window in reversed(windows):
        row: dict[str, Value] = {key: getattr(window, key, None) for key in columns}
        row |= {"begin": _begin(window), "n_samples": f"{window.n_samples:,}"}
        if window.accuracy_interval is not None:
            low, high = window.accuracy_interval
            row["interval"] = f"{low:.3f} to {high:.3f}"
        rows.append(row)
    table = to_html(Table("windows", "Table of windows", columns, rows, formats={"overconfidence": "+.3f"}))
    return f'<div class="windows">{table}</div>'


def _rejected(summary: Summary) -> str:
    if not summary.rejected:
        return "<p>None.</p>"
    return (
        "<ul>"
        + "".join(f"<li>{escape_html(reason)}: {count:,}</li>" for reason, count in summary.rejected.items())
        + "</ul>"
    )
