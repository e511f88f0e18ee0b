"""A monitor's windows as one page: estimated accuracy, place on the ladder, states; drawn here, without any script."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from driftcal.io.atomic import write_atomic
from driftcal.report.html import asset, policy, text

# state -> the variable of the style sheet that colours it, and a pattern of its own for who cannot tell colours
_COLOURS = {"ok": "--s3", "drifting": "--s5", "out of distribution": "--s2", "cannot tell": "--s0"}
_HEIGHTS = {"ok": 8, "drifting": 16, "out of distribution": 24, "cannot tell": 12}
_WIDTH, _LEFT, _RIGHT = 960, 52, 12
# Lines of the table; the charts show all windows.
_MOST_LINES = 200
_MOST_CIRCLES = 60
_EPOCH = 1e8  # numbers of a window's begin above this are seconds since 1970, not rows

_STYLE = """
.hero h1 + p { margin-top: 0.75rem; }
.timeline { width: 100%; min-width: 36rem; height: auto; display: block; font-size: 12px; }
.timeline text { fill: var(--soft); } .timeline .grid { stroke: var(--line); } .timeline .axis { stroke: var(--edge); }
.timeline .band { fill: var(--s1); opacity: 0.18; } .timeline .line { fill: none; stroke: var(--s1); stroke-width: 1.8; }
.timeline .said { fill: none; stroke: var(--s0); stroke-width: 1.2; stroke-dasharray: 4 3; }
.timeline .true { fill: var(--surface); stroke: var(--ink); stroke-width: 1.3; }
.states { display: flex; flex-wrap: wrap; gap: 1.25rem; padding: 0; list-style: none; font-size: 0.875rem; color: var(--soft); }
.key { display: inline-block; width: 0.8rem; height: 0.8rem; margin-right: 0.4rem; border-radius: 2px; vertical-align: -1px; }
"""
_STYLE += "".join(
    f".s-{name.replace(' ', '-')} {{ fill: var({colour}); background: var({colour}); }}\n"
    for name, colour in _COLOURS.items()
)


def write_timeline(
    windows: Sequence[Mapping[str, Any]],
    summary: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    title: str = "Monitor",
    class_names: Sequence[str] = (),
) -> Path:
    """Write the page as one HTML file that works offline; windows and summary as a monitor's `to_dict` gives them."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    return write_atomic(target, timeline_html(windows, summary, title=title, class_names=class_names).encode())


