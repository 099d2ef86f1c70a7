"""Transactions that stand as they ran, that run once more in their partition, and that have to run again everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest

from transactional import Aborted, Context, Operator, Program
from transactional.conflicts.contributing import contribution_of
from transactional.conflicts.detection import Arriving, Reexecution, Revalidation, Share, revalidate
from transactional.epochs.ledger import decide
from transactional.epochs.messages import Contribution, Kind, Request, WireCall
from transactional.execution.execution import Execution
from transactional.execution.site import Site
from transactional.state.store import Store
from transactional.state.values import decode, encode

SHARE = Share(100, 100_000)
it = Operator("it", partitions=2, colocate="/")
program = Program("settling", [it])
HERE = it.partition_of("x")
AWAY = next(key for key in map(str, count()) if it.partition_of(key) != HERE)


@it.register
async def add(ctx: Context, amount: int) -> int:
    ctx.put(ctx.get(0) + amount)
    return ctx.get(0)


@it.register
async def pay(ctx: Context, to: str) -> int:
    ctx.put(ctx.get(0) - 1)
    ctx.call_async(it, to, add, [1])
    return ctx.get(0)


@it.register
async def tell(ctx: Context, to: str) -> None:
    ctx.call_async(it, to, add, [ctx.get(0)])


@it.register
async def refuse(ctx: Context) -> None:
    ctx.put(ctx.get(0) + 1)
    raise ValueError


@it.register
async def total(ctx: Context) -> int:
    return sum(value for _, value in ctx.scan("x/"))


@it.register
async def ask_twice(ctx: Context, away: str) -> list[int]:
    first = ctx.get(0)
    await ctx.call(it, away, add, [1])
    return [first, ctx.get(0)]


class Here:
    """One partition in one epoch, in which each of ``rounds`` is (TID, key, function, arguments)."""

    def __init__(self) -> None:
        self.site = Site(program, Store({("it", "x"): encode(10)}), HERE)
        self.reexecution = Reexecution(self.site)
        self.by_tid: dict[int, Execution] = {}
        self.lost: set[int] = set()

    def round(self, *calls: tuple[int, str, str, list[object]]) -> None:
        received = []
        for tid, key, function, arguments in calls:
            item = Request(Kind.RUN, str(tid), "it", key, function, encode(arguments), 0, tid, 0)
            received.append((tid, item))
            self.by_tid[tid] = execution = Execution(self.site, tid, 0)
            execution.start(item)
        self._end_round(received)

    def arrive(self, *calls: tuple[int, str, str, list[object]]) -> Revalidation:
        """A round of what other partitions have sent."""
        received = [
            (tid, WireCall(tid, 0, ((0,),), (), "it", key, function, encode(arguments), None))
            for tid, key, function, arguments in calls
        ]
        found = revalidate(
            self.by_tid,
            (),
            SHARE,
            self.reexecution,
            Arriving(self.site, {tid: [item] for tid, item in received}, self.lost),
        )
        self._end_round(received)
        return found

    def _end_round(self, received: Sequence[tuple[int, Request | WireCall]]) -> None:
        sent, self.site.sent = self.site.sent, {}
        self.reexecution.add(received, sent)

    def revalidate(self, *dropped: int) -> Revalidation:
        return revalidate(self.by_tid, dropped, SHARE, self.reexecution)

    def results(self) -> dict[int, object]:
        return {tid: decode(each.result) for tid, each in sorted(self.by_tid.items()) if each.result is not None}


def test_who_reads_what_a_lower_one_has_written_stands_as_long_as_that_stands() -> None:
    here = Here()
    here.round((1, "x", "add", [5]), (2, "x", "add", [5]), (3, "x", "add", [5]))
    assert here.revalidate() == Revalidation([], [(2, 1), (3, 2)])
    assert here.results() == {1: 15, 2: 20, 3: 25}
    chained = Contribution([], [], [], [], [], [(2, 1), (3, 2)])
    assert decide(program, [chained]).rerun == ()
    failed = Aborted("ValueError")
    assert decide(program, [chained, Contribution([], [], [], [(1, (), failed)])]).rerun == (2, 3)
    assert decide(program, [chained, Contribution([], [2], [], [])]).rerun == (2, 3)
    assert decide(program, [Contribution([1], [], [], []), chained]).rerun == (1, 2, 3)


def test_who_has_run_before_a_lower_one_came_runs_once_more_here() -> None:
    here = Here()
    here.round((5, "x", "pay", [AWAY]), (7, "x", "pay", [AWAY]))
    assert here.arrive((3, "x", "add", [100])) == Revalidation([], [(5, 3), (7, 5)])
    assert here.results() == {5: 109, 7: 108}
    assert not here.site.sent, "what it has sent once is not sent again"


def test_who_would_send_something_else_is_run_again_everywhere() -> None:
    here = Here()
    here.round((5, "x", "tell", [AWAY]), (7, "x", "pay", [AWAY]))
    assert here.arrive((3, "x", "add", [100])) == Revalidation([5], [(7, 3)])
    assert here.arrive((4, "x", "add", [100])) == Revalidation([5], [(4, 3), (7, 4)]), "and is not tried again"
    assert here.results() == {5: None, 7: 209}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_nobody_reads_what_a_failed_one_has_written(elsewhere: bool) -> None:
    here = Here()
    here.round((1, "x", "add" if elsewhere else "refuse", [1] if elsewhere else []), (2, "x", "add", [1]))
    assert here.revalidate(*([1] if elsewhere else [])) == Revalidation([], [])
    assert here.results()[2] == 11


def test_who_scans_sees_what_lower_ones_have_written_below_the_prefix() -> None:
    here = Here()
    here.round((1, "x/1", "add", [1]), (2, "x/", "total", []), (3, "x/2", "add", [2]), (4, "x/", "total", []))
    assert here.revalidate() == Revalidation([], [(2, 1), (4, 1), (4, 3)])
    assert here.results() == {1: 1, 2: 1, 3: 2, 4: 3}


def test_what_arrives_runs_on_what_lower_ones_have_written_by_then() -> None:
    here = Here()
    here.round((4, "x", "pay", [AWAY]), (8, "x", "pay", [AWAY]))
    ran = here.by_tid[8]
    revalidation = here.arrive((3, "x", "add", [100]), (6, "x", "add", [100]), (9, "x", "add", [100]))
    assert revalidation == Revalidation([], [(4, 3), (6, 4), (8, 6), (9, 8)])
    assert here.results() == {4: 109, 8: 208} and here.by_tid[8] is not ran
    arrived = [here.by_tid[tid] for tid in (3, 6, 9)]
    assert here.revalidate() == revalidation
    assert [here.by_tid[tid] for tid in (3, 6, 9)] == arrived, "once is enough"


def test_what_one_that_did_not_stand_reads_later_does_not_hide_that() -> None:
    here = Here()
    here.round((5, "x/1", "tell", [AWAY]))
    assert here.arrive((3, "x/1", "add", [100])).conflicts == [5], "it would tell something else"
    assert here.arrive((5, "x/", "total", [])).conflicts == [5]
    assert here.by_tid[5].sources is not None, "it has scanned what the lower one has written"
    assert here.arrive((9, "x", "add", [1])).conflicts == [5]


def test_what_is_read_again_is_the_same_though_a_lower_one_has_written_it() -> None:
    here = Here()
    here.round((5, "x", "ask_twice", [AWAY]))
    waiting = here.by_tid[5]
    assert waiting.read((), ("it", "x")) == encode(10)
    assert here.arrive((3, "x", "add", [100])).conflicts == [] and here.by_tid[5] is not waiting
    assert here.by_tid[5].read((), ("it", "x")) == encode(110)


def test_the_share_of_calls_and_time_outs_let_nobody_read() -> None:
    here = Here()
    here.round((1, "x", "pay", [AWAY]), (2, "x", "add", [1]))
    for share in (Share(0, 100_000), Share(100, 1)):
        said = contribution_of(here.by_tid, revalidate(here.by_tid, (), share, here.reexecution), share)
        assert 1 in said.races and (said.conflicts, said.reads_from) == ([], []) and here.results()[2] == 11
