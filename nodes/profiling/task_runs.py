"""A job's partitions in one process, moved as a node moves them: records, deltas, windows, outputs, checkpoints."""

from __future__ import annotations

from holon.input_layout import InputLayout
from holon.job import Job
from holon.tracks.task import PartitionTask
from nodes.errors import RunFailed
from nodes.machine.broadcast.deltas_to_send import encoded
from nodes.profiling.records import ProfiledRecords
from wcrdt.replica.replica import Replica, SlotDelta

SAVED_EVERY = 10
"""Batches of a partition between its checkpoints: about as many as a busy node reads in a second."""


class TaskRuns:
    """``records`` once through a job, from nothing; ``outputs`` counts what came out, ``events`` what went in."""

    def __init__(self, job: Job, records: ProfiledRecords, batch: int) -> None:
        self.job, self.records, self.batch = job, records, batch
        self.outputs = self.events = 0

    def run(self) -> None:
        """Raises ``UserFunctionError`` where the job's function fails, ``RunFailed`` where it waits for ever."""
        job, layout = self.job, InputLayout(self.job.sources, self.records.partitions)
        count = layout.partitions
        self._replica = Replica(count, job.program.shapes(), job.allowed_lateness_ms)
        sizes = {name: output.partitions or count for name, output in job.outputs.items()}
        tasks = [
            PartitionTask(job, 0, number, count, self._replica, output_partitions=sizes, layout=layout)
            for number in range(count)
        ]
        batches = [0] * count
        for partition, run in self.records.runs(self.batch):
            task = tasks[partition]
            task.feed(run)
            self._settle(tasks)
            if task.waiting:
                raise RunFailed(
                    f"job {job.name!r} awaits a window at partition {partition} offset {task.next_offset}, which the "
                    f"other partitions' records of this profile do not complete; profile a job that awaits in "
                    f"on_window handlers, or data of one partition (--data)"
                )
            batches[partition] += 1
            if batches[partition] % SAVED_EVERY == 0:
                self.save(task)
        for task in tasks:
            task.end()
        self._settle(tasks)
        self.events = sum(task.counts.taken for task in tasks)

    def _settle(self, tasks: list[PartitionTask]) -> None:
        """Bring all as far as they go."""
        moved = True
        while moved:
            moved = False
            for task in tasks:
                moved |= task.advance()
                delta = task.take_delta()
                if delta is not None:
                    moved |= self.broadcast(delta, task.partition)
                for run in task.take_outputs().values():
                    self.outputs += len(run.values)

    def broadcast(self, delta: SlotDelta, partition: int) -> bool:
        """As bytes, and into the node's own replica; True if that moved."""
        encoded(0, delta, partition)
        return self._replica.receive(delta).advanced

    def save(self, task: PartitionTask) -> None:
        """A checkpoint as bytes; a store would take them."""
        task.snapshot().to_bytes()
