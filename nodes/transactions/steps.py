"""The state machine of a transactional node on its log: what a step makes is sent, one batch for each partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from nodes.log.contract import Log
from nodes.transactions.checkpoints.checkpointing import TransactionCheckpoints
from nodes.transactions.checkpoints.commit_buffer import CommitBuffer
from nodes.transactions.topics import TransactionTopics
from transactional import events as e
from transactional.epochs.appends import Append, AppendCalls, AppendCommit, AppendEpochs
from transactional.epochs.sequencer import EpochConfig
from transactional.execution.crashing import Apart, Trying
from transactional.node import TransactionNode
from transactional.operators import Program
from transactional.program_versions import KnownPrograms
from transactional.sampled_cpu import SampledCpu
from transactional.state.snapshots import LedgerState
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store
from transactional.tally import TransactionTally


@dataclass(frozen=True, slots=True)
class TransactionJob:
    """The job as its nodes know it. ``new_store`` makes the empty state of a partition.

    ``programs``: also other versions of the program, None: there are no others.
    """

    program: Program
    topics: TransactionTopics
    sequencers: int
    config: EpochConfig
    new_store: Callable[[], Store | SpillingStore] = Store
    programs: KnownPrograms | None = None

    @property
    def units(self) -> int:
        """Those that the job begins with: request partitions first, then state partitions."""
        return self.sequencers + self.program.partitions


@dataclass(frozen=True, slots=True)
class Clocks:
    """``running_ms`` only has to run; ``wall_ms`` is since 1970, and what ``ctx.now`` comes from.

    ``cpu_ns``: CPU time of the loop's thread, None: CPU of partitions is not measured, as in simulations.
    """

    running_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    cpu_ns: Callable[[], int] | None = None


class Steps:
    """Of one node. ``begun``: up to this epoch it knows nothing. ``name``: of this incarnation of the node."""

    def __init__(
        self,
        job: TransactionJob,
        log: Log,
        clocks: Clocks,
        checkpoints: TransactionCheckpoints,
        name: str,
        apart: Apart | None = None,
    ) -> None:
        self.begun = 0
        self.tally = TransactionTally()
        self.commits = CommitBuffer()
        self.cpu = None if clocks.cpu_ns is None else SampledCpu(clocks.cpu_ns)
        self._job = job
        self._log = log
        self._clocks = clocks
        self._checkpoints = checkpoints
        self._trying = Trying(name, apart)
        self.node = TransactionNode(
            job.program, job.sequencers, job.config, new_store=job.new_store, tally=self.tally, cpu=self.cpu
        )

    def begin(self, begin: LedgerState | None) -> None:
        """A node that works on nothing yet, with a ledger that begins there; None: at the start of everything."""
        job, end = self._job, self._log.end_offset(self._job.topics.epochs, 0)
        self.begun = 0 if begin is None else begin.done
        given = job.programs or job.program, job.sequencers, job.config, begin, job.new_store, self.tally
        self.node = TransactionNode(*given, self._trying, end, self.cpu)

    def receive(self, event: e.Event) -> None:
        """Take in an event; its effects come with the next step."""
        self.node.receive(event)

    def step(self, event: e.Event) -> bool:
        """Step the node and send what follows; False if nothing does."""
        appends = self.node.step(event, self._clocks.wall_ms())
        batches: dict[tuple[str, int], list[bytes]] = {}
        for append in appends:
            batches.setdefault(self._place(append), []).append(append.value)
        topics = self._job.topics
        for (topic, partition), values in batches.items():
            if topic == topics.replies:
                self._log.send(topic, partition, values, done=self._checkpoints.replies_sent(partition))
            elif topic == topics.commits:
                self.commits.add(partition, values, self._clocks.running_ms())
            else:
                self._log.send(topic, partition, values)
        return bool(appends)

    def send_commits(self, by_partition: Mapping[int, list[bytes]]) -> None:
        """Commits that were held back."""
        for partition, values in by_partition.items():
            self._log.send(self._job.topics.commits, partition, values, done=partial(self._logged, partition))

    def _logged(self, partition: int, end: int) -> None:
        self.receive(e.CommitsLogged(partition, end))

    def _place(self, append: Append) -> tuple[str, int]:
        topics = self._job.topics
        match append:
            case AppendEpochs():
                return topics.epochs, 0
            case AppendCalls(partition):
                return topics.calls, partition
            case AppendCommit(partition):
                return topics.commits, partition
            case _:
                return topics.replies, append.partition
