"""States of which each partition answers for its keys alone."""

from __future__ import annotations

from typing import Any

import pytest

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.errors import JobError, TrackError, UserFunctionError
from holon.outputs.shards import shard_of
from holon.testing import JobTestDriver
from wcrdt import GCounter, MapOf

PARTITIONS = 3


class Counts(ProcessingFunction[dict[str, Any]]):
    """Records by key, in windows of 10 ms."""

    counts = WCRDT(MapOf(GCounter()), Tumbling(10), sharded=True)

    def process(self, event: dict[str, Any], ctx: Context) -> None:
        self.counts.insert((event["key"], 1), ctx.timestamp_ms)

    @on_window(counts)
    async def report(self, window: Window, ctx: Context) -> None:
        value = await self.counts.window_value(window)
        ctx.emit({"at": ctx.partition, "end": window.end_ms, "counts": list(value.items())})


def ran(function: type[ProcessingFunction[Any]], keys: int = 100) -> JobTestDriver:
    """``keys`` keys, each twice, in two windows."""
    source: Source[dict[str, Any]] = Source("in", Json(dict[str, Any]), timestamp=lambda event: event["ts"])
    test = JobTestDriver(Job("counts", source, function, output="out"), partitions=PARTITIONS)
    for number in range(2 * keys):
        test.feed(number % PARTITIONS, {"ts": 10 * (number // keys), "key": number % keys})
    test.finish()
    return test


@pytest.mark.parametrize("keys", [5, 100])
def test_each_partition_answers_for_its_keys_and_for_no_others(keys: int) -> None:
    found = ran(Counts, keys).outputs()
    assert len(found) == len({(each["at"], each["end"]) for each in found})
    for end_ms in (10, 20):
        counts = [(each["at"], key, count) for each in found if each["end"] == end_ms for key, count in each["counts"]]
        assert sorted(counts) == sorted((shard_of(key, PARTITIONS), key, 1) for key in range(keys))


def test_a_partition_without_a_key_in_a_window_is_not_asked() -> None:
    assert [each["at"] for each in ran(Counts, 1).outputs()] == [shard_of(0, PARTITIONS)] * 2


def test_mistakes_are_named() -> None:
    with pytest.raises(JobError, match="sharded=True is for maps"):
        WCRDT(GCounter(), Tumbling(10), sharded=True, name="total")
    with pytest.raises(JobError, match="each partition reads its own keys alone"):

        class Global(Counts):
            @on_window(Counts.counts, scope="global")
            async def report(self, window: Window, ctx: Context) -> None: ...

        ran(Global)


def test_process_reads_no_shard_as_if_it_were_the_whole() -> None:
    class Awaiting(Counts):
        async def process(self, event: dict[str, Any], ctx: Context) -> None:
            await self.counts.window_value(Window(-10, 0))

    class Peeking(Counts):
        def process(self, event: dict[str, Any], ctx: Context) -> None:
            self.counts.peek(Window(-10, 0))

    for function in (Awaiting, Peeking):
        with pytest.raises(UserFunctionError) as failed:
            ran(function)
        assert isinstance(failed.value.__cause__, TrackError) and "is sharded" in str(failed.value.__cause__)


def test_a_job_with_shards_is_another_one_than_without() -> None:
    whole = WCRDT(MapOf(GCounter()), Tumbling(10), name="counts")
    assert Counts.counts.describe() == whole.describe() + " sharded"
