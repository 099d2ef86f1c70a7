"""Sharded states: contributions leave before the delta that names them, and what is missing of them is requested."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.outputs.shards import shard_of
from nodes.checkpoints.file_names import CheckpointKey, digest_of, name_of, parse_name
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.broadcast import shards
from nodes.machine.broadcast.deltas_to_send import bits_of, is_named
from nodes.machine.broadcast.pieces import cut
from nodes.machine.config import ContinuedIncarnation, contributed_states
from nodes.machine.envelope import seal
from tests.unit.checkpoint_names import named
from tests.unit.node_dialogue import Dialogue, joined
from wcrdt import GCounter, MapOf
from wcrdt.replica.replica import SlotDelta
from wcrdt.replica.slots import TrackDelta
from wcrdt.windows.assigners import Assigner

SHARDS = 2
HERE, THERE = (next(key for key in range(9) if shard_of(key, SHARDS) == shard) for shard in range(SHARDS))


def counting(windows: Assigner) -> type[ProcessingFunction[dict[str, Any]]]:
    """Records by key."""

    class Counts(ProcessingFunction[dict[str, Any]]):
        counts = WCRDT(MapOf(GCounter()), windows, sharded=True)

        def process(self, event: dict[str, Any], ctx: Context) -> None:
            self.counts.insert((event["key"], 1), ctx.timestamp_ms)

        @on_window(counts)
        async def report(self, window: Window, ctx: Context) -> None:
            ctx.emit({"end": window.end_ms, "counts": await self.counts.window_value(window)})

    return Counts


TEN_MS = Tumbling(10)


def job(idle_timeout_ms: int | None = None, lateness_ms: int = 0, windows: Assigner = TEN_MS) -> Job:
    source: Source[dict[str, Any]] = Source(
        "in", Json(dict[str, Any]), timestamp=lambda event: event["ts"], idle_timeout_ms=idle_timeout_ms
    )
    return Job("counts", source, counting(windows), output="out", allowed_lateness_ms=lateness_ms)


def node(name: str, partition: int, **settings: Any) -> Dialogue:
    """One of two nodes, which owns and runs this partition, and reads its contributions."""
    made = joined(name, SHARDS, others=[{"a": "b", "b": "a"}[name]], job=job(), **settings)
    made.control(*(m.Claim(0, "ab"[each], each, 1) for each in range(SHARDS)))
    made.step(e.ContributionsRead(partition, 1, []), "contributions")
    made.run_partition(partition, 1)
    return made


def events(*rows: tuple[int, int]) -> list[dict[str, int]]:
    return [{"ts": ts, "key": key} for ts, key in rows]


def contributions(effects: list[x.Effect]) -> list[x.WriteContribution]:
    return [effect for effect in effects if isinstance(effect, x.WriteContribution)]


def deltas(effects: list[x.Effect]) -> list[bytes]:
    return [
        each.value
        for each in effects
        if isinstance(each, x.WriteBroadcast) and not isinstance(each, x.WriteContribution)
    ]


def requests(effects: list[x.Effect]) -> list[m.ShardWanted]:
    read = [m.decode_control(effect.value) for effect in effects if isinstance(effect, x.WriteControl)]
    return [message for message in read if isinstance(message, m.ShardWanted)]


def results(effects: list[x.Effect]) -> list[bytes]:
    return [value for effect in effects if isinstance(effect, x.WriteOutput) for value in effect.values]


def test_contributions_leave_before_the_delta_that_names_them_and_only_where_keys_have_changed() -> None:
    a = node("a", 0)
    effects = a.records(0, 1, 0, *events((1, HERE), (2, HERE), (12, HERE)))
    (contribution,) = contributions(effects)
    assert contribution.shard == 0 and effects.index(contribution) < next(
        index for index, each in enumerate(effects) if isinstance(each, x.WriteBroadcast) and each is not contribution
    )
    message = m.decode_broadcast(deltas(effects)[0])
    assert isinstance(message, m.ShardedSent) and message.shards == bits_of([0]) == b"\x01"
    assert message.delta.record is not None and message.delta.record.changes == []


def test_a_shard_answers_once_it_has_what_the_deltas_name() -> None:
    a, b = node("a", 0), node("b", 1)
    made = b.records(1, 1, 0, *events((3, HERE), (4, THERE), (12, THERE)))
    a.records(0, 1, 0, *events((1, HERE), (12, HERE)))
    assert not results(a.broadcast(1, *deltas(made)))
    (contribution,) = [each.value for each in contributions(made) if each.shard == 0]
    assert results(a.step(e.ContributionsRead(0, 1, [contribution]), "contributions")) == [
        b'{"end":10,"counts":{"%d":2}}' % HERE
    ]


def test_contributions_that_close_a_window_do_not_wait_for_the_interval() -> None:
    a = node("a", 0, broadcast_interval_ms=10**6)
    a.records(0, 1, 0, *events((1, HERE)))
    assert not contributions(a.records(0, 1, 1, *events((2, HERE))))
    assert contributions(a.records(0, 1, 2, *events((12, THERE)))) or contributions(a.tick(10))


def test_a_missing_contribution_is_requested_until_it_has_come() -> None:
    a, b = node("a", 0), node("b", 1)
    made = b.records(1, 1, 0, *events((3, HERE), (12, THERE)))
    a.records(0, 1, 0, *events((1, HERE), (12, HERE)))
    assert not requests(a.broadcast(1, *deltas(made)))
    (wanted,) = requests(a.tick(shards.FIRST_MS))
    assert (wanted.partition, wanted.shard, wanted.node) == (1, 0, "a") and not requests(a.tick())
    assert requests(a.tick(600)) == [wanted]
    (answer,) = contributions(b.control(wanted))
    assert answer.shard == 0
    assert results(a.step(e.ContributionsRead(0, 1, [answer.value]), "contributions")) == [
        b'{"end":10,"counts":{"%d":2}}' % HERE
    ]
    assert not requests(a.tick(10_000))


def test_what_an_incarnation_goes_on_behind_is_not_missing() -> None:
    data, names = ended()
    b = joined("b", SHARDS, others=["a"], job=job(), continued=ContinuedIncarnation(0, names, 10))
    b.control(*(m.Claim(0, "ab"[each], each, 1) for each in range(SHARDS)))
    b.step(e.ContributionsRead(1, 1, []), "contributions")
    b.step(e.CheckpointLoaded(1, 1, names[1], data), "loaded")
    b.tail(1, 1)
    place = parse_name(names[0]).key.record_position
    b.broadcast(0, m.encode(m.SlotSent(0, SlotDelta(0, 0, TrackDelta(place, place, 24, [], full=True), None))))
    assert not requests(b.tick(shards.FIRST_MS))
    on = SlotDelta(0, 0, TrackDelta(place, (4, 0), 25, []), None)
    b.broadcast(0, m.encode(m.ShardedSent(0, on, bits_of([1]), place)))
    assert [(wanted.offset, wanted.step) for wanted in requests(b.tick(shards.FIRST_MS))] == [place]


def ended() -> tuple[bytes, list[str]]:
    """The final checkpoint of partition 1 of an input that has ended, and both partitions' names of it."""
    a, b = node("a", 0), node("b", 1)
    ends = [m.EndOfInput(0, partition, 1) for partition in range(SHARDS)]
    sent = [each.records(partition, 1, 0, *events((3, HERE))) for partition, each in enumerate((a, b))]
    sent += [each.control(*ends) for each in (a, b)]
    names: list[str] = []
    data = b""
    for partition, each in enumerate((a, b)):
        each.step(e.ContributionsRead(partition, 1, [c.value for made in sent for c in contributions(made)]), "")
        each.broadcast(1 - partition, *(value for made in sent[1 - partition :: 2] for value in deltas(made)))
        each.acknowledged(partition, 1)
        (save,) = [effect for effect in each.effects if isinstance(effect, x.SaveCheckpoint)]
        key = CheckpointKey("counts", 0, partition, save.record_position, save.answered)
        data = save.data
        names.append(name_of(key, digest_of(data)))
    return data, names


