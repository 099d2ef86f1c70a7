"""A request runs at most once, also after its id is forgotten: what ids say, and what sequencers do about it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.log.memory import MemoryLog
from nodes.transactions.clients.client import NoReply, TransactionClient
from nodes.transactions.clients.request_ids import END_KNOWN_S, RequestIds
from tests.unit.txn_stage import SEQUENCERS, Stage, counters
from transactional import Aborted
from transactional.epochs.messages import Kind, Request
from transactional.requests.requests import (
    DRAWN_BYTES,
    RequestAdmission,
    WireRequest,
    made_id,
    partition_of,
    request_record,
    since_of,
)
from transactional.state.values import decode

WINDOW = 10
DRAWN = bytes(range(DRAWN_BYTES))


def asked(name: str, since: int | None = None) -> bytes:
    return request_record(WireRequest(name, "count", "a", "add", [1], since))


def refusal(request: Request) -> tuple[str, list[Any]]:
    assert request.kind is Kind.REFUSE, request
    kind, arguments = decode(request.arguments)
    return kind, arguments


def admission(sequencer: int = 0, sequencers: int = 1) -> RequestAdmission:
    return RequestAdmission(counters("ids", 2), sequencer, sequencers, WINDOW)


# --- ids --------------------------------------------------------------------------------------------------------------


def test_an_id_that_a_client_made_says_where() -> None:
    assert since_of(made_id(0, DRAWN)) == 0
    assert since_of(made_id(123_456_789, DRAWN)) == 123_456_789
    others = ["", "h", "h5", "h5-", "h-" + DRAWN.hex(), "h05-" + DRAWN.hex(), "h5-" + DRAWN.hex() + "0", "order 17"]
    others += [f"h{10**18}-{DRAWN.hex()}", f"h5-{DRAWN.hex().upper()}", f"h5-{DRAWN.hex()}\n", "h\u0665-" + DRAWN.hex()]
    assert [since_of(each) for each in others] == [None] * len(others)


def test_ids_go_to_all_partitions_and_cost_a_look_at_the_log_now_and_then() -> None:
    log, now_s, looks = MemoryLog(), [0.0], []
    log.create_topic("requests", 3)
    end_offset = log.end_offset
    log.end_offset = lambda topic, p: looks.append(p) or end_offset(topic, p)  # type: ignore[method-assign, func-returns-value]
    ids = RequestIds(log, "requests", lambda: now_s[0])
    names = [ids.new() for _ in range(300)]
    assert len(set(names)) == 300 and {partition_of(name, 3) for name in names} == {0, 1, 2}
    assert {since_of(name) for name in names} == {0} and sorted(looks) == [0, 1, 2]
    log.append("requests", 1, [b"x"] * 5)
    ids.seen(2, 7)
    assert [ids.end(partition) for partition in range(3)] == [0, 0, 8]
    now_s[0] += END_KNOWN_S
    assert [ids.end(partition) for partition in range(3)] == [0, 5, 0], "as the log says"
    for _ in range(3_000):
        ids.new()
    assert len(looks) == 9, "also after so many ids"


# --- admission --------------------------------------------------------------------------------------------------------


def test_an_id_that_a_client_made_never_runs_twice() -> None:
    taken, name = admission(), made_id(0, DRAWN)
    kinds = [taken.admit(offset, asked(name))[0].kind for offset in (0, 5, 10)]
    assert kinds == [Kind.RUN, Kind.REPEAT, Kind.REPEAT]
    for offset in (20, 21, 1000):
        assert refusal(taken.admit(offset, asked(name))[0]) == ("RequestTooOld", [name, offset, WINDOW])


def test_an_id_that_a_client_made_expires_by_the_number_of_requests_too() -> None:
    taken, name = admission(), made_id(0, DRAWN)
    assert taken.admit(0, asked(name))[0].kind is Kind.RUN
    together = [WireRequest(f"r{n}", "count", "a", "add", [1]) for n in range(WINDOW + 1)]
    taken.admit(1, request_record(together))
    assert refusal(taken.admit(2, asked(name))[0])[0] == "RequestTooOld"


def test_the_earlier_of_id_and_since_counts() -> None:
    early, late = made_id(5, DRAWN), made_id(90, DRAWN)
    assert refusal(admission().admit(100, asked(early, since=95))[0])[0] == "RequestTooOld"
    assert refusal(admission().admit(100, asked(late, since=5))[0])[0] == "RequestTooOld"
    assert admission().admit(100, asked(late, since=95))[0].kind is Kind.RUN


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4), st.booleans(), st.booleans()), max_size=60))
def test_no_id_that_says_when_it_was_made_runs_twice_however_it_is_retried(
    tries: list[tuple[int, int, bool, bool]],
) -> None:
    """Each try: how many gaps stand before it in the log, in a list of how many, of the last ids or a new one."""
    taken, offset, began, runs = admission(), 0, dict[str, int](), Counter[str]()
    for gap, count, is_new, is_made in tries:
        offset += gap
        names = []
        for index in range(count):
            if is_new or not began:
                name = made_id(offset, bytes([len(began) % 256]) * DRAWN_BYTES) if is_made else f"r{len(began)}"
                began[name] = offset
            else:
                name = list(began)[-1 - (index * 7 + gap) % len(began)]
            names.append(name)
        wires = [WireRequest(n, "count", "a", "add", [1], None if since_of(n) is not None else began[n]) for n in names]
        for request in taken.admit(offset, request_record(wires)):
            runs[request.id] += request.kind is Kind.RUN
        offset += 1
    assert not runs or max(runs.values()) == 1, runs


def test_an_id_of_another_incarnation_of_the_job_is_refused() -> None:
    taken = admission()
    for name, since in ((made_id(8, DRAWN), None), ("x", 8)):
        kind, (why,) = refusal(taken.admit(7, asked(name, since))[0])
        assert kind == "MalformedRequest" and "since 8 is beyond the end of the request partition, 7" in why
    assert taken.admit(8, asked(made_id(8, DRAWN)))[0].kind is Kind.RUN


def test_a_request_in_a_partition_that_is_not_its_ids_is_refused_whoever_reads_it() -> None:
    name = next(f"r{n}" for n in range(100) if partition_of(f"r{n}", 3) == 2)
    for sequencer in (0, 1):
        found = admission(sequencer, 3).admit(0, asked(name))[0]
        assert refusal(found) == ("WrongPartition", [name, sequencer, 2]) and found.id == name
    assert admission(2, 3).admit(0, asked(name))[0].kind is Kind.RUN


@pytest.mark.parametrize("count", [30, 300])
def test_each_id_of_a_list_is_in_its_partition_or_refused(count: int) -> None:
    names = ["", *(f"r{n}" for n in range(count)), "é" * 150, "x" * 10_000, "last"]
    record = msgspec.json.encode([WireRequest(each, "count", "a", "add", [1]) for each in names])
    found = admission(1, 3).admit(0, record)
    is_here = [each if len(each) < 100 and partition_of(each, 3) == 1 else None for each in names]
    assert [each.id if each.kind is Kind.RUN else None for each in found] == [each or None for each in is_here]
    wrong = {each.id for each in found if each.kind is Kind.REFUSE and refusal(each)[0] == "WrongPartition"}
    assert wrong == {each for each in names if 0 < len(each) < 100 and partition_of(each, 3) != 1}


def test_a_misplaced_continuation_is_refused_too() -> None:
    name = next(f"r{n}" for n in range(100) if partition_of(f"r{n}", 3) == 2)
    record = request_record(WireRequest(name, "count", "a", "add", [1], continued=b"\x93\x01\x01\x90"))
    assert refusal(admission(0, 3).admit(0, record)[0])[0] == "WrongPartition"


# --- clients ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def stage() -> Stage:
    made = Stage(counters("ids", 2), id_window=WINDOW)
    made.start("a")
    return made


def fill(stage: Stage) -> None:
    """So that all ids of before are forgotten."""
    for partition in range(SEQUENCERS):
        names = [
            name for n in range(9 * WINDOW) if partition_of(name := f"f{stage.now_ms}-{n}", SEQUENCERS) == partition
        ]
        for name in names[: 2 * WINDOW]:
            stage.call("count", "other", "add", [0], name)


def test_a_retry_after_the_window_is_refused_and_runs_nothing(stage: Stage) -> None:
    name = stage.client.new_id()
    assert stage.call("count", "a", "add", [1], name) == 1
    assert stage.call("count", "a", "add", [1], name) == 1, "the same reply"
    fill(stage)
    outcome = stage.call("count", "a", "add", [1], name)
    assert isinstance(outcome, Aborted) and outcome.kind == "RequestTooOld" and outcome.arguments[0] == name
    assert stage.call("count", "a", "add", [0]) == 1


def test_since_does_the_same_for_an_id_of_ones_own(stage: Stage) -> None:
    since = stage.client.first_since("order 17")
    assert stage.client.call("count", "a", "add", [1], request_id="order 17", since=since) == 1
    fill(stage)
    outcome = stage.client.try_call("count", "a", "add", [1], request_id="order 17", since=since)
    assert isinstance(outcome, Aborted) and outcome.kind == "RequestTooOld"
    outcome = stage.client.try_call("count", "a", "add", [1], request_id="order 17")
    assert isinstance(outcome, Aborted) and outcome.kind == "RequestExpired", "it may have run, as was said already"
    fill(stage)
    assert stage.client.call("count", "a", "add", [1], request_id="order 17") == 2, "without since the id is new again"


def test_without_a_reply_the_error_says_how_to_ask_again() -> None:
    stage = Stage(counters("ids", 2))  # no node
    for name in (None, "order 17"):
        with pytest.raises(NoReply, match="at most once") as raised:
            stage.client.call("count", "a", "add", [1], request_id=name, timeout_s=0.01)
        assert raised.value.request_id == name or (name is None and since_of(raised.value.request_id) == 0)
    with pytest.raises(NoReply) as raised:
        stage.client.call("count", "a", "add", [1], request_id="x", since=3, timeout_s=0.01)
    assert raised.value.since == 3


def test_a_client_whose_own_id_was_made_too_early_asks_with_another(stage: Stage) -> None:
    late = TransactionClient(stage.log)
    late.ids.clock_s = lambda: 0.0  # it never looks again
    ids = late.ids
    for partition in range(SEQUENCERS):
        ids.end(partition)
    fill(stage)
    fresh = iter([ids.new(), stage.client.new_id()])
    late.new_id = lambda: next(fresh)  # type: ignore[method-assign]
    assert late.call("count", "a", "add", [1], timeout_s=60) == 1
    assert next(fresh, None) is None, "the first one was too old"


def test_the_reply_to_what_others_have_misplaced_is_not_ours(stage: Stage) -> None:
    name = next(f"r{n}" for n in range(100) if partition_of(f"r{n}", SEQUENCERS) == 1)
    stage.client.expect([name])
    stage.log.append(stage.topics.requests, 0, [asked(name)])
    stage.turn(20)
    assert stage.call("count", "a", "add", [1], name) == 1


# --- asyncio ----------------------------------------------------------------------------------------------------------


def test_a_record_says_since() -> None:
    assert json.loads(asked("x", 5))["since"] == 5
    assert "since" not in msgspec.json.decode(asked("x"))
