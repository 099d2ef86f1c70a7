"""Deltas of a partition as they go to the broadcast, and the error where one is larger than any reader takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from nodes.machine import messages as m
from nodes.machine.effects import Effect, WriteBroadcast, WriteContribution, WriteControl
from wcrdt.replica.replica import Punctuation, SlotDelta
from wcrdt.replica.shards import ShardedDelta
from wcrdt.replica.slots import RECORD_START, Position

_SHOWN = 3


class DeltasTooLarge(Exception):
    """A delta above ``MAX_BROADCAST_BYTES``: no node could take it, wherever the partition is processed."""

    def __init__(self, partition: int, text: str) -> None:
        super().__init__(text)
        self.partition = partition


def encoded(incarnation: int, delta: SlotDelta | Punctuation, partition: int) -> bytes:
    """The broadcast record's value. Raises ``DeltasTooLarge``."""
    try:
        return m.encode(_message(incarnation, delta))
    except m.BadMessage as error:
        assert error.reason is m.BadReason.TOO_LARGE and isinstance(delta, SlotDelta), error
        raise DeltasTooLarge(partition, _explained(delta, error)) from error


def _message(incarnation: int, delta: SlotDelta | Punctuation) -> m.BroadcastMessage:
    if isinstance(delta, Punctuation):
        return m.PunctuationSent(incarnation, delta)
    if not isinstance(delta, ShardedDelta):
        return m.SlotSent(incarnation, delta)
    plain = SlotDelta(delta.partition, delta.punctuations, delta.record, delta.window, later=delta.later)
    shards = None if delta.waits else bits_of(delta.contributions)
    return m.ShardedSent(incarnation, plain, shards, delta.sent_through)


def bits_of(shards: Collection[int]) -> bytes:
    """Bit ``shard % 8`` (0 is the lowest) of byte ``shard // 8`` is 1: of eight shards a list takes up to 24 bytes."""
    bits = bytearray(max(shards, default=-1) // 8 + 1)
    for shard in shards:
        bits[shard // 8] |= 1 << shard % 8
    return bytes(bits)


def is_named(shard: int, shards: Sequence[int] | bytes) -> bool:
    """Whether a delta names this shard, by bits or in a list."""
    if isinstance(shards, bytes):
        return shard // 8 < len(shards) and bool(shards[shard // 8] >> shard % 8 & 1)
    return shard in shards


def sent_through(message: m.SlotSent) -> Position:
    """Up to where contributions to shards are on the log, as far as this message says; those that it names are."""
    record = message.delta.record
    if not isinstance(message, m.ShardedSent) or record is None:
        return RECORD_START
    through = record.since if message.sent_through is None else message.sent_through
    return through if message.shards is None else record.to


def announced(effects: Sequence[Effect], incarnation: int, node: str) -> list[Effect]:
    """The effects, and before each delta that nodes of older releases refuse the record at which they stop.

    Without it they would request the slot again and again.
    """
    made: list[Effect] = []
    for effect in effects:
        if isinstance(effect, WriteBroadcast | WriteContribution) and len(effect.value) > m.FORMER_BROADCAST_BYTES:
            made.append(WriteControl(m.encode(m.LargeDelta(incarnation, node, effect.partition))))
        made.append(effect)
    return made


def _explained(delta: SlotDelta, error: m.BadMessage) -> str:
    """Which windows of which states are how large."""
    sizes: Counter[str] = Counter()
    windows: Counter[str] = Counter()
    for track in delta.tracks:
        for change in track.changes:
            sizes[change.state] += len(msgspec.msgpack.encode(change))
            windows[change.state] += 1
    shown = ", ".join(f"{name} {size:,} bytes in {windows[name]} windows" for name, size in sizes.most_common(_SHOWN))
    until = "" if delta.record is None else f" up to offset {delta.record.to[0]}"
    return (
        f"the delta of partition {delta.partition}{until} is too large for the broadcast ({error}): {shown}. Put less "
        f"into a window, use shorter windows or a state that keeps less, or let fewer windows be open at once "
        f"(node.max_watermark_drift_ms); then start again with --reset"
    )