def test_a_log_that_is_read_again_has_time_before_the_next_time() -> None:
    a, first, dropped = lacking()
    a.step(e.ContributionsRead(0, 1, [dropped]), "contributions")
    assert rewinds(a.tick(10**6))
    a.step(e.ContributionsRead(0, 1, [first, dropped]), "contributions")  # the answer lies on the log, too
    assert not rewinds(a.tick(shards.FIRST_MS)) and not rewinds(a.tick(shards.FIRST_MS))
    assert rewinds(a.tick(10**6))


def lacking() -> tuple[Dialogue, bytes, bytes]:
    """A node whose shard lacks contributions, the first of them, and an answer whose maker has dropped their window."""
    a, b = node("a", 0), node("b", 1, waiting_bytes=0)
    made = b.records(1, 1, 0, *events((3, HERE))), b.records(1, 1, 1, *events((4, HERE), (12, THERE)))
    a.records(0, 1, 0, *events((1, HERE), (12, HERE)))
    a.broadcast(1, *deltas(made[0]), *deltas(made[1]))
    (first,) = contributions(made[0])
    (answer,) = contributions(b.control(*requests(a.tick(shards.FIRST_MS))))
    sent = m.decode_broadcast(answer.value)
    assert isinstance(sent, m.SlotSent)
    return a, first.value, m.encode(m.SlotSent(0, msgspec.structs.replace(sent.delta, dropped_through_ms=10)))


