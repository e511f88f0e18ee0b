"""What a notebook shows of results, calibrated models, monitors and calibrators. All names are escaped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.monitor.monitor import Monitor
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.evaluating.results import POOLED, ResultRow, Results
from driftcal.pipeline.windowed_model import WindowedModel
from driftcal.report.comparison import compare_calibrators, featured_line
from driftcal.report.headline import report_text
from driftcal.report.result_tables import main_table_of
from driftcal.report.shift_names import shift_title
from driftcal.report.table import Table, Value, escape_html, to_html

#: The newest windows of a monitor that are shown.
_MAX_WINDOWS = 10
#: The most numbers of a fitted array that are shown.
_MAX_NUMBERS = 6
#: The side of a small reliability plot in pixels.
_SIDE = 150


def html_of(value: Any) -> str:
    """The HTML of an object; its text if there is no display for it."""
    for kind, draw in _DISPLAYS:
        if isinstance(value, kind):
            return f"<div>{draw(value)}</div>"
    return f"<pre>{escape_html(repr(value))}</pre>"


def _results(results: Results) -> str:
    lines = compare_calibrators(results)
    featured = featured_line(lines, results.metadata)
    parts = [f"<p><b>{escape_html(report_text(results).headline)}</b></p>", to_html(main_table_of(results))]
    if featured is not None:
        rows = [row for row in results.rows if row.calibrator == featured.info.name and row.group is None]
        clean = next(row for row in rows if row.level == 0)
        worst = next(row for row in rows if row.level == POOLED and row.shift == featured.summary.worst_shift)
        shown = (
            {"in domain": clean} if results.in_domain_only else {"in domain": clean, shift_title(worst.shift): worst}
        )
        plots = (_reliability(row, f"{featured.info.label}, {title}") for title, row in shown.items())
        parts.append(f'<div style="display:flex;gap:16px;flex-wrap:wrap">{"".join(plots)}</div>')
    return "".join(parts)


def _reliability(row: ResultRow, title: str) -> str:
    """A small reliability plot: for each bin, accuracy against confidence, and the diagonal."""
    weight, confidence, outcome = (np.asarray(row.bins[key], float) for key in ("weight", "confidence", "outcome"))
    used = weight > 0
    x, y = confidence[used] / weight[used], outcome[used] / weight[used]
    size = 2 + 5 * np.sqrt(weight[used] / weight.sum())
    marks = "".join(
        f'<line x1="{_SIDE * a:.1f}" y1="{_SIDE * (1 - a):.1f}" x2="{_SIDE * a:.1f}" y2="{_SIDE * (1 - b):.1f}" stroke="#c8501e" '
        f'stroke-width="1"/><circle cx="{_SIDE * a:.1f}" cy="{_SIDE * (1 - b):.1f}" r="{r:.1f}" fill="#0b5cad"/>'
        for a, b, r in zip(x, y, size, strict=True)
    )
    text = f"{title}: ECE {row.ece:.3f}"
    return (
        f'<figure style="margin:0"><svg width="{_SIDE + 10}" height="{_SIDE + 10}" viewBox="-5 -5 {_SIDE + 10} {_SIDE + 10}" role="img" '
        f'aria-label="{escape_html(text)}"><rect width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#999"/>'
        f'<line x1="0" y1="{_SIDE}" x2="{_SIDE}" y2="0" stroke="#999" stroke-dasharray="4 3"/>{marks}</svg>'
        f"<figcaption>{escape_html(text)}</figcaption></figure>"
    )


def _calibrated(calibrated: CalibratedModel) -> str:
    metadata = calibrated.metadata
    windowed = calibrated.windowed_candidate()
    ece = metadata.get("cross_validated_ece") or {}
    rows: list[tuple[str, Any]] = [
        ("model", calibrated.model.name),
        ("per sample", f"{calibrated.name.upper()}, tuned on {calibrated.tuned_on}"),
        (
            "windowed",
            None if windowed is None else f"{windowed.name.upper()}: calibrated.windowed({windowed.window_size})",
        ),
        ("validation accuracy", _number(metadata.get("accuracy"))),
        ("cross-validated ECE in domain", _number(ece.get("in_domain"))),
        ("cross-validated ECE under shift", _number(ece.get("under_shift"))),
    ]
    return _facts(type(calibrated).__name__, rows) + f"<p>{escape_html(calibrated.explanation)}</p>"


def _windowed(model: WindowedModel) -> str:
    return _facts(type(model).__name__, [("window", f"the last {model.window_size} samples")])


def _monitor(monitor: Monitor) -> str:
    windows = monitor.windows()[-_MAX_WINDOWS:]
    rows: list[dict[str, Value]] = [
        {
            "window": window.window, "n_samples": window.n_samples, "state": window.state, "accuracy": window.accuracy,
            "confidence": window.confidence, "level": window.nearest_level,
        }
        for window in windows
    ]  # fmt: skip
    headings = ("Window", "Samples", "State", "Accuracy, estimated", "Mean confidence", "Level")
    columns = dict(zip(("window", "n_samples", "state", "accuracy", "confidence", "level"), headings, strict=True))
    text = "<br>".join(escape_html(line) for line in monitor.summary().lines())
    return f"<p>{text}</p>" + to_html(Table("windows", "Newest windows", columns, rows, formats={"n_samples": ",d"}))


def _calibrator(calibrator: Calibrator) -> str:
    rows: list[tuple[str, Any]] = [
        (name, value) for name, value in calibrator.get_params(deep=False).items() if value is not None
    ]
    if not calibrator.__sklearn_is_fitted__():
        return _facts(f"{type(calibrator).__name__}, not fitted", rows)
    report = calibrator.fit_report_
    rows.append(("classes", len(calibrator.classes_)))
    rows += [(name, _array(getattr(calibrator, name))) for name in calibrator.fitted]
    rows.append((f"{report.loss} before and after", f"{report.before:.4f}, {report.after:.4f}"))
    return _facts(type(calibrator).__name__, rows)


def _facts(title: str, rows: Sequence[tuple[str, Any]]) -> str:
    """Names and values as a table of two columns."""
    body: list[dict[str, Value]] = [{"name": name, "value": str(value)} for name, value in rows if value is not None]
    return to_html(Table("facts", title, {"name": title, "value": ""}, body))


def _array(value: Any) -> str:
    array = np.asarray(value)
    if array.size > _MAX_NUMBERS:
        return f"{' × '.join(map(str, array.shape))} numbers"
    return ", ".join(f"{number:.4g}" for number in array.ravel())


def _number(value: Any) -> str | None:
    return None if value is None else f"{value:.3f}"


_DISPLAYS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (Results, _results),
    (CalibratedModel, _calibrated),
    (WindowedModel, _windowed),
    (Monitor, _monitor),
    (Calibrator, _calibrator),
)
