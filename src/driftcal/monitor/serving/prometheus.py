"""The newest metrics of a monitor in Prometheus' text format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from driftcal.monitor.alarm_rule import STATES
from driftcal.monitor.summary import Summary
from driftcal.monitor.window_report import WindowReport

#: The most classes that have a time series: thousands of series would overload a scraper.
_MAX_CLASSES = 100
#: The labels and the value of each time series; None for a value that is not known.
_Values = Sequence[tuple[Mapping[str, object], float | None]]


@dataclass(frozen=True)
class MetricFamily:
    """A metric of Prometheus: its name without "driftcal_", its kind, a sentence, and its time series."""

    name: str
    kind: str
    help_text: str
    #: The labels and the value of each time series.
    values: Sequence[tuple[Mapping[str, object], float]]


def metric_families(
    newest: WindowReport | None,
    summary: Summary,
    class_names: Sequence[str],
    *,
    n_pending: int = 0,
    failed_writes: int = 0,
) -> list[MetricFamily]:
    """Gauges of the newest window and counters over all samples; a metric without a value is left out."""
    rejected = [({"reason": reason}, count) for reason, count in summary.rejected.items()]
    listed: list[tuple[str, str, str, _Values]] = [
        ("samples_total", "counter", "Samples that were used.", [({}, summary.n_samples)]),
        ("rejected_samples_total", "counter", "Samples and lines that could not be used.", rejected),
        ("pending_samples", "gauge", "Samples that wait for their label.", [({}, n_pending)]),
        ("failed_writes_total", "counter", "Writes of the state or of the metrics that failed.", [({}, failed_writes)]),
        *(_window_metrics(newest, class_names) if newest is not None else ()),
        (
            "state",
            "gauge",
            "1 for the state of the newest window.",
            [({"state": name}, name == summary.state) for name in STATES],
        ),
        (
            "windows",
            "gauge",
            "Windows that are kept, by state.",
            [({"state": name}, count) for name, count in summary.states.items()],
        ),
    ]
    if (labelled := summary.labelled) is not None:
        listed += [
            ("labelled_samples_total", "counter", "Samples with a label.", [({}, labelled.n_samples)]),
            ("true_accuracy", "gauge", "Accuracy of all labelled samples since the start.", [({}, labelled.accuracy)]),
            ("calibration_error", "gauge", "ECE of all labelled samples since the start.", [({}, labelled.ece)]),
            (
                "log_evidence_against_calibration",
                "gauge",
                "Natural logarithm of the e-value.",
                [({}, summary.log_evidence)],
            ),
        ]
    families = []
    for name, kind, text, values in listed:
        present = [(labels, float(value)) for labels, value in values if value is not None]
        if present:
            families.append(MetricFamily(name, kind, text, present))
    return families


def prometheus_text(families: Iterable[MetricFamily]) -> str:
    """Metrics in Prometheus' text format, for a textfile collector.

    https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    lines = []
    for family in families:
        name = f"driftcal_{family.name}"
        lines += [f"# HELP {name} {family.help_text}", f"# TYPE {name} {family.kind}"]
        lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in family.values]
    return "\n".join(lines) + "\n"


def _window_metrics(window: WindowReport, class_names: Sequence[str]) -> list[tuple[str, str, str, _Values]]:
    low, high = window.accuracy_interval or (None, None)
    n_labelled, true_accuracy = (
        (0, None) if window.labelled is None else (window.labelled.n_samples, window.labelled.accuracy)
    )
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
        ("windowed_confidence", "Mean confidence of the windowed form.", [({}, window.windowed_confidence)]),
        ("accepted_share", "Share of predictions above the threshold.", [({}, window.accepted_share)]),
        ("accepted_accuracy", "Estimated accuracy of the accepted predictions.", [({}, window.accepted_accuracy)]),
        (
            "estimate_extrapolates",
            "1 if the newest window is unlike all simulated shifts.",
            [({}, window.extrapolates)],
        ),
        ("estimated_overconfidence", "Mean confidence minus estimated accuracy.", [({}, window.overconfidence)]),
        ("level_position", "Position between the perturbation levels, 0 is clean.", [({}, window.level)]),
        ("low_confidence_share", "Share of predictions with low confidence.", [({}, window.low_confidence_share)]),
        ("class_distance", "Total variation distance to the clean predictions.", [({}, window.class_distance)]),
        ("window_labelled_samples", "Samples of the newest window with a label.", [({}, n_labelled)]),
        ("window_true_accuracy", "Accuracy of the labelled samples of the newest window.", [({}, true_accuracy)]),
        ("predicted_share", "Share of a class among the predictions.", classes),
    ]
    return [(name, "gauge", text, values) for name, text, values in gauges]


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
