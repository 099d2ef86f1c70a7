"""The HTTP gateway: who sends slowly, floods, guesses or smuggles gets nothing, and everybody else is answered."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from nodes.runtime.failed_tokens import GAP_S, MOST_S, FailedTokens
from nodes.transactions.gateway.http_protocol import most_connections
from tests.attack.gateway import TOKEN, Gateway, gateway, request, rest
from tests.integration.processes import until

SOON_S = 0.2


@pytest.fixture
def served() -> Iterator[Gateway]:
    with gateway() as found:
        yield found


def status(answer: bytes) -> int:
    """0: there is no answer."""
    return int(answer.split(b" ", 2)[1]) if answer else 0


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (b"", "headers"),
        (b"POST /v1/call HTTP/1.1\r\nHost: loc", "headers"),
        (request()[:-5], "body"),
        (request(b"", "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"") + b"5\r\nab", "body"),
    ],
    ids=["nothing", "half of the headers", "half of the body", "half of a chunk"],
)
def test_a_client_that_does_not_go_on_loses_its_connection(sent: bytes, what: str) -> None:
    is_head = what == "headers"
    with gateway(header_s=SOON_S if is_head else 3600.0, body_s=SOON_S, token=TOKEN if is_head else None) as served:
        answer = served.exchange(sent)
        assert status(answer) == 408 and what.encode() in answer
        assert served.client.calls == 0


def test_a_byte_now_and_then_gives_no_more_time() -> None:
    with gateway(header_s=SOON_S) as served, served.connect() as opened:
        ended = threading.Event()

        def drip() -> None:
            try:
                opened.sendall(b"POST /v1/call HTTP/1.1\r\nHost: localhost\r\nX: ")
                while not ended.wait(SOON_S / 10):
                    opened.sendall(b"x")
            except ConnectionError:
                pass

        dripping = threading.Thread(target=drip)
        dripping.start()
        found = rest(opened)
        ended.set()
        dripping.join()
        assert found == b"" or status(found) == 408  # bytes that come after the end reset the connection
        good = request(b'{"operator":"o","key":"k","function":"f"}')
        until(lambda: served.exchange(good).endswith(b'"result":null}'), "a good request is answered")


def test_connections_have_a_limit_and_are_free_again() -> None:
    with gateway(connections=3, token=TOKEN) as served:
        taken = [served.connect() for _ in range(3)]
        until(lambda: len(served.server.server_state.connections) == 3, "three connections")
        assert status(served.exchange(b"")) == 503
        for each in taken:
            each.close()
        good = request(b'{"operator":"o","key":"k","function":"f"}', f"Authorization: Bearer {TOKEN}")
        until(lambda: status(served.exchange(good)) == 200, "the connections are free again")


def test_the_limit_of_connections_respects_the_limit_of_open_files() -> None:
    assert most_connections(10) == 10
    assert 8 <= most_connections(10**9) <= 10**9


def test_a_path_with_a_slash_too_many_is_no_redirect_to_the_host_that_was_sent(served: Gateway) -> None:
    for path in ("/v1/call/", "/healthz/", "/v1/", "//evil.example/v1/call"):
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Host: evil.example\r\nConnection: close\r\n\r\n"
        answer = served.exchange(head.encode())
        assert status(answer) == 404 and b"ocation:" not in answer
        answer = served.exchange(head.replace("localhost", "evil.example").encode())
        assert status(answer) == 421 and b"ocation:" not in answer and b"evil.example" not in answer


def test_no_path_is_there_without_the_token() -> None:
    with gateway(token=TOKEN) as served:
        for path in ("/", "/nothing", "/healthz", "/openapi.json", "/v1/call"):
            assert (
                status(served.exchange(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())) == 401
            )


def test_content_length_with_transfer_encoding_is_refused_and_nothing_after_it_is_read(served: Gateway) -> None:
    hidden = request()
    body = b"0\r\n\r\n" + hidden
    answer = served.exchange(request(body, "Transfer-Encoding: chunked").replace(b"Connection: close\r\n", b""))
    assert status(answer) == 400 and answer.count(b"HTTP/1.1") == 1
    assert served.client.calls == 0


def test_a_client_that_leaves_is_one_line(served: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with served.connect() as opened:
        opened.sendall(request()[:-5])
        until(lambda: bool(served.server.server_state.tasks), "the call has begun")
    until(lambda: not served.server.server_state.tasks, "the call is over")
    lines = [record for record in caplog.records if record.name.startswith(("nodes", "uvicorn"))]
    told = [record.getMessage() for record in lines if "has left" in record.getMessage()]
    assert len(told) == 1 and "\n" not in told[0]
    assert not [record for record in lines if record.levelno >= logging.WARNING or record.exc_info]


def test_wrong_tokens_are_answered_one_after_the_other() -> None:
    now_s = 100.0
    failed = FailedTokens(lambda: now_s)
    assert [failed.wait_s() for _ in range(3)] == pytest.approx([GAP_S, 2 * GAP_S, 3 * GAP_S])
    assert max(failed.wait_s() for _ in range(10_000)) == pytest.approx(MOST_S)
    now_s += MOST_S
    assert failed.wait_s() == pytest.approx(GAP_S), "the flood is over"


def test_wrong_tokens_wait_and_the_right_one_does_not() -> None:
    with gateway(token=TOKEN) as served:
        asked: list[float] = []

        class Recorded(FailedTokens):
            def wait_s(self) -> float:
                asked.append(super().wait_s())
                return 0.0

        served.door.failed_tokens = Recorded(lambda: 100.0)  # however long the answers take
        good = request(b'{"operator":"o","key":"k","function":"f"}', f"Authorization: Bearer {TOKEN}")
        for shown in ("", "Bearer ", "Bearer wrong", "Basic bGV0LW1lLWlu", f"Bearer {TOKEN}x"):
            assert status(served.exchange(request(b"{}", f"Authorization: {shown}"))) == 401
        assert asked == pytest.approx([GAP_S * n for n in range(1, 6)])
        assert status(served.exchange(good)) == 200 and len(asked) == 5
