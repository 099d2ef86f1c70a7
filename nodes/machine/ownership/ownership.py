"""The owner of each partition, and its durable part: a fold over the control topic.

Two rules for this file. The state is a function of the records read so far and of nothing else: no clock, no liveness,
no node's own name. So nodes that have read the same prefix agree. A record that cannot be valid has no effect and is
never an error, since every node has to get past the same records. Every rule is in docs/design/control.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from nodes.checkpoints.file_names import is_merged_name
from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.control_state import NO_INCARNATION, ControlledPartition, ControlState
from nodes.machine.durable import KEPT_CHECKPOINTS, KEPT_MERGED, Durable, is_named, reaches, rests_on
from nodes.machine.facts import Fact
from nodes.machine.ownership import commands as c
from nodes.machine.ownership.decisions import DecisionFold
from nodes.machine.ownership.layouts import LayoutFold
from nodes.machine.ownership.programs import COMMANDS, ProgramFold
from nodes.machine.ownership.schemas import SchemaFold
from wcrdt.replica.slots import Position


class Ownership:
    """The folded control topic.

    Args: ``partitions`` holds until the first JobStarted gives another number: compare it and ``fingerprint`` with the
    own job's. ``owners_save``: a checkpoint counts only from the owner of its partition, under its claim.
    """

    def __init__(self, partitions: int, *, owners_save: bool = False) -> None:
        assert partitions > 0
        self._owners_save = owners_save
        self._begin(NO_INCARNATION, None, partitions)

    changes = 0
    """Grows whenever a member or an owner changes, so that callers need not compare again at the same number."""

    def _begin(self, incarnation: int, started: m.JobStarted | None, partitions: int) -> None:
        self.changes += 1
        self.incarnation, self.started = incarnation, started
        self.retries = self.merged_count = 0
        self.codes: list[str] = []
        """Versions of the program that may work on the job, as text, the newest last; none: of a release without."""
        if started is not None and c.VERSION in started.description:
            self.codes.append(started.description[c.VERSION])
        self._members: dict[str, int] = {}
        self._node_incarnations: dict[str, int] = {}  # by name, that of the newest Hello last
        self._commands: dict[str, None] = {}  # ids, the newest last
        self._stopping: set[str] = set()
        self._merged: list[m.MergedSaved] = []  # oldest first
        self._partitions = [ControlledPartition() for _ in range(partitions)]
        self.programs, self.layouts, self.decisions = ProgramFold(), LayoutFold(), DecisionFold()
        if started is None or m.CONTINUES not in started.description:  # else the same input may be read again
            self.schemas = SchemaFold()
        self._durable = Durable()

    # --- as one value -------------------------------------------------------------------------------------------

    def snapshot(self) -> ControlState:
        """The whole state; what comes later does not change it."""
        return ControlState(
            incarnation=self.incarnation, started=self.started,
            members=sorted(self._members.items()), stopping=sorted(self._stopping), retries=self.retries,
            merged=list(self._merged), merged_count=self.merged_count,
            partitions=[state.copied() for state in self._partitions],
            codes=list(self.codes), node_incarnations=list(self._node_incarnations.items()),
            commands=list(self._commands), programs=self.programs.state(),
            layouts=(self.layouts.proposed, self.layouts.outcome, self.layouts.layout),
            schemas=self.schemas.state(), decisions=self.decisions.state(),
        )  # fmt: skip

    def restore(self, state: ControlState) -> None:
        """Go on from what ``snapshot`` gave."""
        self._begin(state.incarnation, state.started, len(state.partitions))
        self.retries, self.merged_count = state.retries, state.merged_count
        self.codes = list(state.codes) or self.codes
        self._members, self._stopping = dict(state.members), set(state.stopping)
        self._node_incarnations, self._commands = dict(state.node_incarnations), dict.fromkeys(state.commands)
        self._merged, self._partitions = list(state.merged), [known.copied() for known in state.partitions]
        self.programs, self.layouts = ProgramFold(state.programs), LayoutFold(*state.layouts)
        self.schemas = SchemaFold(state.schemas)
        self.decisions = DecisionFold(state.decisions)

    @classmethod
    def restored(cls, state: ControlState) -> Ownership:
        """A new one that goes on from there."""
        made = cls(len(state.partitions))
        made.restore(state)
        return made

    # --- the fold -----------------------------------------------------------------------------------------------

    def apply(self, message: m.ControlMessage) -> list[Fact]:
        """Take the next record of the control topic; returns what it turned out to mean."""
        if isinstance(message, m.JobStarted):
            return self._job_started(message)
        if message.incarnation != self.incarnation:
            return []  # of an earlier incarnation of the job, or of one that has not begun
        handler = _HANDLERS.get(type(message))
        if handler is None or getattr(message, "partition", 0) >= len(self._partitions):
            return []
        return handler(self, message)

    def _job_started(self, job: m.JobStarted) -> list[Fact]:
        if job.incarnation <= self.incarnation:
            return []
        made: list[Fact] = [] if self.incarnation == NO_INCARNATION else [f.JobSuperseded(job.incarnation)]
        self._begin(job.incarnation, job, job.partitions)
        return [*made, f.JobBegan(job.incarnation, job.fingerprint, job.partitions)]

    def _hello(self, hello: m.Hello) -> list[Fact]:
        known = self.node_incarnation(hello.node)
        if 0 < hello.node_incarnation <= known:
            return []  # has begun before: read twice, or late
        made = self._ends_incarnation(hello.node)
        self.changes += 1
        return [*made, self._joins(hello.node, hello.number, hello.node_incarnation or known + 1)]

    def _joins(self, node: str, number: int, node_incarnation: int) -> Fact:
        """Of nodes that have left, the incarnations of those that began first are forgotten."""
        self._members[node] = number
        self._node_incarnations.pop(node, None)
        self._node_incarnations[node] = node_incarnation
        while len(self._node_incarnations) > c.KEPT_NODE_INCARNATIONS + len(self._members):
            gone = next(name for name in self._node_incarnations if name not in self._members)
            del self._node_incarnations[gone]
        return f.NodeJoined(node, number)

    def _is_over(self, message: m.Leaving | m.Goodbye) -> bool:
        """Whether another incarnation has begun under the name since."""
        return message.node_incarnation not in (0, self.node_incarnation(message.node))

    def _leaving(self, leaving: m.Leaving) -> list[Fact]:
        if leaving.node not in self._members or leaving.node in self._stopping or self._is_over(leaving):
            return []
        self._stopping.add(leaving.node)
        return [f.NodeLeaving(leaving.node)]

    def _goodbye(self, goodbye: m.Goodbye) -> list[Fact]:
        return [] if self._is_over(goodbye) else self._ends_incarnation(goodbye.node)

    def _ends_incarnation(self, node: str) -> list[Fact]:
        if node not in self._members:
            return []
        del self._members[node]
        self.changes += 1
        self._stopping.discard(node)
        made: list[Fact] = [f.NodeLeft(node)]
        for partition in self.owned_by(node):
            state = self._partitions[partition]
            state.owner = state.released_to = None
            made.append(f.PartitionReleased(partition, None, node, state.version))
        return made

    def _claim(self, claim: m.Claim) -> list[Fact]:
        state = self._partitions[claim.partition]
        if claim.version != state.version + 1:
            return [f.ClaimLost(claim.partition, claim.node, claim.version, state.owner)]
        made: list[Fact] = []
        self.changes += 1
        if claim.node not in self._members:  # others wrote its Goodbye while it was silent: it claims, so it is alive
            made.append(self._joins(claim.node, -1, self.node_incarnation(claim.node) + 1))
        previous, state.owner, state.version, state.released_to = state.owner, claim.node, claim.version, None
        state.deaths += previous not in (None, claim.node)
        state.steals += previous is not None
        return [*made, f.PartitionClaimed(claim.partition, claim.node, claim.version, previous)]

    def _release(self, release: m.Release) -> list[Fact]:
        state = self._partitions[release.partition]
        if state.owner != release.node or state.version != release.version:
            return []
        state.owner, state.released_to = None, release.to
        self.changes += 1
        return [f.PartitionReleased(release.partition, release.to, release.node, release.version)]

    def _checkpoint_saved(self, saved: m.CheckpointSaved) -> list[Fact]:
        """A checkpoint is a function of the prefix that it names, so that of any node counts, unless it is behind."""
        state = self._partitions[saved.partition]
        kept = state.checkpoints
        owned = (saved.node, saved.version) == (state.owner, state.version)
        if not is_named(saved) or (not owned and (self._owners_save or rests_on(saved))):
            return []  # no store has it, or the new owner may delete what it rests on
        if kept and (not reaches(saved, kept[-1]) or any(saved.name == each.name for each in kept)):
            return []
        if not kept or saved.offset > kept[-1].offset:
            self._partitions[saved.partition].deaths = 0
        kept.append(saved)
        del kept[:-KEPT_CHECKPOINTS]
        self._durable.forget()
        return [f.CheckpointRecorded(saved)]

    def _merged_saved(self, saved: m.MergedSaved) -> list[Fact]:
        named = is_merged_name(saved.name, saved.incarnation, saved.control_offset)
        named &= all(saved.name != each.name for each in self._merged)
        if not named or len(saved.broadcast_offsets) != len(self._partitions):
            return []
        last = self._merged[-1] if self._merged else None
        if last is not None and (
            saved.control_offset < last.control_offset
            or any(new < old for new, old in zip(saved.broadcast_offsets, last.broadcast_offsets, strict=True))
        ):
            return []  # so that what a reader needs of the topics only ever moves on
        self._merged = [*self._merged, saved][-KEPT_MERGED:]
        self.merged_count += 1
        return [f.MergedRecorded(saved)]

    def _end_of_input(self, end: m.EndOfInput) -> list[Fact]:
        state = self._partitions[end.partition]
        if state.end_offset is not None:
            return []
        state.end_offset, state.end_reached = end.offset, end.reached
        return [f.EndDeclared(end.partition, end.offset)]

    def _failed(self, failed: m.Failed) -> list[Fact]:
        if self.failure(failed.partition, failed.code_hash) is not None:
            return []
        self._partitions[failed.partition].failures.append(failed)
        return [f.JobFailed(failed)]

    def _crashed(self, crashed: m.Crashed) -> list[Fact]:
        """Void where a checkpoint proves that an owner has come past the record."""
        state = self._partitions[crashed.partition]
        passed = bool(state.checkpoints) and state.checkpoints[-1].offset > crashed.offset
        if passed or crashed.offset in self.crashed(crashed.partition, crashed.code_hash):
            return []
        state.crashed.append(crashed)
        return [f.RecordAccused(crashed)]

    def _command(self, command: m.Command) -> list[Fact]:
        if command.id in self._commands:
            return []
        if command.id:
            self._commands[command.id] = None
            if len(self._commands) > c.KEPT_COMMANDS:
                del self._commands[next(iter(self._commands))]
        if command.name == c.RETRY:
            self.retries += 1
            return [f.RetryRequested(self.retries)]
        if command.name in (c.CODE, c.CODE_BESIDE):
            before = self.codes if command.name == c.CODE_BESIDE else []
            self.codes = [*(each for each in before if each != command.argument), command.argument][-c.KEPT_CODES :]
            return [f.CodeAccepted(command.argument)]
        if command.name in COMMANDS:  # what holds takes the place of codes that were accepted before
            self.codes = self.programs.take(command.name, command.argument) or self.codes
            return []
        if command.name.startswith((c.LAYOUT, c.AUTOSCALE)) and self._owners_save:
            return self._elastic(command)
        if command.name != "stop" or not self._members:
            return []
        self._stopping, self.changes = set(self._members), self.changes + 1
        return [f.FleetStopRequested(tuple(sorted(self._stopping)))]

    def _elastic(self, command: m.Command) -> list[Fact]:  # units may become more, and never fewer
        if command.name == c.AUTOSCALE:
            self.decisions.take(command.argument)
        elif (proposed := self.layouts.take(command.name, command.argument)) is not None:
            more = range(len(self._partitions), min(proposed.units, m.MAX_PARTITIONS))
            self._partitions += [ControlledPartition() for _ in more]
            self.changes += 1
        return []

    # --- what follows from the records read so far --------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """Of the job that runs; empty before the first JobStarted."""
        return "" if self.started is None else self.started.fingerprint

    @property
    def partitions(self) -> int:
        return len(self._partitions)

    @property
    def members(self) -> Mapping[str, int]:
        """Node -> number, from Hello to Goodbye; a ``Detector`` decides whether a member is alive."""
        return MappingProxyType(self._members)

    def node_incarnation(self, node: str) -> int:
        """How many incarnations have begun under this name, 0: none that is known."""
        return self._node_incarnations.get(node, 0)

    def owner(self, partition: int) -> str | None:
        return self._partitions[partition].owner

    def version(self, partition: int) -> int:
        """The claim_version: 0 before the first claim; a release leaves it as it is."""
        return self._partitions[partition].version

    def released_to(self, partition: int) -> str | None:
        """Whom the last owner expects to take over; None if it named nobody, or once the partition is claimed."""
        return self._partitions[partition].released_to

    def owners(self) -> dict[int, str | None]:
        return {partition: state.owner for partition, state in enumerate(self._partitions)}

    def owned_by(self, node: str) -> list[int]:
        return [partition for partition, state in enumerate(self._partitions) if state.owner == node]

    def checkpoints(self, partition: int) -> tuple[m.CheckpointSaved, ...]:
        """The newest ``KEPT_CHECKPOINTS`` of a partition, newest first."""
        return tuple(reversed(self._partitions[partition].checkpoints))

    def checkpoint(self, partition: int) -> m.CheckpointSaved | None:
        """The newest one."""
        return next(iter(self.checkpoints(partition)), None)

    def merged(self) -> tuple[m.MergedSaved, ...]:
        """The newest ``KEPT_MERGED`` merged checkpoints, newest first."""
        return tuple(reversed(self._merged))

    def end_offset(self, partition: int) -> int | None:
        """Where the bounded input of a partition ends; None while nobody has declared an end."""
        return self._partitions[partition].end_offset

    def known_end(self, partition: int) -> int:
        """How far the input went at least when its end was declared; 0 if that is not known."""
        return (self.end_offset(partition) or 0) if self._partitions[partition].end_reached else 0

    def failure(self, partition: int, code_hash: str) -> m.Failed | None:
        """Why nobody may take up this partition with this code, if so."""
        return next((x for x in self._partitions[partition].failures if x.code_hash == code_hash), None)

    def failures(self, code_hash: str) -> list[m.Failed]:
        """All failures of this code, by partition."""
        return [found for p in range(self.partitions) if (found := self.failure(p, code_hash)) is not None]

    def deaths(self, partition: int) -> int:
        """How many owners in a row have gone without a word, and without a checkpoint that got on."""
        return self._partitions[partition].deaths

    def steals(self) -> int:
        """How many claims of a partition that another node had."""
        return sum(state.steals for state in self._partitions)

    def accused(self) -> int:
        """Records of the input that are accused of ending their process, by any code: a number that only grows."""
        return sum(len(state.crashed) for state in self._partitions)

    def crashed(self, partition: int, code_hash: str) -> dict[int, str]:
        """The records at which the function ends its process, by offset, and how."""
        return {each.offset: each.how for each in self._partitions[partition].crashed if each.code_hash == code_hash}

    @property
    def stop_requested(self) -> bool:
        """True while some member is to stop, or is leaving by itself."""
        return bool(self._stopping)

    def is_stopping(self, node: str) -> bool:
        """True if this incarnation of the node is to stop or is leaving: one that joined afterwards resumes the job."""
        return node in self._stopping

    def durable_answered(self, depth: int = 1) -> Position:
        """The window position that every partition has answered in a checkpoint: windows up to it may be dropped.

        ``depth`` n takes the n-th newest checkpoints: from older ones, windows dropped so cannot be answered again.
        """
        return self._durable.at(self._partitions, depth)[0]

    def durable_watermark(self, depth: int = 1) -> int:
        """The least watermark (ms) over the partitions' checkpoints; ``depth`` as in ``durable_answered``."""
        return self._durable.at(self._partitions, depth)[1]

    def all_done(self) -> bool:
        """True once the newest checkpoint of every partition is behind all input and all windows."""
        return all(state.checkpoints and state.checkpoints[-1].done for state in self._partitions)

    def digest(self) -> str:
        """Equal for equal states: two nodes that have read the same prefix have the same digest."""
        return hashlib.blake2b(msgspec.msgpack.encode(self.snapshot()), digest_size=16).hexdigest()


_HANDLERS: dict[type[Any], Callable[[Ownership, Any], list[Fact]]] = {  # heartbeats: no part of this state
    m.Hello: Ownership._hello,
    m.Leaving: Ownership._leaving,
    m.Goodbye: Ownership._goodbye,
    m.Claim: Ownership._claim,
    m.Release: Ownership._release,
    m.CheckpointSaved: Ownership._checkpoint_saved,
    m.PartSaved: Ownership._checkpoint_saved,
    m.MergedSaved: Ownership._merged_saved,
    m.SlotWanted: lambda _, wanted: [f.SlotRequested(wanted.partition, wanted.node, wanted.position)],
    m.ShardWanted: lambda _, wanted: [f.ShardRequested(wanted.partition, wanted.node, wanted.shard)],
    m.EndOfInput: Ownership._end_of_input,
    m.Failed: Ownership._failed,
    m.Crashed: Ownership._crashed,
    m.SchemasFound: lambda own, found: own.schemas.take(found.source, found.partition, found.known, found.before),
    m.Command: Ownership._command,
}
