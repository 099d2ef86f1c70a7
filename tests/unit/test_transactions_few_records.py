"""What keeps an epoch's records few: short calls in marks, late cuts, commits together."""

from __future__ import annotations

from nodes.transactions.commit_buffer import HOLD_BYTES, HOLD_MS, CommitBuffer
from tests.unit.test_transactional_protocol import Alone
from transactional import Context, Operator, Program
from transactional import node as n
from transactional.messages import Cut, Mark, epoch_message
from transactional.requests import WireRequest, request_record


def relay() -> Program:
    """``hand`` gives its text to another key."""
    box = Operator("box", partitions=2)

    @box.register
    async def hand(ctx: Context, to: str, text: str) -> None:
        ctx.call_async("box", to, "keep", [text])

    @box.register
    async def keep(ctx: Context, text: str) -> None:
        ctx.put(text)

    return Program("relay", [box])


def far(program: Program, key: str) -> str:
    """A key in another partition."""
    return next(other for other in "abcdefgh" if program.place("box", other) != program.place("box", key))


def hand(number: int, text: str, program: Program) -> bytes:
    return request_record(WireRequest(f"r{number}", "box", "a", "hand", [far(program, "a"), text]))


def test_short_calls_travel_in_cuts_and_marks_and_long_ones_beside_them() -> None:
    program = relay()
    for text, inline in (("short", True), ("long" * 10_000, False)):
        alone = Alone(program)
        alone.ask([hand(0, text, program)])
        messages = [epoch_message(value) for value in alone.epochs]
        senders = [each for each in messages if isinstance(each, Cut | Mark) and each.sends]
        assert len(senders) == 2 and len(alone.replies) == 1
        assert [each.inline for each in senders] == [inline] * 2
        assert any(alone.calls.values()) != inline
        other = program.place("box", far(program, "a"))
        assert len(alone.node.partitions[other].store.items) == 1


def test_the_next_epoch_is_cut_beside_the_last_marks_of_the_one_in_work() -> None:
    program = relay()
    alone = Alone(program)
    alone.ask([hand(0, "", program)])  # from here on two rounds are expected
    asked = 1
    while asked < 20:  # one comes with each step
        start = alone.node.sequencers[0].position
        alone.tell(n.RequestsRead(0, [start], [hand(asked, "", program)], start + 1))
        asked += 1
        alone.settle()
    while alone.settle():
        pass
    cuts: dict[int, tuple[int, int]] = {}  # the last mark before the cut of an epoch
    last = (0, 0)
    for message in map(epoch_message, alone.epochs):
        if isinstance(message, Mark):
            last = message.epoch, message.round
        elif isinstance(message, Cut):
            cuts[message.epoch] = last
    assert len(cuts) > 3
    later = sorted(cuts)[1:]
    for epoch in later:
        assert cuts[epoch] >= (epoch - 1, 1), f"epoch {epoch} was cut while the one before it had two rounds to go"
    assert any(cuts[epoch][0] == epoch - 1 and cuts[epoch] < (epoch - 1, 2) for epoch in later), "none was cut early"


def test_commits_are_held_until_it_is_time_or_there_are_many() -> None:
    held = CommitBuffer()
    assert held.due(0, at_once=True) == {}
    held.add(1, [b"a"], 100)
    held.add(0, [b"b"], 100)
    held.add(1, [b"c"], 100 + HOLD_MS - 1)
    assert held.due(100 + HOLD_MS - 1) == {}
    assert held.due(100 + HOLD_MS) == {1: [b"a", b"c"], 0: [b"b"]}
    held.add(0, [bytes(HOLD_BYTES)], 500)
    assert held.due(500) != {} and held.due(500) == {}
    held.add(0, [b"d"], 600)
    assert held.due(601, at_once=True) == {0: [b"d"]}
