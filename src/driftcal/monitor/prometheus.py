"""The newest metrics of a monitor in Prometheus' text format."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from driftcal.monitor.alarm_rule import STATES
from driftcal.monitor.summary import Summary
from driftcal.monitor.window_report import WindowReport

#: The most classes that have a time series: thousands of series would overload a scraper.
_MAX_CLASSES = 100

#: The labels and the value of each time series of a metric.
_Values = Sequence[tuple[Mapping[str, object], float | None]]


def prometheus_text(newest: WindowReport | None, summary: Summary, class_names: Sequence[str]) -> str:
    """Gauges of the newest window and counters over all samples, for a scraper or a textfile collector.

    https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    lines = [
        *_metric("samples_total", "counter", "Samples that were used.", [({}, summary.n_samples)]),
        *_metric(
            "rejected_samples_total",
            "counter",
            "Samples and lines that could not be used.",
            [({"reason": reason}, float(count)) for reason, count in summary.rejected.items()],
        ),
        *(_window_metrics(newest, class_names) if newest is not None else ()),
        *_metric(
            "state",
            "gauge",
            "1 for the state of the newest window.",
            [({"state": name}, float(name == summary.state)) for name in STATES],
        ),
        *_metric(
            "windows",
            "gauge",
            "Windows that are kept, by state.",
            [({"state": name}, float(count)) for name, count in summary.states.items()],
        ),
    ]
    if summary.labelled is not None:
        labelled = summary.labelled
        lines += [
            *_metric("labelled_samples_total", "counter", "Samples with a label.", [({}, labelled.n_samples)]),
            *_metric("true_accuracy", "gauge", "Accuracy of all labelled samples.", [({}, labelled.accuracy)]),
            *_metric("calibration_error", "gauge", "ECE of all labelled samples.", [({}, labelled.ece)]),
            *_metric(
                "log_evidence_against_calibration",
                "gauge",
                "Natural logarithm of the e-value.",
                [({}, summary.log_evidence)],
            ),
        ]
    return "\n".join(lines) + "\n"


def _window_metrics(window: WindowReport, class_names: Sequence[str]) -> list[str]:
    low, high = window.accuracy_interval or (None, None)
    shares = list(window.class_shares)[:_MAX_CLASSES]
    classes = [({"class": class_names[c] if c < len(class_names) else c}, share) for c, share in enumerate(shares)]
    gauges: list[tuple[str, str, _Values]] = [
        ("window_samples", "Samples of the newest window.", [({}, window.n_samples)]),
        ("estimated_accuracy", "Accuracy estimated without labels.", [({}, window.accuracy)]),
        (
            "estimated_accuracy_interval",
            "Interval of the estimated accuracy.",
            [({"edge": "low"}, low), ({"edge": "high"}, high)],
        ),
        ("mean_confidence", "Mean calibrated confidence.", [({}, window.confidence)]),
        ("estimated_overconfidence", "Mean confidence minus estimated accuracy.", [({}, window.overconfidence)]),
        ("level_position", "Position between the perturbation levels, 0 is clean.", [({}, window.level)]),
        ("low_confidence_share", "Share of predictions with low confidence.", [({}, window.low_confidence_share)]),
        ("class_distance", "Total variation distance to the clean predictions.", [({}, window.class_distance)]),
        ("predicted_share", "Share of a class among the predictions.", classes),
    ]
    return [line for name, text, values in gauges for line in _metric(name, "gauge", text, values)]


def _metric(name: str, kind: str, help_text: str, values: _Values) -> list[str]:
    """The lines of one metric; none if it has no value."""
    samples = [f"driftcal_{name}{_labels(labels)} {_number(value)}" for labels, value in values if value is not None]
    return [f"# HELP driftcal_{name} {help_text}", f"# TYPE driftcal_{name} {kind}", *samples] if samples else []


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
