"""A new user's mistake is an error by name at the first record, or before."""

from __future__ import annotations

import math
import threading
from typing import Any

import msgspec
import numpy as np
import pytest

from holon import (
    WCRDT,
    Batch,
    Context,
    Job,
    JobError,
    Json,
    Local,
    ProcessingFunction,
    Source,
    Tumbling,
    UnserializableState,
    UserFunctionError,
    Window,
    on_window,
)
from holon.job import encode_json
from holon.testing import JobTestDriver
from tests.unit.holon_jobs import Base, Event, Reading, feeding, job
from wcrdt import GCounter, MapOf

POLICIES = ["fail", "dead-letter"]


class Account(msgspec.Struct):
    owner: Any


# --- state that no checkpoint can hold ------------------------------------------------------------------------------


def refused(raised: pytest.ExceptionInfo[UserFunctionError]) -> str:
    assert isinstance(raised.value.__cause__, UnserializableState)
    assert "job 'test'" in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("on_error", POLICIES)
def test_a_lock_in_a_local_is_named_at_the_first_record(on_error: str) -> None:
    class Locks(Base):
        def process(self, event: Event, ctx: Context) -> None:
            self.kept.value = threading.Lock()  # type: ignore[assignment]

    with pytest.raises(UserFunctionError) as raised:
        feeding(Locks, {"ts": 1}, {"ts": 2}, on_error=on_error)
    assert "Local 'kept' cannot be checkpointed: value is a lock" in refused(raised)
    assert "on partition 0 at offset 0" in str(raised.value)


@pytest.mark.parametrize(
    ("held", "place"),
    [
        ({"a": 1, "door": threading.Lock()}, "value['door'] is a lock"),
        ({"a": [1, (2, threading.Lock())]}, "value['a'][1][1] is a lock"),
        ({"a": Account(threading.Lock())}, "value['a'].owner is a lock"),
        ({"n": 2**64}, "value['n'] is a int"),
        ({"n": "\ud800"}, "value['n'] is a str"),
    ],
)
def test_the_part_of_a_local_that_cannot_be_checkpointed_is_named(held: Any, place: str) -> None:
    class Keeps(ProcessingFunction[Event]):
        accounts = Local[dict[str, Any]]({})

        def process(self, event: Event, ctx: Context) -> None:
            self.accounts.value.update(held)

    with pytest.raises(UserFunctionError) as raised:
        feeding(Keeps, {"ts": 1})
    assert place in refused(raised)


def test_a_lock_that_comes_into_a_large_local_is_named_by_the_checkpoint_at_the_latest() -> None:
    class Grows(ProcessingFunction[Event]):
        seen = Local[dict[str, Any]]({})

        def process(self, event: Event, ctx: Context) -> None:
            self.seen.value["text"] = "x" * 100_000
            if event["ts"] > 1:
                self.seen.value["door"] = threading.Lock()

    test = feeding(Grows, {"ts": 1}, {"ts": 2})
    with pytest.raises(UserFunctionError, match="on partition 0 at offset 1 or before") as raised:
        test.checkpoint(0)
    assert "value['door'] is a lock" in refused(raised)
    buried = feeding(Grows, {"ts": 1}, {"ts": 2}, on_error="dead-letter")
    with pytest.raises(UserFunctionError, match="at offset 1 or before"):
        buried.feed(0, {"ts": 3})


def test_a_local_that_could_not_be_restored_is_named_at_the_first_record() -> None:
    class Mixes(Base):
        def process(self, event: Event, ctx: Context) -> None:
            self.kept.value = "text"  # type: ignore[assignment]

    with pytest.raises(UserFunctionError) as raised:
        feeding(Mixes, {"ts": 1})
    assert "Local 'kept' cannot be restored as <class 'int'>: it holds a str" in refused(raised)


def test_a_lock_in_a_local_of_the_window_track_is_named_with_its_window() -> None:
    class Locks(Base):
        def answer(self, window: Window, ctx: Context) -> None:
            self.answered.value = threading.Lock()  # type: ignore[assignment]

    test = JobTestDriver(job(Locks))
    test.feed(0, {"ts": 1})
    with pytest.raises(UserFunctionError, match=r"at window \[0, 10\) in answer") as raised:
        test.finish()
    assert "Local 'answered'" in refused(raised)


def test_a_lock_that_a_batch_function_keeps_is_named() -> None:
    class Locks(ProcessingFunction[Event]):
        kept = Local[Any](None)

        def process_batch(self, batch: Batch[Event], ctx: Context) -> None:
            self.kept.value = threading.Lock()

    with pytest.raises(UserFunctionError) as raised:
        feeding(Locks, {"ts": 1})
    assert "Local 'kept'" in refused(raised)


def test_an_attribute_that_no_partition_can_have_a_copy_of_is_refused_with_the_declaration() -> None:
    class Holds(Base):
        def __init__(self) -> None:
            self.door = threading.Lock()

    with pytest.raises(JobError, match="Holds cannot be copied for each partition"):
        job(Holds())


# --- sources --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", [["a", "b"], ("a",), None, "", b"a"])
def test_a_source_of_several_topics_is_refused_with_a_hint(topic: Any) -> None:
    with pytest.raises(JobError, match=r"Source reads one topic.*give the job a list of sources, one for each"):
        Source(topic, Json(Event))


