"""Dialogues with the node's state machine: what is told to it, and what it wants done, as text to compare.

A line with ``>`` is an event, the lines under it are the effects in their order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.outputs.identity import OutputId, Track
from holon.tracks.record_track import Input
from nodes.checkpoints.file_names import CheckpointKey, digest_of, name_of
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.config import ContinuedIncarnation, JobRun, NodeConfig
from nodes.machine.node import Node
from wcrdt.lattices.counters import GCounter
from wcrdt.replica.slots import TrackDelta
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

TICK_MS = 10


class CountPerWindow(ProcessingFunction[dict[str, Any]]):
    """Counts records in windows of 10 ms; fails at a record that says so."""

    count = WCRDT(GCounter(), Tumbling(10))

    def process(self, event: dict[str, Any], ctx: Context) -> None:
        if event.get("fail"):
            raise ValueError("told to fail")
        self.count.insert(1, ctx.timestamp_ms)

    @on_window(count, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit({"end": window.end_ms, "count": await self.count.window_value(window)})


def count_job() -> Job:
    source: Source[dict[str, Any]] = Source("in", Json(dict[str, Any]), timestamp=lambda event: event["ts"])
    return Job("count", source, CountPerWindow, output="out")


class Dialogue:
    """One node and the text of all that was said since the last ``take``.

    Args: ``name`` of the node; ``history`` is on the control topic before it begins. ``settings`` go to ``NodeConfig``,
    whose intervals are long by default, so that only what a test is about happens.
    """

    def __init__(
        self,
        name: str = "a",
        partitions: int = 1,
        history: Sequence[m.ControlMessage] = (),
        job: Job | None = None,
        topic_partitions: tuple[int, ...] = (),
        continued: ContinuedIncarnation | None = None,
        **settings: Any,
    ) -> None:
        intervals = {"heartbeat_interval_ms": 10**6, "broadcast_interval_ms": 0, "checkpoint_interval_ms": 10**6}
        config = NodeConfig(node=name, **{**intervals, **settings})
        job = count_job() if job is None else job
        sizes = dict.fromkeys(job.outputs, partitions)
        run = JobRun(job, 0, partitions, (0,) * partitions, sizes, None, continued, None, topic_partitions)
        self.node = Node(config, run)
        self.now_ms = 0
        self.lines: list[str] = []
        self.broadcast_at: dict[int, int] = {}
        self.effects: list[x.Effect] = []
        self.control(m.JobStarted(0, job.fingerprint(), partitions), *history)

    # --- events ---------------------------------------------------------------------------------------------------

    def step(self, event: e.Event, text: str) -> list[x.Effect]:
        """Step the node with an event, a tick later."""
        self.now_ms += TICK_MS
        self.effects = self.node.step(event, self.now_ms)
        self.lines.append(f"> {text}")
        self.lines += [f"  {show(effect)}" for effect in self.effects if not isinstance(effect, x.WriteHeartbeat)]
        return self.effects

    def control(self, *messages: m.ControlMessage, at_end: bool = True) -> list[x.Effect]:
        """Records of the control topic."""
        values = [m.encode(message) for message in messages]
        text = "; ".join(show_message(message) for message in messages) or "nothing new"
        return self.step(e.ControlRead(values, at_end), f"control: {text}")

    def read_back(self) -> list[x.Effect]:
        """The control records that the node wrote in answer to the last event."""
        written = [m.decode_control(effect.value) for effect in self.effects if isinstance(effect, x.WriteControl)]
        return self.control(*written)

    def tick(self, passed_ms: int = 0) -> list[x.Effect]:
        """Time passes."""
        self.now_ms += passed_ms
        return self.step(e.Ticked(), "time")

    def loaded(
        self, partition: int, version: int, data: bytes | None = None, tried: Sequence[str] = ()
    ) -> list[x.Effect]:
        """The answer to LoadCheckpoint."""
        what = "none" if data is None else "one"
        answer = e.CheckpointLoaded(partition, version, None, data, tried=list(tried))
        return self.step(answer, f"loaded [{partition}] v{version}: {what}")

    def tail(self, partition: int, version: int, last: int | None = None) -> list[x.Effect]:
        """The answer to ReadTail: the first result of the window that ends at ``last`` is the last one there is."""
        found = {} if last is None else {("main", partition): {int(Track.WINDOW): (last, 0)}}
        shown = "" if last is None else f": through {last}"
        return self.step(e.TailRead(partition, version, found, {}), f"tail [{partition}] v{version}{shown}")

    def records(self, partition: int, version: int, offset: int, *events: dict[str, Any]) -> list[x.Effect]:
        """Input from ``offset`` on."""
        run = self.input(offset, *events)
        text = f"input [{partition}] v{version} {offset}-{run.next_offset}"
        return self.step(e.InputRead(partition, version, run), text)

    def input(self, offset: int, *events: dict[str, Any]) -> Input:
        """Records as they are read from the log."""
        payloads = [json.dumps(event).encode() for event in events]
        end = offset + len(payloads)
        return Input(np.arange(offset, end, dtype=np.int64), np.zeros(len(payloads), np.int64), payloads, end)

    def acknowledged(self, partition: int, version: int) -> list[x.Effect]:
        """All that was written for the partition so far is on the log."""
        ticket = self.node.work.runners[partition].ticket
        return self.step(e.Acknowledged(partition, version, ticket, {}), f"acknowledged [{partition}] v{version}")

    def stored(self) -> list[x.Effect]:
        """The answer to the SaveCheckpoint of the last event."""
        (save,) = [effect for effect in self.effects if isinstance(effect, x.SaveCheckpoint)]
        key = CheckpointKey("job", 0, save.partition, save.record_position, save.answered)
        event = e.CheckpointStored(save.partition, save.version, save.ticket, name_of(key, digest_of(save.data)))
        return self.step(event, f"stored [{save.partition}] v{save.version}")

    def heartbeat(self, node: str) -> list[x.Effect]:
        """A heartbeat of another node."""
        return self.step(e.HeartbeatsRead([m.encode(m.Heartbeat(0, node, 1))]), f"heartbeat of {node}")

    def broadcast(self, partition: int, *values: bytes) -> list[x.Effect]:
        """Records of a partition's broadcast."""
        shown = "; ".join(show_broadcast(value) for value in values)
        offset = self.broadcast_at.get(partition, 0)
        self.broadcast_at[partition] = end = offset + len(values)
        return self.step(e.BroadcastRead(partition, list(values), offset, end), f"broadcast [{partition}]: {shown}")

    def run_partition(self, partition: int, version: int) -> None:
        """From the claim that was just read to the running partition, without a checkpoint."""
        self.loaded(partition, version)
        self.tail(partition, version)

    # --- what was said --------------------------------------------------------------------------------------------

    def take(self) -> str:
        """The text since the last call."""
        lines, self.lines = self.lines, []
        return "\n".join(lines)


