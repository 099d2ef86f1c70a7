"""Nodes of a transactional program on a log in memory, that take turns while somebody waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import replace
from random import Random
from typing import Any, TypeAlias

from nodes.checkpoints.saver import DirectSaver, Saver
from nodes.log.contract import Log
from nodes.log.memory import MemoryLog
from nodes.sim.store import MemoryCheckpoints
from nodes.transactions.bound_streams import Feeding
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.composition import NodeOptions, NodeSurroundings, composed
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.job_start import begin
from nodes.transactions.steps import Clocks, TransactionJob
from nodes.transactions.topics import create_topics
from transactional import Context, Operator, Program
from transactional.epochs.sequencer import EpochConfig
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store

SEQUENCERS = 2
NewStore: TypeAlias = Callable[[], Store | SpillingStore]


def counters(name: str, partitions: int, operators: Collection[str] = ("count",)) -> Program:
    """Operators of which each partition has some keys: ``add`` gives what a count amounts to then."""

    async def add(ctx: Context, amount: int) -> int:
        ctx.put(ctx.get(0) + amount)
        return ctx.get(0)

    upgrade = lambda value, before: value[0] if before == 2 else value  # noqa: E731
    return Program(name, [_adding(each, partitions, upgrade, add) for each in operators])


def counters_v2(name: str, partitions: int, operators: Collection[str] = ("count",)) -> Program:
    """The same answers from other values: a count is in a list."""

    async def add(ctx: Context, amount: int) -> int:
        ctx.put([ctx.get([0])[0] + amount])
        return ctx.get()[0]

    upgrade = lambda value, before: [value] if before == 1 else value  # noqa: E731
    return Program(name, [_adding(each, partitions, upgrade, add) for each in operators], version=2)


def _adding(name: str, partitions: int, upgrade: Callable[[Any, int], Any], add: Callable[..., Any]) -> Operator:
    made = Operator(name, partitions=partitions, upgrade=upgrade)
    made.register(add)
    return made


class SlowSaver:
    """A ``Saver`` that works beside its node: one save after the other, each of which takes ``delay_ms()``."""

    def __init__(self, now_ms: Callable[[], int], delay_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._delay_ms = delay_ms
        self._waiting: deque[tuple[int, Callable[[], Any]]] = deque()
        self._done: list[Any] = []

    def save(self, work: Callable[[], Any]) -> None:
        begins = max(self._now_ms(), self._waiting[-1][0] if self._waiting else 0)
        self._waiting.append((begins + self._delay_ms(), work))

    def go_on(self) -> int:
        """Do what is due by now, also for a node that stands still; gives how much that was."""
        did = 0
        while self._waiting and self._waiting[0][0] <= self._now_ms():
            self._done.append(self._waiting.popleft()[1]())
            did += 1
        return did

    def finished(self) -> list[Any]:
        done, self._done = self._done, []
        return [each for each in done if each is not None]


class Stage:
    """``inputs``: partitions of the topic of that name, 0: there is none. ``trim_ms``: between trims, 0: never.

    ``new_trimmer``: what deletes, of each node. ``new_key``: as of ``begin``; None: a secret of its own.
    ``skipped_s``: time that has passed besides for clients and what feeds.
    """

    replicas = 1
    handover_timeout_ms = 8_000

    def __init__(
        self,
        program: Program,
        *,
        inputs: int = 0,
        interval_ms: int = 10_000,
        new_store: NewStore = Store,
        trim_ms: int = 0,
        id_window: int = 20_000,
        new_log: Callable[..., MemoryLog] = MemoryLog,
        new_trimmer: Callable[[], Saver[int]] = DirectSaver,
        new_key: Callable[[int], bytes] | None = bytes,
    ) -> None:
        self.new_trimmer = new_trimmer
        self.skipped_s = 0.0
        self.trim_ms = trim_ms
        self.interval_ms = interval_ms
        self.new_store = new_store
        self.now_ms = 0
        self.program = program
        self.log = new_log(on_wait=lambda seconds: self.turn())
        if inputs:
            self.log.create_topic("inputs", inputs)
        self.topics = create_topics(self.log, program, SEQUENCERS)
        drawn = {} if new_key is None else {"new_key": new_key}
        key = begin(self.log, self.topics, program, SEQUENCERS, **drawn)
        inline_bytes = 0 if trim_ms else 1 << 15  # calls are trimmed too
        self.config = EpochConfig(id_window=id_window, inline_bytes=inline_bytes, answer_key=key)
        self.client = TransactionClient(self.log, clock_s=self.clock_s)
        self.client.ids.draw = Random(0).randbytes
        self.store = MemoryCheckpoints()
        self.nodes: dict[str, tuple[TransactionDriver, Feeding]] = {}

    def clock_s(self) -> float:
        """The simulated time of clients, commands and feeds."""
        return self.now_ms / 1000 + self.skipped_s

    def new_saver(self, what: str) -> Saver[Any]:
        """The worker beside a node's loop, by what it does."""
        return self.new_trimmer() if what == "trimmer" else DirectSaver()

    def more(self, name: str) -> dict[str, Any]:
        """The surroundings of this node that are special, by field."""
        return {}

    def log_of(self, name: str) -> Log:
        """The log as this node meets it."""
        return self.log

    def new_store_of(self, name: str) -> NewStore:
        """By which this node makes the state of its partitions."""
        return self.new_store

    def start(self, name: str) -> TransactionDriver:
        log = self.log_of(name)
        clocks = Clocks(lambda: self.now_ms, lambda: 1_000_000 + self.now_ms)
        options = NodeOptions(
            name,
            checkpoint_interval_ms=self.interval_ms,
            trim_interval_ms=self.trim_ms,
            replicas=self.replicas,
            handover_timeout_ms=self.handover_timeout_ms,
        )
        around = replace(NodeSurroundings(log, self.store, clocks, new_saver=self.new_saver), **self.more(name))
        known = None if around.programs is None else around.programs.known
        job = TransactionJob(self.program, self.topics, SEQUENCERS, self.config, self.new_store_of(name), known)
        driver = composed(job, options, around)
        self.nodes[name] = driver, Feeding(log, self.program, SEQUENCERS, self.clock_s)
        return driver

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.now_ms += 5
            for _, (driver, feeding) in sorted(self.nodes.items()):
                driver.turn()
                feeding.turn(driver.node.sequencers)

    def call(self, operator: str, key: str, function: str, args: Any = None, request_id: str | None = None) -> Any:
        return self.client.try_call(operator, key, function, args, request_id=request_id, timeout_s=60)