# --- what functions return ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_error", POLICIES)
@pytest.mark.parametrize("is_async", [False, True])
def test_what_process_returns_is_an_error(is_async: bool, on_error: str) -> None:
    def returns(event: Event, ctx: Context) -> Any:
        return 5

    async def returns_async(event: Event, ctx: Context) -> Any:
        return 5

    with pytest.raises(UserFunctionError, match=r"process returned a int.*ctx\.emit"):
        feeding(returns_async if is_async else returns, {"ts": 1}, on_error=on_error)


def test_what_process_returns_after_an_await_is_an_error() -> None:
    class Returns(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(10))

        async def process(self, event: Event, ctx: Context) -> Any:
            self.count.insert(1, ctx.timestamp_ms)
            if event["ts"] > 10:
                return await self.count.window_value(Window(0, 10))

    test = JobTestDriver(job(Returns), 2)
    test.feed(0, {"ts": 1}, {"ts": 11})
    with pytest.raises(UserFunctionError, match="process returned a int"):
        test.feed(1, {"ts": 12})


def test_what_process_batch_returns_is_an_error() -> None:
    class Returns(ProcessingFunction[Event]):
        def process_batch(self, batch: Batch[Event], ctx: Context) -> Any:
            return [1]

    with pytest.raises(UserFunctionError, match="process_batch returned a list"):
        feeding(Returns, {"ts": 1})


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_handler_returns_is_an_error(is_async: bool) -> None:
    class Returns(Base):
        def answer(self, window: Window, ctx: Context) -> Any:
            return "result"

    class ReturnsAsync(Base):
        @on_window(Base.count)
        async def answer(self, window: Window, ctx: Context) -> Any:
            return await self.count.window_value(window)

    test = JobTestDriver(job(ReturnsAsync if is_async else Returns))
    test.feed(0, {"ts": 1})
    with pytest.raises(UserFunctionError, match="answer returned a "):
        test.finish()


# --- numbers that JSON cannot hold ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (math.nan, "the top"),
        ({"price": math.nan}, r"\['price'\]"),
        ([1, {"low": -math.inf}], r"\[1\]\['low'\]"),
        (Account(math.inf), r"\['owner'\]"),
        ({"all": np.array([1.0, np.nan])}, r"\['all'\]\[1\]"),
        (np.float32("nan"), "the top"),
    ],
)
def test_a_result_with_a_number_that_json_cannot_hold_is_refused_by_place(value: Any, place: str) -> None:
    with pytest.raises(UserFunctionError, match=rf"a result holds -?(nan|inf) at {place}: JSON has no such number"):
        feeding(lambda event, ctx: ctx.emit(value), {"ts": 1})


def test_none_and_the_word_null_are_results_as_before() -> None:
    assert encode_json({"a": None, "b": ["null"]}) == b'{"a":null,"b":["null"]}'


def test_a_column_of_results_with_nan_is_refused() -> None:
    class Emits(ProcessingFunction[Event]):
        def process_batch(self, batch: Batch[Event], ctx: Context) -> None:
            ctx.emit_many(np.where(batch.ts_ms > 1, np.nan, 1.0).tolist())

    with pytest.raises(UserFunctionError, match="a result holds nan"):
        feeding(Emits, {"ts": 1}, {"ts": 2})


def test_a_record_with_nan_in_its_result_can_be_set_aside() -> None:
    def emits(event: Event, ctx: Context) -> None:
        ctx.emit(math.nan if event["ts"] == 2 else event["ts"])

    test = feeding(emits, {"ts": 1}, {"ts": 2}, {"ts": 3}, on_error="dead-letter")
    assert test.outputs() == [1, 3] and test.counts.dead == 1
    assert "a result holds nan" in test.dead()[0]["reason"]


def test_a_job_with_columns_of_its_own_type_still_runs() -> None:
    """Values that are used but not changed cost nothing, and are no error."""

    class Sums(ProcessingFunction[Reading]):
        total = Local(0.0)

        def process(self, event: Reading, ctx: Context) -> None:
            self.total.value += event.level

    source = Source("readings", Json(Reading), lambda event: event.ts)
    test = JobTestDriver(Job("sums", source, Sums, output="out"))
    test.feed(0, Reading(1, level=2.5), Reading(2, level=1.5))
    test.checkpoint(0)
    assert test.counts.accepted == 2


# --- values that are none -------------------------------------------------------------------------------------------


def test_a_map_takes_pairs() -> None:
    class Keys(Base):
        counts = WCRDT(MapOf(GCounter()), Tumbling(10))

        def process(self, event: Event, ctx: Context) -> None:
            self.counts.insert("key", event["ts"])  # type: ignore[arg-type]

    with pytest.raises(UserFunctionError, match=r"TypeError: a map takes a pair, as \(key, 1\), not 'key'"):
        feeding(Keys, {"ts": 1})


def test_a_value_that_was_not_awaited_cannot_be_emitted() -> None:
    class Forgetful(Base):
        counts = WCRDT(GCounter(), Tumbling(10))

        def process(self, event: Event, ctx: Context) -> None:
            self.counts.insert(1, event["ts"])

        @on_window(counts)
        def report(self, window: Window, ctx: Context) -> None:
            ctx.emit(self.counts.window_value(window))

    with pytest.raises(UserFunctionError, match="a SafeRead is no value yet: await it, in a function that is async"):
        feeding(Forgetful, {"ts": 1}, {"ts": 11})