def joined(name: str = "a", partitions: int = 1, others: Sequence[str] = (), **settings: Any) -> Dialogue:
    """A node that is a member, beside others that have said Hello before it; nothing is claimed yet."""
    dialogue = Dialogue(name, partitions, **settings)
    hello = m.Hello(0, name)
    dialogue.control(*(m.Hello(0, other) for other in others), hello)
    return dialogue


def running(name: str = "a", partitions: int = 1, **settings: Any) -> Dialogue:
    """A node that owns and runs all partitions, under version 1."""
    dialogue = joined(name, partitions, **settings)
    dialogue.read_back()
    for partition in range(partitions):
        dialogue.run_partition(partition, 1)
    dialogue.take()
    return dialogue


def show(effect: x.Effect) -> str:
    """One line for an effect."""
    match effect:
        case x.WriteControl(value):
            return f"write control: {show_message(m.decode_control(value))}"
        case x.WriteContribution(partition, version, _, value, shard):
            return f"write contribution for {shard} [{partition}] v{version}: {show_broadcast(value)}"
        case x.WriteBroadcast(partition, version, _, value):
            return f"write broadcast [{partition}] v{version}: {show_broadcast(value)}"
        case x.WriteOutput(_, version, _, to, values, headers, _):
            positions = [OutputId.from_bytes(header).position for header in headers]
            return f"write {to[0]}[{to[1]}] v{version}: " + ", ".join(
                f"{position}: {value.decode()}" for position, value in zip(positions, values, strict=True)
            )
        case x.LoadCheckpoint(partition, version, names):
            return f"load [{partition}] v{version} {names}"
        case x.ReadTail(partition, version, since):
            return f"read tail [{partition}] v{version} {since or ''}".rstrip()
        case x.SaveCheckpoint(partition, version, _, position, answered, _):
            return f"save [{partition}] v{version} at {at(position)}, answered {at(answered)}"
        case x.RewindBroadcast(partition):
            return f"rewind broadcast {'of all' if partition is None else f'[{partition}]'}"
        case x.ReadBroadcastAgain(partition, offset):
            return f"read broadcast [{partition}] again from {offset}"
        case x.Leave(ending, reason):
            return f"leave: {ending.value}" + (f" ({reason.splitlines()[0]})" if reason else "")
    return type(effect).__name__


