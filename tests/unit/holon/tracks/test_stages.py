"""Stages of the window track: what is complete together is answered together, and nothing shows how it was cut."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon import (
    WCRDT,
    Context,
    GlobalWindow,
    Local,
    ProcessingFunction,
    Tumbling,
    UserFunctionError,
    Window,
    WLocal,
    on_window,
)
from holon.testing import JobTestDriver
from holon.tracks.snapshot import Snapshot
from tests.unit.holon_jobs import Event, job
from wcrdt import GCounter
from wcrdt.replica.replica import Punctuation, Replica, SlotDelta
from wcrdt.replica.slots import TrackDelta
from wcrdt.windows.ends import EndIndex


class Staged(ProcessingFunction[Event]):
    """Three stages: counts, their sums over longer windows, and sums of these; each stage gives results."""

    count = WCRDT(GCounter(), Tumbling(10))
    sums = WCRDT(GCounter(), Tumbling(20), stage=1)
    total = WCRDT(GCounter(), Tumbling(40), stage=2)
    answered = Local(0, track="window", stage=1)

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)

    @on_window(count)
    async def up(self, window: Window, ctx: Context) -> None:
        self.sums.insert(await self.count.window_value(window), window.start_ms)
        self.total.insert(1, window.start_ms)
        ctx.emit(["count", window.end_ms])

    @on_window(sums)
    async def further(self, window: Window, ctx: Context) -> None:
        self.answered.value += 1
        value = await self.sums.window_value(window)
        self.total.insert(100 * value, window.start_ms)
        ctx.emit(["sum", window.end_ms, value, self.answered.value])

    @on_window(total)
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit(["total", window.end_ms, await self.total.window_value(window)])


class Shared(Staged):
    """The same with a Local that handlers of all stages use, so that their order counts."""

    answered = Local(0, track="window")

    @on_window(Staged.count)
    async def up(self, window: Window, ctx: Context) -> None:
        self.answered.value += 1000
        await super().up(window, ctx)


class Private(ProcessingFunction[Event]):
    """A window that ends where the other partition has none of its own writes into one of stage 1."""

    mine = WLocal(GCounter(), Tumbling(10))
    sums = WCRDT(GCounter(), Tumbling(5), stage=1)

    def process(self, event: Event, ctx: Context) -> None:
        if "mine" in event:
            self.mine.insert(1, ctx.timestamp_ms)

    @on_window(mine)
    def up(self, window: Window, ctx: Context) -> None:
        self.sums.insert(1, window.end_ms - 1)

    @on_window(sums)
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit([window.end_ms, await self.sums.window_value(window)])


class Counted(JobTestDriver):
    """Counts what the stages cost: deltas of each partition, and windows that were looked at."""

    deltas = 0

    def answer(self, windows: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
        """Deltas and looks that it takes to answer so many windows which are complete at once."""
        partitions = range(len(self.tasks))
        for partition in partitions[1:]:
            self.feed(partition, *({"ts": 10 * n} for n in range(windows)))
        self.feed(0, {"ts": 0})
        looks, deltas, between, receive = [0], [0], EndIndex.between, Replica.receive

        def looked(index: EndIndex, after_ms: int, through_ms: int) -> list[Window]:
            found = between(index, after_ms, through_ms)
            looks[0] += len(found)
            return found

        def received(replica: Replica, delta: SlotDelta) -> Any:
            deltas[0] += 1
            return receive(replica, delta)

        with monkeypatch.context() as patch:
            patch.setattr(EndIndex, "between", looked)
            patch.setattr(Replica, "receive", received)
            self.finish()
        return deltas[0], looks[0]


def by_partition(test: JobTestDriver) -> list[list[Any]]:
    """Results with their identities, in the order in which each partition has them on its log."""
    return [[(i, value) for p, i, value in test.raw_outputs() if p == partition] for partition in range(2)]


def test_windows_that_are_complete_together_cost_one_delta_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    few, _ = Counted(job(Staged), partitions=3).answer(20, monkeypatch)
    many, _ = Counted(job(Staged), partitions=3).answer(200, monkeypatch)
    assert many == few <= 3 * 5


def test_looking_for_complete_windows_grows_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    _, few = Counted(job(Staged), partitions=2).answer(100, monkeypatch)
    _, many = Counted(job(Staged), partitions=2).answer(400, monkeypatch)
    assert many <= 5 * few


@pytest.mark.slow
def test_where_a_local_orders_the_stages_looking_grows_with_the_number_too(monkeypatch: pytest.MonkeyPatch) -> None:
    few, few_looks = Counted(job(Shared), partitions=2).answer(100, monkeypatch)
    many, many_looks = Counted(job(Shared), partitions=2).answer(400, monkeypatch)
    assert many <= 5 * few and many_looks <= 5 * few_looks


@pytest.mark.parametrize("function", [Staged, Shared])
def test_results_and_their_order_do_not_show_which_windows_were_answered_together(function: type[Staged]) -> None:
    one_by_one, together = JobTestDriver(job(function), partitions=2), JobTestDriver(job(function), partitions=2)
    for n in range(30):
        for partition in range(2):
            one_by_one.feed(partition, {"ts": 10 * n + partition})
    for partition in range(2):
        together.feed(partition, *({"ts": 10 * n + partition} for n in range(30)))
    for test in (one_by_one, together):
        test.finish()
    assert by_partition(one_by_one) == by_partition(together)
    ends = [identity.position for identity, _ in by_partition(together)[0]]
    assert ends == sorted(ends) and len(ends) == 30 + 15 + 8


def test_the_order_of_stages_is_that_of_one_window_after_the_other() -> None:
    test = JobTestDriver(job(Shared))
    test.feed(0, *({"ts": 10 * n} for n in range(4)))
    test.finish()
    assert [value for value in test.outputs() if value[0] == "sum"] == [["sum", 20, 2, 2001], ["sum", 40, 2, 4002]]


@pytest.mark.parametrize("ahead", [False, True])
def test_a_window_of_a_later_stage_is_answered_also_where_only_another_partition_knows_its_end(ahead: bool) -> None:
    test = JobTestDriver(job(Private), partitions=2)
    events = [{"ts": 1, "mine": 1}, {"ts": 31, "mine": 1}, {"ts": 50}]
    test.feed(0, *(events if ahead else events[:1]))
    test.feed(1, {"ts": 41, "mine": 1}, {"ts": 99})
    test.feed(0, *([] if ahead else events[1:]))
    test.finish()
    mine = [[identity.position for identity, _ in found] for found in by_partition(test)]
    assert mine == [[10, 40, 50]] * 2


def test_results_that_wait_for_later_stages_are_in_the_snapshot() -> None:
    """Of two partitions one has answered stage 0 and lost its state before the other had."""
    test, plain = (JobTestDriver(job(Staged), partitions=2) for _ in range(2))
    for each in (test, plain):
        for n in range(8):
            each.feed(0, {"ts": 10 * n})
    task = test.tasks[0]
    assert test.replica.punctuate(Punctuation(1, (0, 0), 90))
    assert task.advance() and task.outbox.held and not task.take_outputs()
    delta = task.take_delta()
    assert delta is not None and test.replica.receive(delta).advanced
    saved = task.snapshot()
    assert saved.window.answered_ms[0] > saved.window.answered_ms[-1] and saved.window.held
    fresh = test.new_task(0, 2)
    fresh.restore(Snapshot.from_bytes(saved.to_bytes()))
    assert fresh.snapshot() == saved
    test.tasks[0] = fresh
    for each in (test, plain):
        each.finish()
    assert by_partition(test)[0] == by_partition(plain)[0]


def test_a_snapshot_of_format_1_goes_on_with_a_track_for_each_stage() -> None:
    """Its one track stood at (20, 0): stage 0 had answered the windows that end at 20, and emitted a result."""
    made = job(Staged)
    test = JobTestDriver(made)
    test.feed(0, *({"ts": 10 * n} for n in range(3)))
    new = test.tasks[0].snapshot()
    window = new.window
    slot = TrackDelta((20, 0), (20, 0), 20, window.slot.changes, full=True)
    old = msgspec.structs.replace(
        new, window=[slot, window.locals, 20, {"main": 1}], record=new.record, output_ends={}, known_ends={}
    )
    fresh = test.new_task(0, 1)
    fresh.restore(Snapshot.from_bytes(msgspec.msgpack.encode((1, old))))
    assert fresh.windows.ends_ms == [20, 19, 19]
    assert fresh.outbox.held[20].counts == {"main": 1}


def test_a_local_belongs_to_the_stage_that_it_names() -> None:
    class Wrong(Staged):
        @on_window(Staged.count)
        async def up(self, window: Window, ctx: Context) -> None:
            self.answered.value += 1

    test = JobTestDriver(job(Wrong))
    with pytest.raises(UserFunctionError, match="belongs to handlers of stage 1 and was used by one of stage 0"):
        test.feed(0, {"ts": 1}, {"ts": 10})


def test_the_time_of_a_handler_of_the_global_window_can_be_inserted() -> None:
    """Into a global window of a later stage; windows that end before the end of time are closed by then."""
    taken: list[bool] = []

    class Everything(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), GlobalWindow())
        total = WCRDT(GCounter(), GlobalWindow(), stage=1)
        tens = WCRDT(GCounter(), Tumbling(10), stage=1)

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, ctx.timestamp_ms)

        @on_window(count)
        async def up(self, window: Window, ctx: Context) -> None:
            taken.append(self.total.insert(await self.count.window_value(window), ctx.timestamp_ms))
            taken.append(self.tens.insert(1, ctx.timestamp_ms))

        @on_window(total)
        async def report(self, window: Window, ctx: Context) -> None:
            ctx.emit(await self.total.window_value(window))

    test = JobTestDriver(job(Everything), partitions=2)
    test.feed(0, {"ts": 1}, {"ts": 7})
    test.feed(1, {"ts": 30})
    test.finish()
    assert test.outputs() == [6, 6] and taken == [True, False] * 2


def test_the_time_of_a_handler_lies_in_its_window_also_where_that_ends_later_than_any_event() -> None:
    last, seen = 2**53 - 1, []

    class Late(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(10))
        total = WCRDT(GCounter(), Tumbling(10), stage=1)

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, ctx.timestamp_ms)

        @on_window(count)
        def up(self, window: Window, ctx: Context) -> None:
            assert window.end_ms > last and self.total.insert(1, ctx.timestamp_ms)
            seen.append(ctx.timestamp_ms)

    test = JobTestDriver(job(Late))
    test.feed(0, {"ts": last})
    test.finish()
    assert seen == [last]
