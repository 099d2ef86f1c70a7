"""A node of a fleet in virtual time, in a process of its own: what a turn costs is what it costs a node, heap included.

    python deploy/bench/transactions/node.py NUMBER NODES

Started by ``transactions/fleet.py``, which sends it what has come to the log, and when, and gets what a turn has sent.
"""

from __future__ import annotations

import gc
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

from nodes.checkpoints.saver import Saver
from nodes.log.memory import MemoryLog
from nodes.sim.store import MemoryCheckpoints
from nodes.transactions.composition import NodeOptions, NodeSurroundings, composed
from nodes.transactions.job_start import begin
from nodes.transactions.process import GC_THRESHOLDS
from nodes.transactions.steps import Clocks, TransactionJob
from nodes.transactions.topics import TransactionTopics, create_topics
from transactional.epochs.sequencer import EpochConfig
from transactional.operators import Operator, Program
from transactional.workloads import ycsb_t

T = TypeVar("T")
MS = 1000.0
_SIZE = struct.Struct("<I")
Sent = tuple[str, int, list[bytes], int]
"""Topic, partition, values, and how the sender calls it (``CALLED_NOTHING``: not at all)."""
CALLED_NOTHING = -1


class Turn(msgspec.Struct, array_like=True):
    """Have a turn at this time; ``come``: what was appended to the log since the last one."""

    now_us: float
    come: list[Sent]


class Turned(msgspec.Struct, array_like=True):
    """``spent_us``: of the loop; ``beside_us``: of the threads that save and merge. ``left``: more is there to read."""

    spent_us: float
    beside_us: float
    sent: list[Sent]
    waits: list[tuple[str, int]]
    left: bool
    joined: bool
    sequencers: list[int]
    partitions: list[int]
    reruns: int
    epochs: int


def write_frame(stream: BinaryIO, message: Turn | Turned) -> None:
    """One message, behind its size."""
    data = msgspec.msgpack.encode(message)
    stream.write(_SIZE.pack(len(data)) + data)
    stream.flush()


def read_frame(stream: BinaryIO, kind: type[T]) -> T | None:
    """The next one; None: the other side has gone."""
    head = stream.read(_SIZE.size)
    return None if len(head) < _SIZE.size else msgspec.msgpack.decode(stream.read(_SIZE.unpack(head)[0]), type=kind)


def program_of(partitions: int) -> Program:
    """YCSB-T with another number of partitions: the functions are the same."""
    account = Operator("account", partitions=partitions)

    @account.register
    async def insert(ctx: Any) -> None:
        ctx.put(ycsb_t.INITIAL_BALANCE)

    @account.register
    async def read(ctx: Any) -> int:
        return ctx.get(0)

    @account.register
    async def add(ctx: Any, amount: int) -> None:
        ctx.put(ctx.get(0) + amount)

    @account.register
    async def transfer(ctx: Any, to: str, amount: int) -> int:
        balance = ctx.get(0) - amount
        if balance < 0:
            raise ycsb_t.NotEnough(ctx.key)
        ctx.put(balance)
        ctx.call_async(account, to, add, [amount])
        return balance

    return Program("ycsb-t", [account], errors=[ycsb_t.NotEnough])


class Beside(Generic[T]):
    """A saver whose work is done between two turns, as a thread does it on a core that is free."""

    def __init__(self) -> None:
        self._work: list[Callable[[], T | None]] = []
        self._results: list[T] = []

    def save(self, work: Callable[[], T | None]) -> T | None:
        """It is done later."""
        self._work.append(work)
        return None

    def finished(self) -> list[T]:
        """The work done since the last call."""
        results, self._results = self._results, []
        return results

    def run(self) -> None:
        """Do all that was wished for."""
        works, self._work = self._work, []
        self._results += [result for work in works if (result := work()) is not None]


class OutboxLog(MemoryLog):
    """All that has come to the log so far; what is sent waits in ``outbox``."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        super().__init__(clock_ms=clock_ms)
        self.outbox: list[Sent] = []
        self._done: dict[int, Callable[[int], None]] = {}
        self._count = 0

    def send(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> None:
        name, done = CALLED_NOTHING, more.get("done")
        if done is not None:
            self._count += 1
            name = self._count
            self._done[name] = done
        self.outbox.append((topic, partition, list(values), name))

    def come(self, topic: str, partition: int, values: Sequence[bytes], name: int) -> None:
        """It is on the log now."""
        appended = self.append(topic, partition, values)
        if name != CALLED_NOTHING:
            self._done.pop(name)(appended.first_offset + appended.count)


class SimulatedNode:
    """A real driver on the records that it gets of the log."""

    def __init__(self, number: int, nodes: int) -> None:
        self.now_us = 0.0
        self.log = OutboxLog(self.now_ms)
        program = program_of(nodes)
        self.topics: TransactionTopics = create_topics(self.log, program, nodes)
        begin(self.log, self.topics, program, nodes)
        name = f"n{number:03}"
        self._beside: dict[str, Beside[Any]] = {}
        options = NodeOptions(
            name, number, failure_timeout_ms=100_000, checkpoint_interval_ms=1_000, groups=(nodes, nodes)
        )
        around = NodeSurroundings(
            self.log, MemoryCheckpoints(), Clocks(self.now_ms, self.now_ms), new_saver=self._new_saver
        )
        self.driver = composed(TransactionJob(program, self.topics, nodes, EpochConfig()), options, around)
        self._waits = self.driver.waits_for()

    def _new_saver(self, what: str) -> Saver[Any]:
        self._beside[what] = Beside[Any]()
        return self._beside[what]

    def now_ms(self) -> int:
        """Virtual."""
        return int(self.now_us / MS)

    def turn(self, message: Turn) -> Turned:
        """As a node's loop: where something has come, and the time."""
        self.now_us = message.now_us
        for each in message.come:
            self.log.come(*each)
        log, driver = self.log, self.driver
        ready = {where for where, offset in self._waits.items() if log.end_offset(*where) > offset}
        began = time.thread_time_ns()
        driver.turn(ready)
        self._waits = driver.waits_for()
        spent = time.thread_time_ns()
        for each in self._beside.values():
            each.run()
        sent, log.outbox = log.outbox, []
        return Turned(
            spent_us=(spent - began) / 1e3,
            beside_us=(time.thread_time_ns() - spent) / 1e3,
            sent=sent,
            waits=[(where.topic, where.partition) for where in self._waits],
            left=any(log.end_offset(*where) > offset for where, offset in self._waits.items()),
            joined=driver.claiming.joined,
            sequencers=sorted(driver.node.sequencers),
            partitions=sorted(driver.node.partitions),
            reruns=driver.steps.tally.rerun,
            epochs=driver.node.ledger.done,
        )


def main() -> None:
    node = SimulatedNode(int(sys.argv[1]), int(sys.argv[2]))
    gc.collect()
    gc.freeze()  # as nodes do
    gc.set_threshold(*GC_THRESHOLDS)
    while (message := read_frame(sys.stdin.buffer, Turn)) is not None:
        write_frame(sys.stdout.buffer, node.turn(message))


if __name__ == "__main__":
    main()