def show_message(message: m.ControlMessage) -> str:
    """One control message, without its incarnation."""
    match message:
        case m.JobStarted():
            return "JobStarted"
        case m.CheckpointSaved():
            place = f"{at(message.record_position)}, answered {at(message.answered)}"
            return f"CheckpointSaved {message.node} [{message.partition}] v{message.version} at {place}" + (
                " done" if message.done else ""
            )
        case m.Failed():
            return f"Failed {message.node} [{message.partition}] at {message.offset}"
        case m.Hello():
            return f"Hello {message.node}"
        case m.Goodbye():
            return f"Goodbye {message.node}"
        case m.Claim():
            return f"Claim {message.node} [{message.partition}] v{message.version}"
        case m.Release():
            return f"Release {message.node} [{message.partition}] v{message.version} to {message.to}"
        case m.SlotWanted():
            return f"SlotWanted {message.node} [{message.partition}] behind {at(message.position)}"
        case m.EndOfInput():
            return f"EndOfInput [{message.partition}] at {message.offset}"
        case m.Command():
            return f"Command {message.name}"
    return type(message).__name__


def show_broadcast(value: bytes) -> str:
    """One broadcast record: where its record track begins and ends, how many windows, what is answered."""
    try:
        message = m.decode_broadcast(value)
    except m.BadMessage as error:
        return error.reason.value
    if isinstance(message, m.PunctuationSent):
        punctuation = message.punctuation
        return f"punctuation after {at(punctuation.after)} at {time(punctuation.watermark_ms)}"
    if isinstance(message, m.PieceSent):
        return f"piece {message.index} of {message.count}"
    record, window = message.delta.record, message.delta.window
    assert record is not None
    if window is None:
        return f"contribution {_track(record)}"
    kind = "full slot" if record.full else "delta"
    return f"{kind} {_track(record)}, answered {at(window.to)}"


def _track(delta: TrackDelta) -> str:
    windows = ", ".join(f"{change.end_ms}: {change.wire}" for change in delta.changes)
    span = at(delta.to) if delta.full else f"{at(delta.since)}-{at(delta.to)}"
    return f"{span} at {time(delta.watermark_ms)} {{{windows}}}"


def at(position: tuple[int, int]) -> str:
    """A position of a track; the second number only if it is not 0."""
    first = time(position[0])
    return first if position[1] == 0 else f"{first}.{position[1]}"


def time(ts_ms: int) -> str:
    """An event time, or the words for the two ends of it."""
    return {BEFORE_TIME_MS: "before", END_OF_TIME_MS: "end"}.get(ts_ms, str(ts_ms))
