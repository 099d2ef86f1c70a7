"""Run a job without any log and with virtual time: feed records, advance watermarks, see outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from holon.admit import Counts
from holon.identity import OutputId
from holon.job import MAIN, Job, encode_json
from holon.record_track import Input
from holon.task import PartitionTask
from wcrdt.replica import Replica


class JobTest:
    """All partitions of a job in one object; what one partition learns, all learn at once.

    >>> test = JobTest(job, partitions=2)
    >>> test.feed(0, {"price": 5, "ts": 1_000})
    >>> test.finish()
    >>> test.outputs()

    Args: ``clock_ms`` is the log timestamp that fed records get; assign ``test.clock_ms`` to move it.
    """

    def __init__(self, job: Job, partitions: int = 1, clock_ms: int = 0) -> None:
        self.job = job
        self.clock_ms = clock_ms
        self.replica = Replica(partitions, job.program.shapes(), job.allowed_lateness_ms)
        sizes = {name: output.partitions or partitions for name, output in job.outputs.items()}
        self.tasks = [
            PartitionTask(job, 0, p, partitions, self.replica, output_partitions=sizes) for p in range(partitions)
        ]
        self._emitted: list[tuple[str, int, OutputId | None, bytes]] = []

    def feed(self, partition: int, *records: Any) -> None:
        """Append records to a partition: bytes as they are, anything else as JSON."""
        task = self.tasks[partition]
        payloads = [encode_json(record) for record in records]
        start = task.next_offset
        assert not task.waiting, f"partition {partition} awaits a window; feed the partitions that it waits for"
        offsets = np.arange(start, start + len(payloads), dtype=np.int64)
        stamps = np.full(len(payloads), self.clock_ms, dtype=np.int64)
        task.feed(Input(offsets, stamps, payloads, start + len(payloads)))
        self._settle()

    def advance_watermark(self, partition: int, ts_ms: int) -> None:
        """Move a partition's event time without a record, as a punctuation does for an idle one."""
        self.tasks[partition].punctuate(ts_ms)
        self._settle()

    def finish(self) -> None:
        """End all inputs; every window is answered."""
        for task in self.tasks:
            task.end()
        self._settle()

    @property
    def frontier_ms(self) -> int:
        """The minimum watermark over all partitions."""
        return self.replica.frontier_ms

    @property
    def counts(self) -> Counts:
        """Sum over the partitions."""
        total = Counts()
        for task in self.tasks:
            for name in total.__struct_fields__:
                setattr(total, name, getattr(total, name) + getattr(task.counts, name))
        return total

    def waiting(self) -> list[int]:
        """Partitions whose ``process`` awaits a window."""
        return [task.partition for task in self.tasks if task.waiting]

    def outputs(self, output: str = MAIN) -> list[Any]:
        """Values emitted so far to one output, decoded from JSON, in the order of emission."""
        return [msgspec.json.decode(value) for name, _, _, value in self._emitted if name == output]

    def raw_outputs(self, output: str = MAIN) -> list[tuple[int, OutputId | None, bytes]]:
        """(output partition, identity, bytes) of what was emitted so far."""
        return [(partition, identity, value) for name, partition, identity, value in self._emitted if name == output]

    def _settle(self) -> None:
        moved = True
        while moved:
            moved = False
            for task in self.tasks:
                moved |= task.advance()
                delta = task.take_delta()
                if delta is not None:
                    self.replica.receive(delta)
                    moved = True
        for task in self.tasks:
            self._collect(task.take_outputs())

    def _collect(self, taken: dict[tuple[str, int], Any]) -> None:
        for (output, partition), run in taken.items():
            for header, value in zip(run.headers, run.values, strict=True):
                identity = OutputId.from_bytes(header) if header else None
                self._emitted.append((output, partition, identity, value))


def run_job(job: Job, inputs: Sequence[Sequence[Any]]) -> list[Any]:
    """Run a job over bounded inputs, one sequence a partition, and give all results of the main output."""
    test = JobTest(job, partitions=len(inputs))
    for partition, records in enumerate(inputs):
        test.feed(partition, *records)
    test.finish()
    return test.outputs()
