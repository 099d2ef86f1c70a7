"""Sharded states: pieces leave before the delta that names them, and what is missing of them is requested."""

from __future__ import annotations

from typing import Any

import pytest

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.outputs.shards import shard_of
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.broadcast import shards
from nodes.machine.config import pieced_states
from tests.unit.node_dialogue import Dialogue, joined
from wcrdt import GCounter, MapOf

SHARDS = 2
HERE, THERE = (next(key for key in range(9) if shard_of(key, SHARDS) == shard) for shard in range(SHARDS))


class Counts(ProcessingFunction[dict[str, Any]]):
    """Records by key, in windows of 10 ms."""

    counts = WCRDT(MapOf(GCounter()), Tumbling(10), sharded=True)

    def process(self, event: dict[str, Any], ctx: Context) -> None:
        self.counts.insert((event["key"], 1), ctx.timestamp_ms)

    @on_window(counts)
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit({"end": window.end_ms, "counts": await self.counts.window_value(window)})


def job(idle_timeout_ms: int | None = None) -> Job:
    source: Source[dict[str, Any]] = Source(
        "in", Json(dict[str, Any]), timestamp=lambda event: event["ts"], idle_timeout_ms=idle_timeout_ms
    )
    return Job("counts", source, Counts, output="out")


def node(name: str, partition: int, **settings: int) -> Dialogue:
    """One of two nodes, which owns and runs this partition, and reads its pieces."""
    made = joined(name, SHARDS, others=[{"a": "b", "b": "a"}[name]], job=job(), **settings)
    made.control(*(m.Claim(0, "ab"[each], each, 1) for each in range(SHARDS)))
    made.step(e.PiecesRead(partition, 1, []), "pieces")
    made.run_partition(partition, 1)
    return made


def events(*rows: tuple[int, int]) -> list[dict[str, int]]:
    return [{"ts": ts, "key": key} for ts, key in rows]


def pieces(effects: list[x.Effect]) -> list[x.WritePiece]:
    return [effect for effect in effects if isinstance(effect, x.WritePiece)]


def deltas(effects: list[x.Effect]) -> list[bytes]:
    return [each.value for each in effects if isinstance(each, x.WriteBroadcast) and not isinstance(each, x.WritePiece)]


def requests(effects: list[x.Effect]) -> list[m.ShardWanted]:
    read = [m.decode_control(effect.value) for effect in effects if isinstance(effect, x.WriteControl)]
    return [message for message in read if isinstance(message, m.ShardWanted)]


def results(effects: list[x.Effect]) -> list[bytes]:
    return [value for effect in effects if isinstance(effect, x.WriteOutput) for value in effect.values]


def test_pieces_leave_before_the_delta_that_names_them_and_only_where_keys_have_changed() -> None:
    a = node("a", 0)
    effects = a.records(0, 1, 0, *events((1, HERE), (2, HERE), (12, HERE)))
    (piece,) = pieces(effects)
    assert piece.shard == 0 and effects.index(piece) < next(
        index for index, each in enumerate(effects) if isinstance(each, x.WriteBroadcast) and each is not piece
    )
    message = m.decode_broadcast(deltas(effects)[0])
    assert isinstance(message, m.PiecedSent) and message.shards == [0]
    assert message.delta.record is not None and message.delta.record.changes == []


def test_a_shard_answers_once_it_has_what_the_deltas_name() -> None:
    a, b = node("a", 0), node("b", 1)
    made = b.records(1, 1, 0, *events((3, HERE), (4, THERE), (12, THERE)))
    a.records(0, 1, 0, *events((1, HERE), (12, HERE)))
    assert not results(a.broadcast(1, *deltas(made)))
    (piece,) = [each.value for each in pieces(made) if each.shard == 0]
    assert results(a.step(e.PiecesRead(0, 1, [piece]), "pieces")) == [b'{"end":10,"counts":{"%d":2}}' % HERE]


def test_pieces_that_close_a_window_do_not_wait_for_the_interval() -> None:
    a = node("a", 0, broadcast_interval_ms=10**6)
    a.records(0, 1, 0, *events((1, HERE)))
    assert not pieces(a.records(0, 1, 1, *events((2, HERE))))
    assert pieces(a.records(0, 1, 2, *events((12, THERE)))) or pieces(a.tick(10))


def test_a_missing_piece_is_requested_until_it_has_come() -> None:
    a, b = node("a", 0), node("b", 1)
    made = b.records(1, 1, 0, *events((3, HERE), (12, THERE)))
    a.records(0, 1, 0, *events((1, HERE), (12, HERE)))
    assert not requests(a.broadcast(1, *deltas(made)))
    (wanted,) = requests(a.tick(shards.FIRST_MS))
    assert (wanted.partition, wanted.shard, wanted.node) == (1, 0, "a") and not requests(a.tick())
    assert requests(a.tick(600)) == [wanted]
    (answer,) = pieces(b.control(wanted))
    assert answer.shard == 0
    assert results(a.step(e.PiecesRead(0, 1, [answer.value]), "pieces")) == [b'{"end":10,"counts":{"%d":2}}' % HERE]
    assert not requests(a.tick(10_000))


def test_a_damaged_piece_is_one_that_did_not_come() -> None:
    a, b = node("a", 0), node("b", 1)
    made = b.records(1, 1, 0, *events((3, HERE), (12, THERE)))
    (piece,) = [each.value for each in pieces(made) if each.shard == 0]
    a.step(e.PiecesRead(0, 1, [piece[:-1], b""]), "pieces")
    a.broadcast(1, *deltas(made))
    assert len(requests(a.tick(shards.FIRST_MS))) == 1


@pytest.mark.parametrize(("idle_timeout_ms", "pieced"), [(None, {"counts"}), (100, set())])
def test_where_a_job_allows_idleness_all_get_all(idle_timeout_ms: int | None, pieced: set[str]) -> None:
    assert pieced_states(job(idle_timeout_ms)) == pieced
