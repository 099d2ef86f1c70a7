"""Layouts on the epochs topic: from which epoch one holds, and where requests and calls go that are cut under it."""

from __future__ import annotations

from itertools import count

from msgspec.structs import replace

from transactional import Context, Operator, Program
from transactional import events as e
from transactional.epochs.appends import Append, AppendEpochs, AppendReply
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import Cut, Handover, NewLayout, epoch_messages, reply_message, to_bytes
from transactional.epochs.sequencer import EpochConfig
from transactional.layout import Layout, spread_all
from transactional.node import TransactionNode
from transactional.requests.requests import WireRequest, request_record
from transactional.state.values import encode

counter = Operator("counter", partitions=2)


@counter.register
async def add(ctx: Context, amount: int) -> int:
    ctx.put((ctx.get() or 0) + amount)
    return ctx.get()


@counter.register
async def forward(ctx: Context, key: str) -> int:
    return await ctx.call(counter, key, add, [1])


@counter.register
async def put(ctx: Context, value: int) -> None:
    ctx.put(value)


@counter.register
async def race(ctx: Context, key: str) -> None:
    for value in (1, 2):
        ctx.call_async(counter, key, put, [value])


program = Program("counters", [counter])
KEY, OTHER = (next(key for key in map(str, count()) if counter.partition_of(key) == place) for place in (0, 1))
BLIND = next(key for key in map(str, count(int(OTHER) + 1)) if counter.partition_of(key) == 1)
"""Written, and read by nobody."""
FIRST = Layout.first(program.operators)


def swapped(before: Layout = FIRST) -> Layout:
    """Each bucket is in the other partition."""
    return before.changed({each.group: tuple(1 - home for home in each.homes) for each in before.groups})


def test_a_layout_holds_from_the_first_epoch_without_a_cut_and_the_first_of_its_number_wins() -> None:
    ledger = Ledger(program, 2)
    ledger.apply(to_bytes(Cut(0, 1, 0, 1, 1, 0, [])))
    all_in_one = FIRST.changed({each.group: spread_all(each.homes, 1) for each in FIRST.groups})
    for layout in (replace(swapped(), number=2), swapped(), all_in_one):
        ledger.apply(to_bytes(NewLayout(layout)))
    placements = [ledger.layouts.placement(epoch) for epoch in (1, 2, 9)]
    assert [(placement.number, placement.place("counter", KEY)) for placement in placements] == [(0, 0), (1, 1), (1, 1)]
    restored = Ledger.restored(program, 2, ledger.snapshot())
    assert [restored.layouts.placement(epoch).number for epoch in (1, 2, 9)] == [0, 1, 1]


def test_a_cut_under_another_layout_than_its_epochs_is_as_if_it_were_not_there() -> None:
    ledger = Ledger(program, 2)
    ledger.apply(to_bytes(Cut(0, 1, 0, 1, 1, 0, [])))
    ledger.apply(to_bytes(NewLayout(swapped())))
    ledger.apply(to_bytes(Cut(1, 1, 0, 0, 0, 0, [], layout=1)))
    assert ledger.next_cut(1) == (1, 0), "epoch 1 has a cut before the layout, so it goes on as it began"
    ledger.apply(to_bytes(Cut(1, 1, 0, 0, 0, 0, [])))
    ledger.apply(to_bytes(Cut(0, 2, 1, 5, 4, 0, [])))
    assert ledger.is_sequenced(1) and ledger.next_cut(0) == (2, 1) and ledger.is_open(2), "keys move before it"
    ledger.apply(to_bytes(NewLayout(swapped(swapped()))))
    assert ledger.layouts.newest.number == 1, "keys are on their way already by the first one"
    ledger.apply(to_bytes(Cut(0, 2, 1, 5, 4, 0, [], layout=2)))
    ledger.apply(to_bytes(Cut(0, 2, 1, 5, 4, 0, [], layout=1)))
    assert ledger.next_cut(0) == (3, 5) and ledger.void_cuts == 3


