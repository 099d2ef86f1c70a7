"""Contributions that wait at their maker: when they leave, and what others do meanwhile."""

from __future__ import annotations

import pytest

from holon import GlobalWindow, Sliding, Tumbling
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.broadcast import shards
from nodes.machine.broadcast.deltas_to_send import bits_of
from tests.unit.node_dialogue import Dialogue, joined
from tests.unit.nodes.machine.test_shards import (
    HERE,
    SHARDS,
    THERE,
    contributions,
    deltas,
    events,
    job,
    node,
    requests,
    results,
)
from wcrdt.windows.assigners import Assigner


def sent(effects: list[x.Effect]) -> list[m.ShardedSent]:
    read = [m.decode_broadcast(value) for value in deltas(effects)]
    return [message for message in read if isinstance(message, m.ShardedSent)]


def for_shard(shard: int, effects: list[x.Effect]) -> list[bytes]:
    return [each.value for each in contributions(effects) if each.shard == shard]


def test_contributions_wait_until_a_window_ends_that_they_add_to() -> None:
    a = node("a", 0)
    effects = a.records(0, 1, 0, *events((1, HERE), (2, THERE)))
    (message,) = sent(effects)
    assert not contributions(effects) and message.shards is None and message.sent_through == (0, 0)
    effects = a.records(0, 1, 2, *events((3, HERE), (12, THERE)))
    assert [each.shard for each in contributions(effects)] == [0, 1]
    message = sent(effects)[0]
    assert message.shards == bits_of([0, 1]) and message.sent_through == (0, 0)
    (message,) = sent(a.records(0, 1, 4, *events((13, HERE))))
    assert message.shards is None and message.sent_through == (4, 0)


def test_others_answer_windows_to_which_nothing_waits() -> None:
    """The watermark passes the end of a window, and all that waits is to a later one."""
    a, b = node("a", 0), node("b", 1)
    a.records(0, 1, 0, *events((1, HERE), (12, HERE)))
    made = b.records(1, 1, 0, *events((14, HERE)))
    assert not contributions(made)
    assert results(a.broadcast(1, *deltas(made))) == [b'{"end":10,"counts":{"%d":1}}' % HERE]
    assert not requests(a.tick(10_000))


def test_lateness_keeps_contributions_as_it_keeps_windows_open() -> None:
    a = joined("a", SHARDS, others=["b"], job=job(lateness_ms=5))
    a.control(*(m.Claim(0, "ab"[each], each, 1) for each in range(SHARDS)))
    a.run_partition(0, 1)
    assert not contributions(a.records(0, 1, 0, *events((1, HERE), (12, THERE))))
    assert contributions(a.records(0, 1, 2, *events((15, HERE))))


def test_contributions_to_a_pane_leave_when_the_first_of_its_windows_ends() -> None:
    a = joined("a", SHARDS, others=["b"], job=job(windows=Sliding(40, 10)))
    a.control(*(m.Claim(0, "ab"[each], each, 1) for each in range(SHARDS)))
    a.run_partition(0, 1)
    assert not contributions(a.records(0, 1, 0, *events((1, HERE), (9, HERE))))
    assert contributions(a.records(0, 1, 2, *events((12, THERE))))
    assert not contributions(a.records(0, 1, 3, *events((15, THERE))))


def test_no_window_is_answered_before_what_waited_for_it_has_come() -> None:
    a, b = node("a", 0), node("b", 1)
    a.records(0, 1, 0, *events((1, HERE), (12, HERE)))
    first = b.records(1, 1, 0, *events((3, HERE)))
    assert not results(a.broadcast(1, *deltas(first)))
    made = b.records(1, 1, 1, *events((4, HERE), (11, THERE)))
    later = b.records(1, 1, 3, *events((12, HERE)))
    assert not results(a.broadcast(1, *deltas(made), *deltas(later)))
    (contribution,) = for_shard(0, made)
    assert results(a.step(e.ContributionsRead(0, 1, [contribution]), "contributions")) == [
        b'{"end":10,"counts":{"%d":3}}' % HERE
    ]


@pytest.mark.parametrize("of_reader", [16 << 10, 0])
def test_what_waits_is_not_requested_and_what_was_lost_before_is(of_reader: int) -> None:
    """Also where the reader lets nothing wait itself."""
    a, b = node("a", 0, waiting_bytes=of_reader), node("b", 1)
    a.broadcast(1, *deltas(b.records(1, 1, 0, *events((3, HERE)))))
    assert not requests(a.tick(10_000))
    a.broadcast(1, *deltas(b.records(1, 1, 1, *events((12, HERE)))), *deltas(b.records(1, 1, 2, *events((13, HERE)))))
    (wanted,) = requests(a.tick(shards.FIRST_MS))
    answer = contributions(b.control(wanted))
    a.step(e.ContributionsRead(0, 1, [each.value for each in answer]), "contributions")
    assert not requests(a.tick(10_000))


@pytest.mark.parametrize(("waiting_bytes", "leaving"), [(0, [True, True]), (10, [False, True]), (10_000, [False] * 2)])
def test_so_many_bytes_may_wait_for_each_shard(waiting_bytes: int, leaving: list[bool]) -> None:
    a = node("a", 0, waiting_bytes=waiting_bytes)
    made = [a.records(0, 1, 0, *events((1, HERE))), a.records(0, 1, 1, *events((2, THERE)))]
    assert [bool(contributions(effects)) for effects in made] == leaving