def rewinds(effects: list[x.Effect]) -> list[x.Effect]:
    return [effect for effect in effects if isinstance(effect, x.RewindShard)]


def test_contributions_that_are_nowhere_end_the_node_with_advice() -> None:
    a, _, dropped = lacking()
    for _ in range(shards.MOST_REREADS):
        a.step(e.ContributionsRead(0, 1, [dropped]), "contributions")
        assert rewinds(a.tick(10**6))
    a.step(e.ContributionsRead(0, 1, [dropped]), "contributions")
    (leave,) = [effect for effect in a.tick(10**6) if isinstance(effect, x.Leave)]
    assert leave.ending is x.Ending.FAILED
    assert leave.reason == (
        "node a: partition 0 cannot be made again from its checkpoint: contributions to its keys are not on the log "
        "any more (of partition 1 from offset 0 on); start again with --reset"
    )


def test_a_damaged_contribution_is_one_that_did_not_come() -> None:
    a, b = node("a", 0), node("b", 1)
    made = b.records(1, 1, 0, *events((3, HERE), (12, THERE)))
    (contribution,) = [each.value for each in contributions(made) if each.shard == 0]
    a.step(e.ContributionsRead(0, 1, [contribution[:-1], b""]), "contributions")
    a.broadcast(1, *deltas(made))
    assert len(requests(a.tick(shards.FIRST_MS))) == 1


@pytest.mark.parametrize(("idle_timeout_ms", "contributed"), [(None, {"counts"}), (100, set())])
def test_where_a_job_allows_idleness_all_get_all(idle_timeout_ms: int | None, contributed: set[str]) -> None:
    assert contributed_states(job(idle_timeout_ms)) == contributed


def test_contributions_that_no_checkpoint_covers_count_as_deltas_do() -> None:
    a, b = node("a", 0), node("b", 1)
    made = b.records(1, 1, 0, *events((3, HERE), (12, THERE)))
    a.broadcast(1, *deltas(made))
    before = a.node.work.uncheckpointed.total_bytes
    (contribution,) = [each.value for each in contributions(made) if each.shard == 0]
    cuts = cut(0, contribution, 20)
    a.step(e.ContributionsRead(0, 1, cuts), "contributions")
    assert a.node.work.uncheckpointed.total_bytes == before + sum(map(len, cuts))
    a.control(named(m.CheckpointSaved(0, "b", 1, 1, "file", 2, 12, 12)))
    assert a.node.work.uncheckpointed.total_bytes == 0
    a.step(e.ContributionsRead(0, 1, [contribution]), "contributions")
    assert a.node.work.uncheckpointed.total_bytes == 0, "a checkpoint covers it"


@pytest.mark.parametrize("named", [[], [0], [7, 8], [3, 15, 16, 999], list(range(64))])
def test_shards_are_named_by_bits_and_in_lists_of_older_nodes(named: list[int]) -> None:
    bits = bits_of(named)
    assert len(bits) == (named[-1] // 8 + 1 if named else 0)
    for written in (bits, named):
        assert [shard for shard in range(1100) if is_named(shard, written)] == named


@pytest.mark.parametrize("version", [7, 10])
def test_what_an_older_node_has_sent_before_a_delta_and_was_lost_is_requested(version: int) -> None:
    """Its deltas do not say through where contributions were sent."""
    a, b = node("a", 0), node("b", 1, waiting_bytes=0)
    made = b.records(1, 1, 0, *events((3, HERE))), b.records(1, 1, 1, *events((12, THERE)))
    for (value,), shards_ in zip(map(deltas, made), ([0], [1]), strict=True):
        message = m.decode_broadcast(value)
        older = {"shards": shards_ if version == 7 else bits_of(shards_), "sent_through": None}
        a.broadcast(1, seal(msgspec.structs.replace(message, **older), m.MAX_BROADCAST_BYTES, version))
    assert len(requests(a.tick(10_000))) == 1


@pytest.mark.parametrize(("version", "named"), [(7, [1]), (10, bits_of([1]))])
def test_a_delta_of_an_older_node_is_read(version: int, named: list[int] | bytes) -> None:
    """It names the shards to which there are contributions, in a list or by bits; those of this node have none."""
    a, b = node("a", 0), node("b", 1)
    (made,) = deltas(b.records(1, 1, 0, *events((3, THERE), (12, THERE))))
    message = m.decode_broadcast(made)
    assert isinstance(message, m.ShardedSent) and message.format == m.SHARDS_VERSION > version
    older = seal(msgspec.structs.replace(message, shards=named, sent_through=None), m.MAX_BROADCAST_BYTES, version)
    a.records(0, 1, 0, *events((1, HERE), (12, HERE)))
    assert results(a.broadcast(1, older)) == [b'{"end":10,"counts":{"%d":1}}' % HERE]
    assert not requests(a.tick(10_000))
