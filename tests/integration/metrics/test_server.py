"""The metrics server's replies, health, and figures, without any fleet."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodes.errors import MissingDependency, RunFailed, SettingsError
from nodes.metrics.catalogue import METRICS
from nodes.metrics.counters import DurationHistogram
from nodes.metrics.figures import FigureDesk, MetricFigures
from nodes.metrics.health import Health, HealthLimits, live, ready
from nodes.metrics.server import MetricsServer, Pages
from nodes.settings.settings import load_settings
from nodes.transactions.metrics.catalogue import TRANSACTION_METRICS

LIMITS = HealthLimits(turn_s=10.0, log_s=2.0, lag_s=5.0)
GOOD = MetricFigures(joined=True)
DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"


def no_client(accept: str) -> tuple[bytes, str]:
    raise MissingDependency("pip install 'holon-streams[metrics]'")


@contextmanager
def serving(token: str | None = None, names: tuple[str, ...] = (), pages: Pages | None = None) -> Iterator[int]:
    given = pages or Pages(lambda accept: (b"figures", "text/plain"), Health, lambda: Health(("loading",)))
    server = MetricsServer(given, "127.0.0.1", 0, token, names)
    server.start()
    try:
        yield server.address[1]
    finally:
        server.close()


def reply(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_pages_and_their_statuses() -> None:
    with serving() as port:
        assert reply(port, "/metrics?x=1") == (200, "figures")
        assert reply(port, "/healthz")[0] == 200
        code, text = reply(port, "/readyz")
        assert code == 503 and "loading" in text
        assert reply(port, "/")[0] == 404
        assert reply(port, "/metrics", method="POST")[0] == 501


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9000", "[::1]:80", "LOCALHOST:1", "holon.lan"])
def test_known_hosts_are_answered(host: str) -> None:
    with serving(names=("holon.lan",)) as port:
        assert reply(port, "/metrics", Host=host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "10.1.2.3", "127.0.0.1.evil.example", ""])
def test_a_name_that_nobody_allowed_is_refused(host: str) -> None:
    """A page whose name was rebound to this address must not read the figures through its reader's browser."""
    with serving() as port:
        assert reply(port, "/metrics", Host=host)[0] == 421


def test_a_web_page_may_not_ask() -> None:
    with serving() as port:
        assert reply(port, "/metrics", Origin="http://localhost")[0] == 403


def test_token_is_asked_for_on_every_page_before_anything_is_said() -> None:
    with serving(token="secret") as port:
        for path in ("/metrics", "/healthz", "/readyz", "/other"):
            assert reply(port, path)[0] == 401
            assert reply(port, path, Authorization="Bearer secre")[0] == 401
            assert reply(port, path, Authorization="Bearer sécret")[0] == 401
        assert reply(port, "/metrics", Authorization="Bearer secret") == (200, "figures")
        assert reply(port, "/metrics", Authorization="Bearer secret", Host="10.1.2.3")[0] == 200


def test_without_the_extra_health_is_served_and_metrics_say_what_to_install() -> None:
    with serving(pages=Pages(no_client, Health, Health)) as port:
        assert reply(port, "/healthz")[0] == 200
        code, text = reply(port, "/metrics")
        assert code == 501 and "holon-streams[metrics]" in text


def test_more_requests_than_allowed_are_turned_away_not_queued() -> None:
    inside, go_on = threading.Semaphore(0), threading.Event()

    def slow(accept: str) -> tuple[bytes, str]:
        inside.release()
        assert go_on.wait(60)
        return b"figures", "text/plain"

    with serving(pages=Pages(slow, Health, Health)) as port:
        threads = [threading.Thread(target=reply, args=(port, "/metrics")) for _ in range(8)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert inside.acquire(timeout=60)
        try:
            assert reply(port, "/healthz")[0] == 503
        finally:
            go_on.set()
            for thread in threads:
                thread.join()
        assert reply(port, "/healthz")[0] == 200


def test_taken_port_is_a_named_error() -> None:
    with serving() as port, pytest.raises(RunFailed, match=f"metrics.port = {port}"):
        MetricsServer(Pages(no_client, Health, Health), "127.0.0.1", port, None)


@pytest.mark.parametrize(
    ("figures", "stalled_s", "log_silent_s", "problem"),
    [
        (MetricFigures(joined=False), 0.0, 0.0, "joined"),
        (MetricFigures(joined=True, loading=(3,)), 0.0, 0.0, "partitions 3"),
        (MetricFigures(joined=True, lag_s=5.0), 0.0, 0.0, "behind"),
        (GOOD, 0.0, 2.0, "the log"),
        (GOOD, 10.0, 0.0, "not turned"),
    ],
)
def test_each_reason_makes_a_node_unready(
    figures: MetricFigures, stalled_s: float, log_silent_s: float, problem: str
) -> None:
    health = ready(live(stalled_s, LIMITS), figures, log_silent_s, LIMITS)
    assert len(health.problems) == 1 and problem in health.problems[0]


def test_good_node_is_live_and_ready() -> None:
    assert live(9.9, LIMITS).ok and ready(live(9.9, LIMITS), GOOD, 1.9, LIMITS).ok


def test_histogram_counts_a_bound_as_within() -> None:
    histogram = DurationHistogram((0.1, 1.0))
    for duration_s in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(duration_s)
    assert histogram.cumulative() == [("0.1", 2.0), ("1.0", 3.0), ("+Inf", 4.0)]
    assert histogram.sum_s == pytest.approx(7.65)


def test_node_that_does_not_turn_leaves_the_last_figures() -> None:
    desk = FigureDesk(None, None)  # type: ignore[arg-type]  # neither is looked at before the node's thread serves
    desk.last = GOOD
    assert desk.request(timeout_s=0.01) is GOOD


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "holon.lan"])
def test_other_machines_need_a_token(tmp_path: Path, host: str) -> None:
    with pytest.raises(SettingsError, match=r"metrics\.token"):
        load_settings(definitions=[f"metrics.host={host}"], environ={}, directory=tmp_path)
    given = [f"metrics.host={host}", "metrics.token=env:TOKEN"]
    settings = load_settings(definitions=given, environ={"TOKEN": "s3cret"}, directory=tmp_path)
    assert settings.metrics.token is not None and settings.metrics.token.get_secret_value() == "s3cret"
    assert "s3cret" not in str(dict(settings.items())) and any("plain HTTP" in line for line in settings.warnings())
    with pytest.raises(SettingsError, match="empty"):
        load_settings(definitions=given, environ={"TOKEN": ""}, directory=tmp_path)


def test_every_metric_is_documented() -> None:
    text = DOCS.read_text()
    for name, metric in (METRICS | TRANSACTION_METRICS).items():
        assert f"| `{name}{'_total' if metric.kind == 'counter' else ''}` | {metric.kind} |" in text, name