@pytest.mark.parametrize("broadcast_interval_ms", [0, 10**6])
def test_all_leave_before_a_checkpoint_and_the_checkpoint_waits_for_them(broadcast_interval_ms: int) -> None:
    a = node("a", 0, checkpoint_interval_ms=500, broadcast_interval_ms=broadcast_interval_ms)
    made = a.records(0, 1, 0, *events((1, HERE)))
    assert not contributions(made) and len(deltas(made)) == (broadcast_interval_ms == 0)
    effects = a.tick(600)
    assert len(contributions(effects)) == len(deltas(effects)) == 1, "also where nothing else is new"
    assert not [each for each in effects if isinstance(each, x.SaveCheckpoint)]
    assert [type(each) for each in a.acknowledged(0, 1)] == [x.SaveCheckpoint]
    a.stored()
    assert not contributions(a.records(0, 1, 1, *events((2, HERE))))
    effects = a.tick(600)
    assert len(contributions(effects)) == 1 and sent(effects)[0].sent_through == (1, 0)


def test_one_delta_leaves_before_a_checkpoint_with_all() -> None:
    a = node("a", 0, checkpoint_interval_ms=500, broadcast_interval_ms=100)
    a.now_ms += 1000
    effects = a.records(0, 1, 0, *events((1, HERE)))
    assert len(contributions(effects)) == len(deltas(effects)) == 1


def test_a_next_owner_begins_where_others_know_that_all_was_sent() -> None:
    """The former one has added nothing since it sent contributions."""
    owner, reader = node("a", 0, checkpoint_interval_ms=500), node("b", 1)
    made = owner.records(0, 1, 0, *events((1, HERE), (12, THERE))) + owner.records(0, 1, 2, *events((2, HERE)))
    made += owner.tick(600)
    owner.acknowledged(0, 1)
    (save,) = [effect for effect in owner.effects if isinstance(effect, x.SaveCheckpoint)]
    reader.step(e.ContributionsRead(1, 1, for_shard(1, made)), "contributions")
    reader.broadcast(0, *deltas(made))
    following = joined("a", SHARDS, others=["b"], job=job())
    following.control(*(m.Claim(0, "ab"[each], each, 1) for each in range(SHARDS)))
    following.loaded(0, 1, save.data)
    made = following.tail(0, 1) + following.records(0, 1, 3, *events((13, THERE), (22, THERE)))
    reader.step(e.ContributionsRead(1, 1, for_shard(1, made)), "contributions")
    reader.broadcast(0, *deltas(made))
    assert not requests(reader.tick(10_000))


@pytest.mark.parametrize("windows", [Tumbling(10), GlobalWindow()])
def test_all_leave_at_the_end_of_input(windows: Assigner) -> None:
    a = joined("a", SHARDS, others=["b"], job=job(lateness_ms=5, windows=windows))
    a.control(*(m.Claim(0, "ab"[each], each, 1) for each in range(SHARDS)))
    a.run_partition(0, 1)
    assert not contributions(a.records(0, 1, 0, *events((1, HERE), (3, THERE))))
    assert len(contributions(a.control(m.EndOfInput(0, 0, 2)))) == 2


def standby_of(partition: int, **settings: int) -> Dialogue:
    """A node ``b`` that stands by for a partition of ``a``, with the same records as it."""
    made = joined("b", SHARDS, others=["a"], job=job(), replicas=2, **settings)
    made.control(*(m.Claim(0, "a", each, 1) for each in range(SHARDS)))
    made.loaded(partition, -1 - partition)
    made.step(e.TailRead(partition, -1 - partition, {}, {}), "tail")
    return made


def test_a_standby_that_is_promoted_sends_what_its_owner_let_wait() -> None:
    """It sent at another time than its owner, of whose deltas the log has one that goes as far."""
    owner, standby = node("a", 0), standby_of(0, waiting_bytes=10)
    owner.broadcast(0)
    rows = events((1, HERE), (2, THERE), (3, HERE))
    of_owner = owner.records(0, 1, 0, *rows)
    assert not contributions(of_owner)
    standby.records(0, -1, 0, *rows)
    standby.broadcast(0, *deltas(of_owner))
    effects = standby.control(m.Claim(0, "b", 0, 2))
    assert [each.shard for each in contributions(effects)] == [0, 1]
    reader = node("b", 1)
    reader.broadcast(0, *deltas(of_owner), *deltas(effects))
    (mine,) = for_shard(1, effects)
    reader.step(e.ContributionsRead(1, 1, [mine]), "contributions")
    assert not requests(reader.tick(10_000)), "nothing is missing"


def test_a_standby_that_is_promoted_sends_nothing_that_its_owner_has_sent() -> None:
    owner, standby = node("a", 0, waiting_bytes=0), standby_of(0, waiting_bytes=10)
    rows = events((1, HERE), (2, THERE), (3, HERE))
    of_owner = owner.records(0, 1, 0, *rows)
    assert len(contributions(of_owner)) == 2
    standby.records(0, -1, 0, *rows)
    standby.broadcast(0, *deltas(of_owner))
    assert not contributions(standby.control(m.Claim(0, "b", 0, 2)))
