"""Asking nodes for their figures."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections import defaultdict

from prometheus_client.parser import text_string_to_metric_families

from nodes.fleet.monitor import Monitor
from tests.integration.processes import PLENTY_S

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def ports(monitor: Monitor) -> dict[int, int]:
    """Number of the node -> the port that its heartbeats name."""
    monitor.poll()
    return monitor.metrics_ports()


def ask(port: int, path: str, **headers: str) -> tuple[int, str]:
    """Status and body."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PLENTY_S) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def scrape(port: int) -> Samples:
    found: Samples = defaultdict(dict)
    code, text = ask(port, "/metrics")
    assert code == 200, text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name][tuple(sorted(sample.labels.items()))] = sample.value
    return found


def total(scraped: list[Samples], name: str, **labels: str) -> float:
    wanted = set(labels.items())
    return sum(value for samples in scraped for key, value in samples[name].items() if wanted <= set(key))
