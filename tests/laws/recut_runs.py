"""Runs of a job whose every accident is drawn: the cuts, who is first, when deltas arrive, what crashes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from holon import Deduplicator, Job
from holon.formats.input_run import Input
from holon.input_layout import InputLayout
from holon.outputs.identity import OutputId
from holon.tracks.parts import rests_on, snapshot_of
from holon.tracks.snapshot import Snapshot
from holon.tracks.task import PartitionTask
from nodes.machine.checkpoints.parts import CheckpointParts
from nodes.machine.config import PartsConfig
from wcrdt import canonical_bytes
from wcrdt.replica.replica import Replica, SlotDelta

Results = dict[tuple[int, str, int, int], list[tuple[OutputId, bytes]]]
"""By (source partition, output, output partition, track), without repeats. How tracks alternate is an accident."""


@dataclass
class Outcome:
    """Everything that must not depend on accidents."""

    results: Results
    counts: list[tuple[int, int, int, int]]
    snapshots: list[bytes]
    windows: dict[Any, bytes] = field(default_factory=dict)


class Run:
    """One run; ``rng`` decides every accident. ``gaps`` spreads the offsets; ``headers`` are those of the inputs.

    ``topic_partitions``: those of each topic, where the job reads several.
    """

    def __init__(
        self,
        job: Job[Any],
        inputs: list[list[bytes]],
        rng: random.Random,
        gaps: bool = False,
        headers: list[list[bytes]] | None = None,
        topic_partitions: tuple[int, ...] = (),
    ) -> None:
        self.job = job
        self.layout = InputLayout(job.sources, topic_partitions or [len(inputs)])
        self.headers = headers
        self.inputs = inputs
        self.rng = rng
        self.replica = Replica(len(inputs), job.program.shapes(), job.allowed_lateness_ms)
        self.tasks = [self.fresh(p) for p in range(len(inputs))]
        self.saved = [task.snapshot().to_bytes() for task in self.tasks]
        self.offsets = [[3 * i + i % 2 if gaps else i for i in range(len(payloads))] for payloads in inputs]
        self.results: Results = {}
        self.filters: dict[tuple[str, int], Deduplicator] = {}
        self.seen_final: dict[Any, bytes] = {}
        self.seen_changes = -1

    def fresh(self, partition: int) -> PartitionTask:
        sizes = {name: output.partitions or len(self.inputs) for name, output in self.job.outputs.items()}
        return PartitionTask(
            self.job, 7, partition, len(self.inputs), self.replica, output_partitions=sizes, upstream={},
            layout=self.layout,
        )  # fmt: skip

    def run(self, largest: int, crash: float = 0.0) -> Outcome:
        """Until every window is answered, cutting batches of up to ``largest`` records."""
        while not all(task.done for task in self.tasks):
            partition = self.rng.randrange(len(self.tasks))
            if self.rng.random() < crash:
                self.crash(partition)
            task = self.tasks[partition]
            self.feed(task, self.rng.randint(1, largest))
            if self.rng.random() < 0.6:
                task.advance()
            if self.rng.random() < 0.6:
                self.publish(task)
            self.collect(task)
            if self.replica.changes != self.seen_changes:
                self.seen_changes = self.replica.changes
                self.check_final_values()
            if crash and not task.waiting and self.rng.random() < 0.3:
                self.save(task)
        self.check_final_values()  # also what changed without the replica's knowledge
        snapshots = [task.snapshot().to_bytes() for task in self.tasks]
        counts = [(c.accepted, c.filtered, c.late, c.dead) for c in (task.counts for task in self.tasks)]
        return Outcome(self.results, counts, snapshots, self.seen_final)

    def feed(self, task: PartitionTask, count: int) -> None:
        if task.waiting or task.records.ended:
            return
        payloads, offsets = self.inputs[task.partition], self.offsets[task.partition]
        at = int(np.searchsorted(offsets, task.next_offset))
        if at == len(payloads):
            task.end()
            return
        part = slice(at, at + count)
        after = offsets[at + count] if at + count < len(offsets) else offsets[-1] + 5
        next_offset = self.rng.randint(offsets[part][-1] + 1, after)
        stamps = np.zeros(len(payloads[part]), dtype=np.int64)
        headers = None if self.headers is None else self.headers[task.partition][part]
        task.feed(Input(np.array(offsets[part], dtype=np.int64), stamps, payloads[part], next_offset, headers))

    def publish(self, task: PartitionTask) -> None:
        delta = task.take_delta()
        if delta is not None:
            assert not self.replica.receive(over_the_wire(delta)).gap

    def crash(self, partition: int) -> None:
        """Lose a task; its successor starts from the last checkpoint and tells the others where that is."""
        self.tasks[partition] = self.fresh(partition)
        self.tasks[partition].restore(self.load(partition))
        self.replica.receive(over_the_wire(self.tasks[partition].full_delta()))

    def save(self, task: PartitionTask) -> None:
        self.saved[task.partition] = task.snapshot().to_bytes()

    def load(self, partition: int) -> Snapshot:
        return Snapshot.from_bytes(self.saved[partition])

    def collect(self, task: PartitionTask) -> None:
        for (output, to), run in task.take_outputs().items():
            repeats = self.filters.setdefault((output, task.partition), Deduplicator())
            for header, value in zip(run.headers, run.values, strict=True):
                identity = OutputId.from_bytes(header)
                if repeats.is_new(to, identity):
                    self.results.setdefault((task.partition, output, to, int(identity.track)), []).append(
                        (identity, value)
                    )

    def check_final_values(self) -> None:
        """A value that could be read once never changes again."""
        for state in self.job.program.shapes():
            for window in set(self.replica.windows(state)):
                if self.replica.is_complete(state, window):
                    value = canonical_bytes(self.replica.current_value(state, window))
                    assert self.seen_final.setdefault((state, window), value) == value, (state, window)


class RunWithParts(Run):
    """Checkpoints hold what has changed; up to ``most`` in a row."""

    def __init__(self, *args: Any, most: int, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.config = PartsConfig(0, most, 1e9, 1e9, 0)
        self.chains = [self.chain() for _ in self.tasks]
        self.files: dict[str, bytes] = {}
        self.newest = [""] * len(self.tasks)
        self.deepest = 0

    def chain(self) -> CheckpointParts:
        made = CheckpointParts(self.config)
        made.restored(1)
        return made

    def save(self, task: PartitionTask) -> None:
        self.publish(task)
        chain = self.chains[task.partition]
        begun = chain.begin(task)
        data = chain.encoded(begun, begun.snapshot)
        assert rests_on(data) == begun.rests_on
        self.deepest = max(self.deepest, len(begun.rests_on))
        name = f"file {len(self.files)}"
        self.files[name] = data
        self.newest[task.partition] = name
        chain.stored(begun, name, task)

    def load(self, partition: int) -> Snapshot:
        self.chains[partition] = self.chain()
        if not self.newest[partition]:
            return super().load(partition)
        data = self.files[self.newest[partition]]
        return snapshot_of(data, [self.files[name] for name in rests_on(data)])


def over_the_wire(delta: SlotDelta) -> SlotDelta:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(delta), type=SlotDelta)


def record_by_record(job: Job[Any], inputs: list[list[bytes]], headers: list[list[bytes]] | None = None) -> Outcome:
    """The run that every other run is compared with."""
    return Run(job, inputs, random.Random(0), headers=headers).run(largest=1)
