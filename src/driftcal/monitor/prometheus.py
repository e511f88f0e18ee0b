"""A monitor's newest numbers in Prometheus' text format."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from driftcal.monitor.states import STATES

# Classes with a line of their own: a time series each, so a model with thousands must not list them all.
_MOST_CLASSES = 100


def prometheus_text(
    windows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any], class_names: Sequence[str]
) -> str:
    """Gauges of the newest window and counters over all rows, as a scraper or a textfile collector reads them.

    https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    lines: list[str] = []

    def metric(
        name: str, kind: str, help_text: str, samples: Sequence[tuple[Mapping[str, object], float | None]]
    ) -> None:
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            lines.append(f"# HELP driftcal_{name} {help_text}")
            lines.append(f"# TYPE driftcal_{name} {kind}")
            lines.extend(f"driftcal_{name}{_labels(labels)} {_number(value)}" for labels, value in known)

    metric("rows_total", "counter", "Rows seen and used.", [({}, summary["rows"])])
    rejected = [({"reason": reason}, float(n)) for reason, n in summary["rejected"].items()]
    metric("rejected_rows_total", "counter", "Rows and lines that could not be used.", rejected)
    newest: Mapping[str, Any] = next((window for window in windows if window["window"] == summary["newest"]), {})
    low, high = newest.get("interval") or (None, None)
    edges = [({"edge": "low"}, low), ({"edge": "high"}, high)]
    state = [({"state": name}, float(name == summary["state"])) for name in STATES]
    metric("window_rows", "gauge", "Rows of the newest window.", [({}, newest.get("rows"))])
    metric("estimated_accuracy", "gauge", "Accuracy estimated without labels.", [({}, newest.get("accuracy"))])
    metric("estimated_accuracy_interval", "gauge", "Interval of the estimated accuracy.", edges)
    metric("mean_confidence", "gauge", "Mean calibrated confidence.", [({}, newest.get("confidence"))])
    metric("estimated_overconfidence", "gauge", "Mean confidence minus accuracy.", [({}, newest.get("overconfidence"))])
    metric("ladder_position", "gauge", "Place on the noise ladder, 0 is clean.", [({}, newest.get("level"))])
    metric("low_confidence_share", "gauge", "Share of unsure predictions.", [({}, newest.get("low_confidence"))])
    metric("label_distance", "gauge", "Total variation to the clean predictions.", [({}, newest.get("label_distance"))])
    metric("state", "gauge", "1 for the state of the newest window.", state)
    shares = list(newest.get("shares", ()))[:_MOST_CLASSES]
    classes = [({"class": class_names[c] if c < len(class_names) else c}, share) for c, share in enumerate(shares)]
    metric("predicted_share", "gauge", "Share of a class among the predictions.", classes)
    labelled = summary["labelled"] or {}
    metric("labelled_rows_total", "counter", "Rows whose label came.", [({}, labelled.get("rows"))])
    metric("true_accuracy", "gauge", "Accuracy of all labelled rows.", [({}, labelled.get("accuracy"))])
    metric("calibration_error", "gauge", "ECE of all labelled rows.", [({}, labelled.get("ece"))])
    evidence = summary["log_evidence"] if labelled else None
    metric("log_evidence_against_calibration", "gauge", "Natural logarithm of the e-value.", [({}, evidence)])
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, object]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: object) -> str:
    plain = str(value).encode("utf-8", "backslashreplace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(float(value)) if math.isfinite(value) else ("+Inf" if value > 0 else "-Inf")
