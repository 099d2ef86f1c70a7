"""Nodes of a transactional job on a log in memory, with crashes and owners that overlap, all drawn from one seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from msgspec.structs import replace

from nodes.log.contract import FetchedRecords
from tests.sim.memory_spill import MemorySpill
from tests.sim.recorded_log import RecordedLog
from tests.sim.transactions_life import CALLS, COMMITS, EPOCHS, REPLIES, REQUESTS, Chain, Life
from tests.sim.transactions_versions import Versions
from transactional import Program
from transactional import events as e
from transactional.epochs.messages import Replies, reply_message
from transactional.epochs.sequencer import EpochConfig, first_needed
from transactional.epochs.trimming import Trims
from transactional.execution.crashing import Apart, Trying
from transactional.layout import Layout
from transactional.node import TransactionNode
from transactional.requests.requests import WireRequest, partition_of, request_record
from transactional.state.restored import restored_state
from transactional.state.snapshots import merged_replies, merged_rows, snapshot_bytes, snapshot_state
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store

KEPT = 3
"""Snapshots of a partition that somebody may begin with."""


class Trimmed(Exception):
    """The records to read are gone."""


class World:
    """Let it run with ``act``, end it with ``heal``, then ask for replies and the epochs topic."""

    apart: Apart | None = None
    unrest = 0
    """So many steps are still to be full of faults."""
    step_bytes: tuple[int, ...] = (1, 100, 1 << 17)
    """Of copies that one step makes, to draw one."""

    def __init__(
        self,
        program: Program,
        seed: int,
        *,
        nodes: int,
        sequencers: int,
        config: EpochConfig,
        versions: Sequence[Program] = (),
    ) -> None:
        self.program = program
        self.versions = Versions(versions or [program], seed + 3)
        self.draw = Random(seed)
        self.side = Random(seed + 1)  # what files a snapshot has
        self.placing = Random(seed + 2)
        self.partitions = program.partitions
        """How many there are; some may take no part in the newest epochs."""
        self.sequencers = sequencers
        self.copying = Random(seed + 4)
        self.splits: list[Layout] = []
        """Proposed layouts that halve a partition."""
        self.config = dataclasses.replace(config, copy_bytes=self.copying.choice(self.step_bytes))
        self.log = RecordedLog()
        self.log.create_topic(EPOCHS, 1)
        self.log.create_topic(CALLS, program.partitions)
        self.log.create_topic(REQUESTS, sequencers)
        self.log.create_topic(REPLIES, program.partitions)
        self.log.create_topic(COMMITS, program.partitions)
        self.now_ms = 1_000
        self.names = iter(range(1_000_000))
        self.crashes = 0
        self.snapshots: dict[int, list[Chain]] = {}  # durable ones by partition, oldest first
        self.restored = 0
        self.chained = 0
        self.spills = 0
        self.logged = 0
        self.trimmed: dict[tuple[str, int], int] = {}  # before this offset a node finds nothing; the oracle does
        self.behind = 0  # how often a node has needed what was gone
        self.after: dict[tuple[int, int], int] = {}  # request -> the last epoch of which a reply was there before it
        self.lives = [self._born() for _ in range(nodes)]
        for partition in range(program.partitions):
            self.take(self.draw.choice(self.lives), partition)
        for sequencer in range(sequencers):
            self.draw.choice(self.lives).node.step(e.SequencerTaken(sequencer), self.now_ms)

    # --- what happens -----------------------------------------------------------------------------------------------

    def send(self, request: WireRequest) -> None:
        """A client sends a request."""
        self.append_request(partition_of(request.id, self.sequencers), request_record(request))

    def misplace(self, request: WireRequest) -> None:
        """A client that has another partitioner sends a request: it runs in no other partition than its id's."""
        place = partition_of(request.id, self.sequencers)
        others = [each for each in range(self.sequencers) if each != place]
        if others:
            self.append_request(self.side.choice(others), request_record(request))

    def send_batch(self, requests: list[WireRequest]) -> None:
        """In one record, wherever that goes."""
        self.append_request(partition_of(requests[0].id, self.sequencers), request_record(requests))

    def append_request(self, sequencer: int, record: bytes) -> None:
        """Any bytes as a request; ``after`` keeps what was acknowledged before it."""
        where = sequencer, self.log.end_offset(REQUESTS, sequencer)
        epochs = (each.epoch for p in range(self.partitions) for each in self.replies(p))
        self.after[where] = max(epochs, default=0)
        self.log.append(REQUESTS, sequencer, [record])

    def act(self) -> None:
        """One node does one small thing; just after a layout was proposed, much besides."""
        if self.unrest:
            self.unrest -= 1
            if self.placing.random() < 0.06:
                self.placing.choice([self.save, self.save, self.forget, self.crash, self.overlap])()
        life = self.draw.choice(self.awake())
        with self._begins_again(life):
            self._act(life)

    def awake(self) -> list[Life]:
        """Nodes that may act."""
        return self.lives

    def _act(self, life: Life) -> None:
        match self.draw.choices(["write", "epochs", "calls", "requests", "tick"], [6, 4, 4, 2, 2])[0]:
            case "write":
                self._write(life)
            case "epochs":
                self._read_epochs(life, self.draw.randrange(1, 4))
            case "calls":
                if life.node.partitions:
                    self._read_calls(life, self.draw.choice(sorted(life.node.partitions)), self.draw.randrange(1, 4))
            case "requests":
                if life.node.sequencers:
                    self._read_requests(life, self.draw.choice(sorted(life.node.sequencers)), self.draw.randrange(1, 6))
            case _:
                self.now_ms += self.draw.randrange(3)
                life.keep(life.node.step(e.Ticked(), self.now_ms))

    def crash(self) -> None:
        """A node is gone, with what it has not written; others, or its next life, take over what it owned."""
        self.kill(self.draw.randrange(len(self.lives)))

    def kill(self, place: int) -> None:
        """As ``crash``, of this node."""
        self.crashes += 1
        dead = self.lives[place]
        self.lives[place] = self._born()
        for partition in sorted(dead.node.partitions):
            self.take(self.draw.choice(self.lives), partition)
        for sequencer in sorted(dead.node.sequencers):
            self.take_sequencer(self.draw.choice(self.lives), sequencer)

    def oldest_kept(self) -> int:
        """Up to this epoch nobody need know anything; 0: all is needed."""
        kept = [self._kept(partition) for partition in range(self.partitions)]
        return min(each[0][-1].ledger.done for each in kept) if all(kept) else 0

    def overlap(self) -> None:
        """A node takes over what another one still works on."""
        life = self.draw.choice(self.lives)
        if self.draw.random() < 0.5:
            self.take(life, self.draw.randrange(self.partitions))
        else:
            self.take_sequencer(life, self.draw.randrange(self.sequencers))

    def take(self, life: Life, partition: int) -> None:
        if partition in life.node.partitions:
            return
        kept = [each for each in self._kept(partition) if each[-1].ledger.done >= life.begun]
        chain = self.draw.choice(kept) if kept else ()
        snapshot = chain[-1] if chain else None
        assert snapshot is not None or not life.begun
        gone = self._gone(CALLS, partition)
        if snapshot is not None and snapshot.calls_offset < gone:  # another owner had read further by that epoch
            snapshot = replace(snapshot, calls_offset=gone)
        self.restored += snapshot is not None
        self.chained += len(chain) > 1
        begin = 0 if snapshot is None else snapshot.commits_offset
        begin = max(begin, self._gone(COMMITS, partition))
        commits = self.log.read(COMMITS, partition, begin, max_records=1 << 30).values
        if self.draw.random() < 0.3:  # some were too large to be written
            commits = [each for each in commits if self.draw.random() < 0.5]
        self.logged += len(commits)
        window = life.node.config.id_window
        state = None
        if snapshot is not None:
            state = restored_state(snapshot, chain[:-1], id_window=window, new_store=self.new_store)
        taken = e.PartitionTaken(partition, self._last_reply(partition), state, commits)
        life.keep(life.node.step(taken, self.now_ms))
        life.chains[partition] = chain

    def save(self) -> None:
        """A node makes a snapshot of each partition that it owns durable; its replies are on the log before.

        A standby makes none: it holds its replies back, and the owner's may get lost.
        """
        life = self.draw.choice(self.lives)
        for partition in sorted(life.node.owned_partitions()):
            owned = life.node.partitions[partition]
            whole = not owned.has_snapshot and self.side.random() < 0.1
            if whole:
                life.chains[partition] = ()
            owned.want_snapshot(whole=whole)
            made = None if life.outbox.get((REPLIES, partition)) else owned.take_snapshot()
            if made is not None:
                known, data = self.snapshots.setdefault(partition, []), made[1].encoded()
                self.log.note("snapshot", partition, data)
                state = snapshot_state(data)
                assert snapshot_bytes(state) == data and state.ledger.done == made[0]
                chain = life.chains[partition] = self._merged((*life.chains[partition], state))
                if not known or state.ledger.done >= known[-1][-1].ledger.done:
                    known.append(chain)

    def _merged(self, chain: Chain) -> Chain:
        """Now and then the end of it, but for the newest, as one."""
        at = self.side.randrange(len(chain))
        older = chain[at:-1]
        if len(older) < 2 or self.side.random() < 0.5:
            return chain
        runs = [sorted(each.items, key=lambda row: row[:2]) for each in older]
        made = replace(merged_replies(older), items=list(merged_rows(runs, whole=at == 0)))
        return *chain[:at], made, chain[-1]

    def _kept(self, partition: int) -> list[Chain]:
        return self.snapshots.get(partition, [])[-KEPT:]

    def forget(self) -> None:
        """Nodes drop what no kept snapshot needs."""
        if len(self.snapshots) == self.partitions:
            before = self.oldest_kept() + 1
            for life in self.lives:
                life.node.receive(e.EpochsCovered(before))
                life.begun = max(life.begun, before - 1)

    def take_sequencer(self, life: Life, sequencer: int) -> None:
        if sequencer not in life.node.sequencers:
            if self.draw.random() < 0.8:  # else it believes that it knows all of the topic, and does not
                with self._begins_again(life):
                    self._read_epochs(life, 1 << 30)
            start = self._gone(REQUESTS, sequencer)
            if start > first_needed(life.node.ledger, sequencer):
                with self._begins_again(life):
                    self._read_epochs(life, 1 << 30)
            while start > first_needed(life.node.ledger, sequencer):  # it has begun anew, or has an attempt to write
                assert self._read_epochs(life, 1 << 30) or self._write(life), "it knows all, and still needs more"
            life.keep(life.node.step(e.SequencerTaken(sequencer, start), self.now_ms))

    def trim(self) -> None:
        """A node deletes what no kept snapshot needs, by the samples that it has taken; or it takes one."""
        life = self.side.choice(self.lives)
        if life.trims is None:
            life.trims = Trims(self.config.id_window)
        if self.side.random() < 0.5:
            ends = {
                p: self.log.end_offset(REPLIES, p) for p in life.node.partitions if not life.outbox.get((REPLIES, p))
            }
            life.trims.sample(life.node, ends)
            return
        kept = [self._kept(partition) for partition in range(self.partitions)]
        if any(len(each) < KEPT for each in kept):
            return
        needed = [each[0][-1].ledger.done for each in kept]
        self._trim(EPOCHS, 0, life.trims.epochs(min(needed)))
        for partition in sorted(life.node.owned_partitions()):
            calls, commits = life.trims.calls_and_commits(partition, needed[partition])
            self._trim(CALLS, partition, calls)
            self._trim(COMMITS, partition, commits)
            self._trim(REPLIES, partition, life.trims.replies(life.node, partition, needed[partition]))
        for sequencer in life.node.owned_sequencers():
            self._trim(REQUESTS, sequencer, life.trims.requests(life.node, sequencer))

    def _trim(self, topic: str, partition: int, offset: int) -> None:
        self.trimmed[topic, partition] = max(offset, self._gone(topic, partition))

    def _gone(self, topic: str, partition: int) -> int:
        return self.trimmed.get((topic, partition), 0)

    @contextmanager
    def _begins_again(self, life: Life) -> Iterator[None]:
        """A node that needs what is gone begins anew in place, with what it had."""
        try:
            yield
        except Trimmed:
            self.behind += 1
            partitions, sequencers = sorted(life.node.partitions), sorted(life.node.sequencers)
            fresh = self._born()
            life.node, life.begun = fresh.node, fresh.begun
            for partition in partitions:
                self.take(life, partition)
            for sequencer in sequencers:
                self.take_sequencer(life, sequencer)

    def _chunk(self, topic: str, partition: int, offset: int, count: int) -> FetchedRecords:
        if offset < self._gone(topic, partition):
            raise Trimmed
        return self.log.read(topic, partition, offset, max_records=count)

    def heal(self, limit: int = 100_000) -> None:
        """No more faults: run until nothing is left to do; fails if that takes more than ``limit`` rounds."""
        for _ in range(limit):
            self.now_ms += 1
            moved = False
            for life in self.lives:
                behind = self.behind
                with self._begins_again(life):
                    moved |= self.whole_turn(life)
                moved |= self.behind > behind
            if not moved:
                return
        raise AssertionError(f"still at work after {limit} rounds")

    # --- reading and writing ----------------------------------------------------------------------------------------

    def _born(self) -> Life:
        begin = None
        if len(self.snapshots) == self.partitions:
            oldest = [self._kept(partition)[0][-1].ledger for partition in sorted(self.snapshots)]
            begin = min(oldest, key=lambda ledger: ledger.done)
        trying = Trying(f"life{next(self.names)}", self.apart)
        given = self.versions.drawn(), self.sequencers, self.config, begin, self.new_store
        node = TransactionNode(*given, trying=trying, history_end=self.log.end_offset(EPOCHS, 0))
        return Life(node, 0 if begin is None else begin.done)

    def new_store(self) -> Store | SpillingStore:
        """Half of them have room for hardly anything."""
        if self.side.random() < 0.5:
            return Store()
        self.spills += 1
        return SpillingStore(MemorySpill(), lambda: 1_000)

    def _last_reply(self, partition: int) -> tuple[int, int]:
        if self.draw.random() < 0.5:
            return 0, 0
        last = ((each.epoch, each.first + len(each.replies) - 1) for each in self.replies(partition))
        return max(last, default=(0, 0))

    def _write(self, life: Life) -> bool:
        ready = sorted(where for where, values in life.outbox.items() if values)
        if ready:
            where = self.draw.choice(ready)
            self.log.append(*where, [life.outbox[where].popleft()])
            if where[0] == COMMITS and where[1] in life.node.partitions:
                life.node.receive(e.CommitsLogged(where[1], self.log.end_offset(*where)))
        return bool(ready)

    def _read_epochs(self, life: Life, count: int) -> bool:
        chunk = self._chunk(EPOCHS, 0, life.node.ledger.position, count)
        if chunk.values:
            life.keep(life.node.step(e.EpochsRead(chunk.values, chunk.next_offset), self.now_ms))
        return bool(chunk.values)

    def _read_calls(self, life: Life, partition: int, count: int) -> bool:
        chunk = self._chunk(CALLS, partition, life.node.partitions[partition].position, count)
        if chunk.values:
            life.keep(life.node.step(e.CallsRead(partition, chunk.offsets.tolist(), chunk.values), self.now_ms))
        return bool(chunk.values)

    def _read_requests(self, life: Life, sequencer: int, count: int) -> bool:
        chunk = self._chunk(REQUESTS, sequencer, life.node.sequencers[sequencer].position, count)
        if not chunk.values:
            return False
        read = e.RequestsRead(sequencer, chunk.offsets.tolist(), chunk.values, chunk.next_offset)
        life.keep(life.node.step(read, self.now_ms))
        return True

    def whole_turn(self, life: Life, *, reads_calls: bool = True) -> bool:
        """All that this node can do; False if that is nothing."""
        before = life.node.ledger.done
        life.keep(life.node.step(e.Ticked(), self.now_ms))
        moved = self._read_epochs(life, 1 << 30)
        for partition in sorted(life.node.partitions) if reads_calls else ():
            moved |= self._read_calls(life, partition, 1 << 30)
        for sequencer in sorted(life.node.sequencers):
            moved |= self._read_requests(life, sequencer, 1 << 30)
        while self._write(life):
            moved = True
        waits = any(each.waiting for each in life.node.sequencers.values())
        waits |= any(each.is_sending for each in life.node.partitions.values())
        return moved or waits or life.node.ledger.done > before

    # --- afterwards -------------------------------------------------------------------------------------------------

    def replies(self, partition: int) -> list[Replies]:
        """All reply records of a partition, repeats included."""
        return [reply_message(value) for value in self.log.read(REPLIES, partition, 0, max_records=1 << 30).values]

    def epochs_topic(self) -> list[bytes]:
        return self.log.read(EPOCHS, 0, 0, max_records=1 << 30).values

    def request_values(self, sequencer: int) -> list[bytes]:
        return self.log.read(REQUESTS, sequencer, 0, max_records=1 << 30).values
