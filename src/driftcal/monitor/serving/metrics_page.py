"""The page /metrics of a listening monitor, by the official client of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from driftcal.errors import need
from driftcal.monitor.serving.prometheus import MetricFamily

#: The extra that holds the client.
EXTRA = "monitor"


def metrics_page(families: Callable[[], list[MetricFamily]]) -> Callable[[str], tuple[str, bytes]]:
    """A page with the metrics, and with memory and CPU time of the process; the Accept header decides on the format."""
    client = need("prometheus_client", EXTRA)
    core, exposition = need("prometheus_client.core", EXTRA), need("prometheus_client.exposition", EXTRA)
    kinds = {"counter": core.CounterMetricFamily, "gauge": core.GaugeMetricFamily}

    class Collector:
        def collect(self) -> Iterator[Any]:
            for family in families():
                labels = list(family.values[0][0])
                metric = kinds[family.kind](f"driftcal_{family.name}", family.help_text, labels=labels)
                for values, value in family.values:
                    metric.add_metric([_text(values[name]) for name in labels], value)
                yield metric

        def describe(self) -> list[Any]:
            return []

    registry = client.CollectorRegistry()
    registry.register(Collector())
    client.ProcessCollector(registry=registry)

    def page(accept: str) -> tuple[str, bytes]:
        encoder, content_type = exposition.choose_encoder(accept)
        return content_type, encoder(registry)

    return page


def _text(value: object) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()
