"""A node's figures in Prometheus's text formats."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from nodes.errors import MissingDependency
from nodes.metrics.catalogue import METRICS
from nodes.metrics.figures import MetricFigures
from nodes.metrics.process_memory import private_bytes

HOW_TO_GET = "the package prometheus_client is not installed: pip install 'holon-streams[metrics]'"


def require_client() -> None:
    """Raises ``MissingDependency`` where the extra is missing."""
    try:
        import prometheus_client  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependency(HOW_TO_GET) from error


def exposition(figures: MetricFigures, now_s: float, turned_s: float, accept: str = "") -> tuple[bytes, str]:
    """(text, content type) for the formats that the caller accepts; raises ``MissingDependency``."""
    require_client()
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry()  # one a scrape and one a node: nothing is shared, nothing is global
    registry.register(_Collected([*_families(figures), *_process_families(now_s - turned_s)]))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Collected:
    """What prometheus_client calls a collector."""

    def __init__(self, families: list) -> None:
        self._families = families

    def collect(self) -> Iterable:
        return self._families


def _families(figures: MetricFigures) -> Iterator:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    for name, metric in figures.catalogue.items():
        if name in figures.histograms:
            buckets, total = figures.histograms[name]
            family = HistogramMetricFamily(name, metric.meaning)
            family.add_metric([], buckets=buckets, sum_value=total)
            yield family
        elif samples := figures.values.get(name):
            make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = make(name, metric.meaning, labels=metric.labels)
            for labels, value in samples.items():
                family.add_metric(labels, value)
            yield family


def _process_families(since_turn_s: float) -> Iterator:
    """The figures that the scraping thread itself can read."""
    from prometheus_client.core import GaugeMetricFamily

    found = {
        "holon_memory_bytes": float(private_bytes(os.getpid())),
        "holon_open_descriptors": float(_open_descriptors()),
        "holon_last_turn_seconds": since_turn_s,
    }
    for name, value in found.items():
        yield GaugeMetricFamily(name, METRICS[name].meaning, value=value)


def _open_descriptors() -> int:
    if os.path.isdir("/proc/self/fd"):
        return len(os.listdir("/proc/self/fd")) - 1  # without that of the folder itself
    import psutil

    return psutil.Process().num_fds()
