"""Declarations of sessions, and those that are refused; shards, and open sessions as checkpoints hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holon import WCRDT, Context, Job, JobError, Json, Source, on_window
from holon.dataflow import Flow, FlowError, Session, Stream, Tumbling
from holon.dataflow.sessions.open_sessions import OpenSessions
from holon.dataflow.sliced.shards import shard_of
from holon.errors import TrackError
from holon.fingerprint.schema import shape_of
from holon.program.checkpointable import CheckpointableLocals, decoded, encoded
from holon.testing import JobTestDriver
from wcrdt import ColumnsOf, GCounter, Max, Min, ORSet, RecordOf, YText
from wcrdt.codec import DecodeError

GAP = 20


class Event(msgspec.Struct):
    at: int
    key: int


def flow_of(build: Callable[[Stream[Event]], Any]) -> Flow:
    flow = Flow("sessions")
    build(flow.source("events", Json(Event), time=lambda e: e.at, max_future_skew_ms=None))
    return flow


def counted(session: Session) -> Flow:
    return flow_of(lambda events: events.key_by(lambda e: e.key).window(session).agg(lambda g: g.count()).sink("out"))


def test_shards_are_where_kafka_puts_the_key_of_a_sink() -> None:
    assert [shard_of(key, 7) for key in ("21", 21, b"21")] == [shard_of("21", 7)] * 3
    assert [shard_of(key, 1000) for key in ("foobar", "a-little-bit-long-string")] == [
        (-790332482 & 0x7FFFFFFF) % 1000,
        (-985981536 & 0x7FFFFFFF) % 1000,
    ]
    assert 0 <= shard_of((1, "a"), 7) < 7
    assert 0 <= shard_of(None, 7) < 7


@pytest.mark.parametrize(
    ("gap", "slice_ms", "words"),
    [(0, None, "gap of more than 0"), (-5, None, "gap"), (10, 11, "at most the gap"), (10, 0, "at least 1 ms")],
)
def test_a_gap_and_slices_that_make_no_sense_are_refused(gap: int, slice_ms: int | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Session(gap, slice_ms)


def test_durations_of_sessions_are_texts_too() -> None:
    session = Session("30m")
    assert (session.gap_ms, session.slice_ms, repr(session)) == (
        1_800_000,
        450_000,
        "Session(gap=1800000, slice=450000)",
    )
    assert Session(3).slice_ms == 1
    assert Session("1h", slice="1m").describe() == "session(3600000,60000)"


@pytest.mark.parametrize("lattice", [ORSet(), YText()])
def test_a_lattice_that_does_not_combine_is_refused_with_step_and_line(lattice: Any) -> None:
    with pytest.raises(FlowError, match=r"step 2 \(fold, test_session_rules.py:\d+\): a \S+ cannot be kept by session"):
        flow_of(lambda events: events.key_by(lambda e: e.key).window(Session(GAP)).fold(lattice, lambda e: e.key))


def test_top_is_refused_behind_sessions_and_allowed_behind_windows_of_them() -> None:
    def build(events: Stream[Event]) -> None:
        found = events.key_by(lambda e: e.key).window(Session(GAP)).agg(lambda g: g.count())
        found.window(Tumbling(100)).agg(lambda g: g.count()).top(1, by=lambda n: n).sink("out")
        found.filter(lambda n: n > 0).top(1, by=lambda n: n)

    with pytest.raises(FlowError, match=r"step 7 \(top, .*come in parts behind union\(\), sharded keys, sessions"):
        flow_of(build)


def test_a_state_of_a_procedural_job_has_no_sessions() -> None:
    with pytest.raises(JobError, match="write a flow"):
        WCRDT(GCounter(), Session(GAP), name="some")  # type: ignore[arg-type]


def test_the_lattice_of_a_window_is_for_handlers_alone() -> None:
    counts = WCRDT(GCounter(), Tumbling(10), name="counts")

    def process(event: Event, ctx: Context) -> None:
        ctx[counts].insert(1, event.at)
        if event.key == 9:
            ctx[counts].window_state(Tumbling(10).windows_for(event.at)[0])

    @on_window(counts)
    def report(window: Any, ctx: Context) -> None:
        ctx.emit(ctx[counts].window_state(window).value)

    source = Source("events", Json(Event), timestamp=lambda e: e.at, max_future_skew_ms=None)
    test = JobTestDriver(Job("states", source, process, states=[counts], on_window=[report], output="out"))
    test.feed(0, Event(1, 1), Event(2, 1))
    test.feed(0, Event(12, 1))
    assert test.outputs() == [2]
    with pytest.raises(Exception, match="outside of an on_window handler") as error:
        test.feed(0, Event(13, 9))
    assert TrackError.__name__ in repr(error.value) or isinstance(error.value, TrackError)


def test_the_gap_and_the_slice_are_in_the_fingerprint() -> None:
    found = {
        counted(session).job.program.describe()
        for session in (Session(20), Session(24, 5), Session(20, 4), Session(20, 5))
    }
    assert len(found) == 3


def test_explain_names_the_session() -> None:
    (_, step, _) = counted(Session("30m")).explain()
    assert (step.verb, step.how) == ("agg", "columns; sessions with gaps of 1800000 ms, in slices of 450000 ms")


class Former(msgspec.Struct):
    """As the first release with sessions declared them."""

    states: dict[bytes, bytes]


def test_open_sessions_have_the_type_of_the_first_release_with_sessions() -> None:
    """It is part of a job's version: with another one, jobs that began before would be refused."""
    version = counted(Session(GAP)).job.program.version
    assert version.states["agg2open"].fields == shape_of(Former).fields
    assert version.initial == {"agg2open": {"states": {}}}


@pytest.mark.parametrize("stored", [[1], {"states": {"key": b""}}, {"sessions": b"", "more": 1}])
def test_a_checkpoint_of_something_else_is_refused_when_it_is_read(stored: Any) -> None:
    locals_ = CheckpointableLocals(counted(Session(GAP)).job.program.locals())
    with pytest.raises(DecodeError, match="Local 'agg2open'"):
        locals_.decode({"agg2open": msgspec.msgpack.encode(stored)})


def test_open_sessions_are_equal_to_the_byte_in_whatever_order_a_replica_got_their_keys() -> None:
    bottom, session = RecordOf(first=Min(), last=Max(), count=GCounter()), Session(GAP, 5)

    def state_of(order: list[Any]) -> bytes:
        found = OpenSessions({})
        for at in (0, 5):
            arrived = {}
            for key in order:
                arrived[key] = bottom.bottom()
                arrived[key].insert((at, at, 1), actor=len(arrived))
            assert not len(found.take(arrived, at + 5, session, ColumnsOf(bottom), ["count"]).first)
            found = decoded(encoded("open", found), OpenSessions)  # as a restart does
        return encoded("open", found)

    assert state_of([3, "a", (1, 2)]) == state_of(["a", (1, 2), 3])