def timeline_html(
    windows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any], *, title: str, class_names: Sequence[str] = ()
) -> str:
    """The page that :func:`write_timeline` writes."""
    style = asset("report.css") + _STYLE
    levels = [w for w in windows if w.get("level") is not None]
    newest = [w for w in windows if w["window"] == summary["newest"]]
    parts = [
        _section("Accuracy", _ACCURACY_LEAD, accuracy_svg(windows) + _legend(summary)),
        _section("Place on the noise ladder", _LADDER_LEAD, _level_svg(levels)) if levels else "",
        _section("Unsure predictions", "Share of predictions with low confidence.", _low_svg(windows)),
        _section("Labels that came late", "", _labels(summary)),
        _section("Predicted classes", _CLASSES_LEAD, _classes(newest[0], class_names)) if newest else "",
        _section("Windows", f"The newest {_MOST_LINES} at most.", _table(windows[-_MOST_LINES:])),
        _section("Rows that could not be used", "", _rejected(summary)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy("", style)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f'<title>{text(title)}</title><style>{style}</style></head><body><div class="page"><main id="main">'
        f'<div class="hero"><p class="title">{text(title)}</p><h1>{text(_headline(summary))}</h1>'
        f"<p>{text(summary['recommendation'])}</p></div>{''.join(parts)}</main>"
        "<footer>Made with driftcal. This file is complete: it loads nothing and sends nothing.</footer></div></body></html>\n"
    )


_ACCURACY_LEAD = (
    "The line is the accuracy estimated without labels, the band its interval, the dashed line what the model says of itself. "
    "Circles are true accuracies of windows with labels. The strip below shows the state of every window."
)
_LADDER_LEAD = "The level of the ladder that is as certain as the window; level 1 is clean data."
_CLASSES_LEAD = "Share of each class among the predictions of the newest window, the twenty most frequent."


def _headline(summary: Mapping[str, Any]) -> str:
    words = {
        "ok": "The newest window looks like the validation data",
        "drifting": "The newest window has drifted",
        "out of distribution": "The newest window is out of distribution",
        "cannot tell": "Nothing can be told about the newest window",
    }
    return f"{words[summary['state']]}. {summary['rows']:,} rows seen."


def _section(title: str, lead: str, body: str) -> str:
    return f'<section><h2>{title}</h2><p class="lead">{lead}</p><div class="panel">{body}</div></section>'


def accuracy_svg(windows: Sequence[Mapping[str, Any]]) -> str:
    """The chart of estimated accuracy with its interval, stated confidence, late labels, and the strip of states."""
    top, height, strip = 10, 230, 30
    x, y = _across(windows), _up(top, height, 1.0)
    known = [(i, w) for i, w in enumerate(windows) if w.get("accuracy") is not None]
    shapes = []
    if known:
        upper = [f"{x(i):.1f},{y(w['interval'][1]):.1f}" for i, w in known]
        lower = [f"{x(i):.1f},{y(w['interval'][0]):.1f}" for i, w in reversed(known)]
        shapes.append(f'<polygon class="band" points="{" ".join(upper + lower)}"/>')
        shapes.append(_line("line", [(x(i), y(w["accuracy"])) for i, w in known]))
    shapes.append(_line("said", [(x(i), y(w["confidence"])) for i, w in enumerate(windows)]))
    for i, share in _true_accuracies(windows):
        shapes.append(f'<circle class="true" cx="{x(i):.1f}" cy="{y(share):.1f}" r="3"/>')
    base = top + height + strip
    wide = max(1.0, (_WIDTH - _LEFT - _RIGHT) / max(1, len(windows)))
    for i, w in enumerate(windows):
        tall = _HEIGHTS[w["state"]]
        tip = f"{_when(w)}: {w['state']}, {w['why']}"
        shapes.append(
            f'<rect class="s-{w["state"].replace(" ", "-")}" x="{x(i) - wide / 2:.1f}" y="{base - tall}" width="{wide:.2f}" '
            f'height="{tall}"><title>{text(tip)}</title></rect>'
        )
    return _svg(
        "Estimated accuracy over time", top + height + strip + 24, _frame(windows, top, height, 1.0) + "".join(shapes)
    )


def _true_accuracies(windows: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """Where circles go: neighbouring windows together, so that there are at most so many."""
    known = [(i, w["labelled"]) for i, w in enumerate(windows) if w.get("labelled")]
    each = -(-len(known) // _MOST_CIRCLES)
    groups = [known[k : k + each] for k in range(0, len(known), max(1, each))]
    return [
        (group[len(group) // 2][0], sum(f["accuracy"] * f["rows"] for _, f in group) / sum(f["rows"] for _, f in group))
        for group in groups
    ]


def _level_svg(windows: Sequence[Mapping[str, Any]]) -> str:
    most = max(1.0, *(float(str(w["looks_like"]).split()[3]) for w in windows))
    x, y = _across(windows), _up(10, 130, most)
    points = [(x(i), y(w["level"] + 1)) for i, w in enumerate(windows)]
    return _svg("Place on the noise ladder over time", 170, _frame(windows, 10, 130, most) + _line("line", points))


def _low_svg(windows: Sequence[Mapping[str, Any]]) -> str:
    x, y = _across(windows), _up(10, 130, 1.0)
    points = [(x(i), y(w["low_confidence"])) for i, w in enumerate(windows)]
    return _svg("Share of unsure predictions over time", 170, _frame(windows, 10, 130, 1.0) + _line("line", points))


def _across(windows: Sequence[Mapping[str, Any]]) -> Callable[[int], float]:
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(windows))
    return lambda i: _LEFT + (i + 0.5) * step


def _up(top: float, height: float, most: float) -> Callable[[float], float]:
    return lambda value: top + height * (1 - min(max(value / most, 0.0), 1.0))


def _line(kind: str, points: Sequence[tuple[float, float]]) -> str:
    return f'<polyline class="{kind}" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>'


def _svg(name: str, height: float, body: str) -> str:
    label = text(name)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}; scrolls sideways">'
        f'<svg class="timeline" role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {height:g}">{body}</svg></div>'
    )


def _frame(windows: Sequence[Mapping[str, Any]], top: float, height: float, most: float) -> str:
    y, x = _up(top, height, most), _across(windows)
    parts = []
    for k in range(5):
        value = most * k / 4
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        )
        parts.append(f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    shown = range(0, len(windows), max(1, -(-len(windows) // 6)))
    floor = top + height + (48 if most == 1.0 and height > 200 else 18)
    parts += [f'<text x="{x(i):.1f}" y="{floor}" text-anchor="middle">{text(_when(windows[i]))}</text>' for i in shown]
    return "".join(parts)


def _when(window: Mapping[str, Any]) -> str:
    begin = float(window["begin"])
    if _EPOCH < begin < 1e11:
        return datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%d %H:%M")
    return f"{begin:,.6g}"


def _legend(summary: Mapping[str, Any]) -> str:
    items = "".join(
        f'<li><span class="key s-{name.replace(" ", "-")}"></span>{text(name)}: {n:,}</li>'
        for name, n in summary["states"].items()
    )
    return f'<ul class="states">{items}</ul>'


def _labels(summary: Mapping[str, Any]) -> str:
    found = summary["labelled"]
    if not found:
        return "<p>No labels have come yet.</p>"
    low, high = found["accuracy_interval"]
    below, above = found["ece_interval"]
    return (
        f"<p>{found['rows']:,} rows have a label. Accuracy {found['accuracy']:.3f} ({low:.3f} to {high:.3f}), "
        f"ECE {found['ece']:.3f} ({below:.3f} to {above:.3f}). Calibration: {text(summary['calibration'])} "
        f"(log evidence against it {summary['log_evidence']:.2f}).</p>"
    )


def _classes(window: Mapping[str, Any], names: Sequence[str]) -> str:
    shares = window["shares"]
    order = sorted(range(len(shares)), key=lambda c: -shares[c])[:20]
    lines = "".join(
        f"<tr><td><bdi>{text(names[c] if c < len(names) else c)}</bdi></td><td>{shares[c]:.3f}</td></tr>" for c in order
    )
    return f'<div class="scroll"><table class="data"><tbody>{lines}</tbody></table></div>'


def _table(windows: Sequence[Mapping[str, Any]]) -> str:
    head = ("From", "Rows", "State", "Accuracy", "Interval", "Overconfidence", "Looks like", "Unsure", "Why")
    lines = []
    for w in reversed(windows):
        known = w.get("accuracy") is not None
        cells = (
            _when(w),
            f"{w['rows']:,}",
            w["state"],
            f"{w['accuracy']:.3f}" if known else "–",
            f"{w['interval'][0]:.3f} to {w['interval'][1]:.3f}" if known else "–",
            f"{w['overconfidence']:+.3f}" if known else "–",
            w["looks_like"] or "–",
            f"{w['low_confidence']:.3f}",
            w["why"],
        )
        lines.append("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in cells) + "</tr>")
    columns = "".join(f'<th scope="col">{name}</th>' for name in head)
    return (
        '<div class="scroll" role="region" tabindex="0" aria-label="Table of windows; scrolls sideways"><table class="data">'
        f"<thead><tr>{columns}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _rejected(summary: Mapping[str, Any]) -> str:
    if not summary["rejected"]:
        return "<p>None.</p>"
    return "<ul>" + "".join(f"<li>{text(why)}: {n:,}</li>" for why, n in summary["rejected"].items()) + "</ul>"