def test_a_handover_counts_under_the_layout_of_its_epoch_alone_and_the_first_of_a_partition_wins() -> None:
    ledger = Ledger(program, 1)
    ledger.apply(to_bytes(NewLayout(swapped())))
    change = ledger.layouts.change(1)
    assert change is not None and change.sources == (0, 1)
    first, last = Handover(0, 1, 1, [], 5, 9, 2), Handover(1, 1, 1, [], 0, 0, 0)
    for void in (replace(first, layout=0), replace(first, epoch=2), replace(first, partition=7)):
        ledger.apply(to_bytes(void))
    ledger.apply(to_bytes(first))
    ledger.apply(to_bytes(replace(first, keys=6)))
    assert ledger.handovers.all_of(1, change) is None and ledger.repeats == 4
    restored = Ledger.restored(program, 1, ledger.snapshot())
    for each in (ledger, restored):
        each.apply(to_bytes(last))
        assert each.handovers.all_of(1, change) == [first, last]


def test_layouts_that_are_none_are_counted_and_passed_over() -> None:
    ledger = Ledger(program, 2)
    for groups in ([[[0, None], []]], [[[2, None], [0, 1]]], [[[2, None], [-1] * 1024]], [[[2, None], [2] * 1024]], 7):
        ledger.apply(encode(["layout", [1, 2, groups]]))
    ledger.apply(to_bytes(NewLayout(Layout.first({"other": Operator("other", partitions=3)}))))
    assert ledger.bad_messages == 5 and ledger.layouts.newest == FIRST


class Alone:
    """One node that owns all; its records of the epochs topic arrive when they are delivered."""

    def __init__(self) -> None:
        self.node = TransactionNode(program, 1, EpochConfig())
        self.topic: list[bytes] = []
        self.replies: list[int] = []
        for event in (e.SequencerTaken(0), e.PartitionTaken(0), e.PartitionTaken(1)):
            self.node.step(event, 0)

    def take(self, appends: list[Append]) -> list[bytes]:
        """Records for the epochs topic; replies are noted by partition."""
        for each in appends:
            if isinstance(each, AppendReply):
                self.replies += [each.partition] * len(reply_message(each.value).replies)
        return [each.value for each in appends if isinstance(each, AppendEpochs)]

    def asks(self, *requests: WireRequest) -> list[bytes]:
        start = self.node.sequencers[0].position
        values = [request_record(each) for each in requests]
        read = e.RequestsRead(0, list(range(start, start + len(values))), values, start + len(values))
        return self.take(self.node.step(read, 0))

    def reads(self, values: list[bytes]) -> list[bytes]:
        self.topic += values
        return self.take(self.node.step(e.EpochsRead(values, len(self.topic)), 0))

    def settles(self, values: list[bytes]) -> None:
        while values:
            values = self.reads(values)


def asked(name: str, key: str, function: str, argument: int | str) -> WireRequest:
    return WireRequest(name, "counter", key, function, [argument])


def cut_of(values: list[bytes]) -> Cut:
    (cut,) = (each for value in values for each in epoch_messages(value) if isinstance(each, Cut))
    return cut


def test_a_request_lives_where_its_key_does_in_the_epoch_of_its_cut_also_if_that_was_made_too_early() -> None:
    alone = Alone()
    early = alone.asks(asked("a", KEY, "add", 1))
    assert (cut_of(early).layout, [to for to, _ in cut_of(early).sends]) == (0, [0])
    again = alone.reads([to_bytes(NewLayout(swapped())), *early])
    assert (cut_of(again).layout, [to for to, _ in cut_of(again).sends]) == (1, [1])
    assert alone.node.ledger.void_cuts == 1
    alone.settles(again)
    assert alone.replies == [1]
    assert alone.node.partitions[1].store.read(("counter", KEY)) and not alone.node.partitions[0].store.copied()


def test_calls_and_what_is_run_again_go_where_keys_live_in_their_epoch() -> None:
    alone = Alone()
    alone.settles(alone.reads([to_bytes(NewLayout(swapped()))]) + alone.asks(asked("first", KEY, "put", 0)))
    far = [asked(f"far{n}", KEY if n % 2 else OTHER, "forward", OTHER if n % 2 else KEY) for n in range(6)]
    alone.settles(alone.asks(*far, asked("near", OTHER, "add", 1), asked("race", KEY, "race", BLIND)))
    assert sorted(alone.replies) == [0] * 4 + [1] * 5
    assert alone.node.tally.rerun, "nothing was run again"
    found = [{key: value for (_, key), value in each.store.copied().items()} for each in alone.node.partitions.values()]
    assert found == [{OTHER: encode(4), BLIND: encode(2)}, {KEY: encode(3)}]
