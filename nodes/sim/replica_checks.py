"""The conditions on replicas: nodes that know the same prefix are equal, and idle partitions hold no window.

Nodes go on after these checks, which therefore look at copies of what they know.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import msgspec

from nodes.log.contract import Log
from nodes.machine import messages as m
from nodes.machine.broadcast.pieces import BroadcastPieces, PieceLost
from nodes.machine.runner import Runner
from nodes.sim.checks import Checked, CheckedNode, whole
from nodes.sim.node_process import InvariantBroken
from nodes.streams.jobs import JobTopics
from wcrdt.codec import DecodeError
from wcrdt.replica.replica import Replica
from wcrdt.replica.slots import RECORD_START

FRESH = "a reader from the start"


def check_replicas(world: Checked, processes: Sequence[CheckedNode], behind: bool = False) -> None:
    """O3: all that know the same prefix are equal, byte for byte; one that reads the broadcast from the start too.

    ``behind``: a node that has left may lack deltas that were lost on the way to it; what it has must be right. So may
    all while the partition's owner, who makes it again, has not come so far. With replicas a node may know more than
    the log holds: what a standby of its own made before it began anew is used, and a later owner publishes it.
    """
    made = {p: r.task.scope.record.position for process in processes for p, r in _owned(process)}
    fresh = Replica(world.run.partitions, world.run.job.program.shapes(), world.run.job.allowed_lateness_ms)
    catch_up(world.log, world, fresh, [0] * world.run.partitions)
    if world.isolation is not None:
        world.isolation.check(fresh)
    replicas = {FRESH: fresh}
    for process in processes:
        replicas[process.name] = caught_up(world, process)
    dropped = max(replica.dropped_through_ms for replica in replicas.values())
    for replica in replicas.values():
        replica.drop_through(dropped)
    pictures = {name: picture(replica) for name, replica in replicas.items()}
    whole = pictures.pop(FRESH)
    beyond: dict[tuple[int, str], bytes] = {}
    for name in sorted(pictures):
        for partition, (one, other) in enumerate(zip(whole, pictures[name], strict=True)):
            rotten = world.options.faults.delta_rotten > 0  # a reader from the start cannot request what is damaged
            cut = bool(world.options.truncation)  # nor for what a broker has lost; and producers were held up
            may_lack = (
                behind or rotten or cut or made.get(partition, RECORD_START) < fresh.slots[partition].record.position
            )
            if world.options.replicas > 1 and positions(one) < positions(other):
                one = beyond.setdefault((partition, str(positions(other))), other)
            if one != other and not (may_lack and positions(one) != positions(other)):
                raise InvariantBroken(
                    f"replicas differ at partition {partition}: {FRESH} {_short(one)}, {name} {_short(other)}"
                )


def _owned(process: CheckedNode) -> list[tuple[int, Runner]]:
    return [(p, runner) for p, runner in process.node.work.runners.items() if runner.standby is None]


def check_owners(world: Checked, processes: Sequence[CheckedNode]) -> None:
    """No owner is behind what the broadcast has of its partition: others would request that for as long as it waits.

    Where a broker has lost the end of an input there may be nothing to read.
    """
    for process in processes if not world.options.truncation else ():
        slots = caught_up(world, process).slots
        for partition, runner in _owned(process):
            position, known = runner.task.scope.record.position, slots[partition].record.position
            if position < known:
                raise InvariantBroken(f"{process.name} is at {position} of partition {partition}, others at {known}")


def check_idle_progress(world: Checked) -> None:
    """Where a job allows idleness, a partition without records holds no window: all come to the furthest one.

    One with records behind the end that will be declared is not idle, and others may be too far ahead of it.
    """
    if not world.case.idle or world.input_ended:
        return
    ends = [world.log.end_offset(*place) for place in world.run.layout.places()]
    for process in world.processes:
        until = process.node.work.config.until
        if until and any(end > declared for end, declared in zip(ends, until, strict=True)):
            continue
        watermarks = [slot.record.watermark_ms for slot in caught_up(world, process).slots]
        if min(watermarks) != max(watermarks):
            raise InvariantBroken(f"{process.name}: idle partitions hold event time back: {watermarks}")


def caught_up(world: Checked, process: CheckedNode) -> Replica:
    """The node's replica with all that is on the log, as a copy.

    The node goes on and sees nothing of it: a standby may still read windows that others have dropped.
    """
    replica = deepcopy(process.node.replica)
    catch_up(world.log, world, replica, process.driver._broadcast_at)
    return replica


def catch_up(log: Log, world: Checked, replica: Replica, positions: list[int]) -> None:
    """Read the broadcast to its end without a node; one that has left may have read what a broker has lost since."""
    topic, pieces = JobTopics.of(world.run).broadcast, BroadcastPieces()
    for partition, offset in enumerate(positions):
        for value in whole(log, topic, partition, min(offset, log.end_offset(topic, partition))).values:
            try:
                message = m.decode_broadcast(value)
                if isinstance(message, m.PieceSent):
                    message = pieces.take(partition, message)
                if message is None:
                    continue
                if isinstance(message, m.PunctuationSent):
                    replica.punctuate(message.punctuation)
                else:
                    replica.receive(message.delta)
            except (m.BadMessage, PieceLost, DecodeError):
                continue


def picture(replica: Replica) -> list[bytes]:
    """Each partition's slot as bytes: all tracks and the number of punctuations."""
    shown = []
    for partition in range(len(replica.slots)):
        full = replica.full(partition)
        shown.append(msgspec.msgpack.encode([full.punctuations, *full.tracks]))
    return shown


def positions(shown: bytes) -> list[list[int]]:
    """The positions of the tracks of a slot's picture."""
    _, *tracks = msgspec.msgpack.decode(shown)
    return [track[1] for track in tracks]


def _short(shown: bytes) -> str:
    return str(msgspec.msgpack.decode(shown))[:300]
