"""Run a job without any log and with virtual time: feed records, advance watermarks, see outputs."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np

from holon.columnar.record_parts import RecordParts
from holon.formats.formats import Format, WritableFormat, headers_requested_by
from holon.formats.input_run import Input
from holon.input_layout import InputLayout
from holon.job import DEAD, LATE, MAIN, Job, encode_json
from holon.outputs.deduplicator import Deduplicator
from holon.outputs.identity import OutputId
from holon.source import LIVE_MAX_FUTURE_SKEW_MS
from holon.tracks.admission import AdmissionCounts
from holon.tracks.snapshot import Snapshot
from holon.tracks.task import PartitionTask
from wcrdt.replica.replica import Punctuation, Replica

Partition = int | str | tuple[str, int]
"""The job's number, a topic (its first partition), or a topic and its partition."""


class _Fed(NamedTuple):
    payload: bytes
    stamp_ms: int
    identity: bytes
    key: bytes | None
    headers: dict[str, bytes]
    null: bool = False
    refused: str | None = None


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _named(headers: Mapping[str, str | bytes] | None) -> dict[str, bytes]:
    return {name: _bytes(value) or b"" for name, value in (headers or {}).items()}


def _parts(records: Sequence[_Fed], names: Sequence[str]) -> RecordParts:
    headers = {name: [fed.headers.get(name) for fed in records] for name in names}
    return RecordParts([fed.key for fed in records], headers, np.array([fed.null for fed in records], np.bool_))


class JobTestDriver:
    """All partitions of a job in one object; what one partition learns, all learn at once.

    >>> test = JobTestDriver(job, partitions=2)
    >>> test.feed(0, {"price": 5, "ts": 1_000})
    >>> test.finish()
    >>> test.outputs()

    Args: ``partitions`` of the input; of a job of several sources, those of each topic: a number for all, or a mapping.
    ``clock_ms`` is the log timestamp that fed records get; assign ``test.clock_ms`` to move it.
    ``live``: the skew guard of a job that follows its topic holds, as it does on nodes unless the input is bounded.
    """

    def __init__(
        self, job: Job[Any], partitions: int | Mapping[str, int] = 1, clock_ms: int = 0, *, live: bool = False
    ) -> None:
        self.job = job
        self.layout = _layout(job, partitions)
        partitions = self.layout.partitions
        self.live_guard_ms = LIVE_MAX_FUTURE_SKEW_MS if live else None
        self.clock_ms = clock_ms
        self.replica = Replica(partitions, job.program.shapes(), job.allowed_lateness_ms)
        self.tasks = [self.new_task(p, partitions) for p in range(partitions)]
        self._log: list[list[_Fed]] = [[] for _ in range(partitions)]
        self._saved = [task.snapshot().to_bytes() for task in self.tasks]
        self._requested_headers = [headers_requested_by(partition.source.format) for partition in self.layout]
        self._ended = False
        self._filter: dict[str, Deduplicator] = {}
        self._emitted: list[tuple[str, int, OutputId | None, bytes]] = []

    def new_task(self, partition: int, partitions: int) -> PartitionTask:
        sizes = {name: output.partitions or partitions for name, output in self.job.outputs.items()}
        return PartitionTask(
            self.job,
            0,
            partition,
            partitions,
            self.replica,
            output_partitions=sizes,
            upstream={},
            live_guard_ms=self.live_guard_ms,
            layout=self.layout,
        )

    # --- what happens to the job ----------------------------------------------------------------------------------

    def feed(
        self,
        partition: Partition,
        *records: Any,
        identity: OutputId | None = None,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        refused: str | None = None,
    ) -> None:
        """Append records to a partition: bytes as they are, anything else as JSON, or as the format writes it.

        In a job of several sources a partition is a topic, or a topic and its partition; the job's numbers count over
        all of its topics.
        A partition that awaits a window takes them once it goes on, as it would from the log. ``identity``: as which
        output of another job; of several records the ``n`` counts on from it. ``key`` and ``headers`` are those of
        each record, for events that declare them. ``refused``: why they are dead letters whatever their values are, as
        for nodes those are whose schema a registry lacks.
        """
        assert not self._ended, "fed after finish"
        number = self._number(partition)
        format = self.layout[number].source.format
        for n, record in enumerate(records):
            header = b"" if identity is None else identity._replace(n=identity.n + n).to_bytes()
            payload = payload_of(format, record)
            fed = _Fed(payload, self.clock_ms, header, _bytes(key), _named(headers), refused=refused)
            self._log[number].append(fed)
        self._settle()

    def feed_tombstone(
        self, partition: Partition, *, key: str | bytes | None, headers: Mapping[str, str | bytes] | None = None
    ) -> None:
        """Append a record without a value to a partition."""
        assert not self._ended, "fed after finish"
        self._log[self._number(partition)].append(_Fed(b"", self.clock_ms, b"", _bytes(key), _named(headers), True))
        self._settle()

    def advance_watermark(self, partition: Partition, ts_ms: int) -> None:
        """Move a partition's event time without a record, as a punctuation does for an idle one."""
        number = self._number(partition)
        task = self.tasks[number]
        assert not task.waiting, f"partition {partition} awaits a window inside of a record, so it is not idle"
        self.replica.punctuate(Punctuation(number, task.position, ts_ms))
        self._settle()

    def finish(self) -> None:
        """End all inputs; every window is answered."""
        self._ended = True
        self._settle()
        stuck = self.waiting()
        assert not stuck, f"partitions {stuck} still await a window after the end of the input"

    def checkpoint(self, partition: Partition) -> None:
        """Save the partition's state, as a node does now and then; it must not be ``waiting``."""
        number = self._number(partition)
        self._saved[number] = self.tasks[number].snapshot().to_bytes()

    def fail(self, partition: Partition) -> None:
        """Lose the partition's state and start again from its last checkpoint (at first: from nothing).

        Results are made again and dropped by their identities, so a test of the job sees no difference; if it does,
        something in the job is not declared state.
        """
        number = self._number(partition)
        self.tasks[number] = self.new_task(number, len(self.tasks))
        self.tasks[number].restore(Snapshot.from_bytes(self._saved[number]))
        self._settle()

    def _number(self, partition: Partition) -> int:
        if isinstance(partition, int):
            return partition
        topic, number = (partition, 0) if isinstance(partition, str) else partition
        found = self.layout.number_of(topic, number)
        assert found is not None, f"the job reads no partition {number} of {topic!r}, but {self.layout.topics}"
        return found

    # --- what can be seen -----------------------------------------------------------------------------------------

    @property
    def frontier_ms(self) -> int:
        """The minimum watermark over all partitions."""
        return self.replica.frontier_ms

    @property
    def counts(self) -> AdmissionCounts:
        """Sum over the partitions."""
        total = AdmissionCounts()
        for task in self.tasks:
            total = total.plus(task.counts)
        return total

    def waiting(self) -> list[int]:
        """Partitions whose ``process`` awaits a window."""
        return [task.partition for task in self.tasks if task.waiting]

    def outputs(self, output: str = MAIN) -> list[Any]:
        """Values emitted so far to one output, named as in the job or by its topic, in the order of emission.

        They are decoded from JSON. An output that the job lacks is a ``KeyError``.
        """
        return [msgspec.json.decode(value) for _, _, value in self.raw_outputs(output)]

    def late(self) -> list[Any]:
        """Records that no window took any more: offset, partition, reason, payload (base64)."""
        return self.outputs(LATE)

    def dead(self) -> list[Any]:
        """Records that could not be decoded or processed, as ``late``."""
        return self.outputs(DEAD)

    def warnings(self) -> list[str]:
        """The warnings that a node would log: event times that are probably in another unit than declared."""
        return [task.records.unusual_time for task in self.tasks if task.records.unusual_time]

    def raw_outputs(self, output: str = MAIN) -> list[tuple[int, OutputId | None, bytes]]:
        """(output partition, identity, bytes) of what was emitted so far."""
        wanted = self._output(output)
        return [(partition, identity, value) for name, partition, identity, value in self._emitted if name == wanted]

    def take_emitted(self) -> list[tuple[str, int, OutputId | None, bytes]]:
        """(output, output partition, identity, bytes) of what was emitted since the last call, on all outputs."""
        taken, self._emitted = self._emitted, []
        return taken

    def _output(self, name: str) -> str:
        outputs = self.job.outputs
        if name in outputs or name in (MAIN, LATE, DEAD):
            return name
        for known, output in outputs.items():
            if output.topic == name:
                return known
        raise KeyError(f"job {self.job.name!r} has no output {name!r}; it has {', '.join(outputs)}")

    # --- bringing everything as far as it goes --------------------------------------------------------------------

    def _settle(self) -> None:
        moved = True
        while moved:
            moved = False
            for task in self.tasks:
                moved |= self._read(task)
                moved |= task.advance()
                delta = task.take_delta()
                if delta is not None:
                    moved |= self.replica.receive(delta).advanced
        for task in self.tasks:
            self._collect(task)

    def _read(self, task: PartitionTask) -> bool:
        """Give the task what it has not seen of its partition; True if there was something."""
        if task.waiting or task.records.ended:
            return False
        start, stop = task.next_offset, len(self._log[task.partition])
        punctuations = self.replica.slots[task.partition].punctuations[task.punctuations :]
        if punctuations:
            stop = punctuations[0].after[0]
            if punctuations[0].after == task.position:
                task.punctuate(punctuations[0].watermark_ms)
                return True
        fresh = self._log[task.partition][start:stop]
        if fresh:
            offsets = np.arange(start, start + len(fresh), dtype=np.int64)
            stamps = np.array([fed.stamp_ms for fed in fresh], dtype=np.int64)
            identities = [fed.identity for fed in fresh]
            payloads = [fed.payload for fed in fresh]
            requested = self._requested_headers[task.partition]
            parts = None if requested is None else _parts(fresh, requested)
            headers = identities if any(identities) else None
            refused = {start + n: fed.refused for n, fed in enumerate(fresh) if fed.refused is not None} or None
            task.feed(Input(offsets, stamps, payloads, start + len(fresh), headers, parts=parts, refused=refused))
        elif self._ended:
            task.end()
        return bool(fresh) or self._ended

    def _collect(self, task: PartitionTask) -> None:
        for (output, partition), run in task.take_outputs().items():
            repeats = self._filter.setdefault(output, Deduplicator())
            for header, value in zip(run.headers, run.values, strict=True):
                identity = OutputId.from_bytes(header) if header else None
                if identity is None or repeats.is_new(partition, identity):
                    self._emitted.append((output, partition, identity, value))


@lru_cache(64)
def _is_writable(kind: type[Format[Any]]) -> bool:
    return issubclass(kind, WritableFormat)  # a protocol, which takes long to ask


def payload_of(format: Format[Any], record: Any) -> bytes:
    """A record's value: bytes as they are, anything else as the format writes it, which is JSON of most formats."""
    if not isinstance(record, bytes) and _is_writable(type(format)):
        return cast(WritableFormat, format).record_of(record)
    return encode_json(record)


def _layout(job: Job[Any], partitions: int | Mapping[str, int]) -> InputLayout:
    if isinstance(partitions, int):
        return InputLayout(job.sources, [partitions] * len(job.sources))
    _check_topics(job, partitions)
    return InputLayout(job.sources, [partitions.get(topic, 1) for topic in job.topics])


def _check_topics(job: Job[Any], topics: Collection[str]) -> None:
    unknown = sorted(set(topics) - set(job.topics))
    assert not unknown, f"job {job.name!r} does not read {', '.join(unknown)}; it reads {', '.join(job.topics)}"


def run_job(
    job: Job[Any], inputs: Sequence[Sequence[Any]] | Mapping[str, Sequence[Any]], *, stacklevel: int = 1
) -> list[Any]:
    """Run a job over bounded inputs, and give all results of the main output.

    ``inputs``: a sequence a partition, of a job with one source; or one a topic, each of one partition. A Python
    warning tells of dead letters and late records, which the results lack; ``stacklevel`` is that of ``warnings.warn``.
    """
    test = _ran(job, inputs)
    for what, letters in (("dead", test.dead()), ("late", test.late())):
        if letters:
            warnings.warn(f"job {job.name!r}: {_lacking(what, letters)}", stacklevel=stacklevel + 1)
    return test.outputs()


def _lacking(what: str, letters: Sequence[Mapping[str, Any]]) -> str:
    first, rows = letters[0], sum("window" in letter for letter in letters)
    records = len(letters) - rows
    counted = [
        f"{number} {what} {name}{'s' * (number > 1)}" for number, name in ((records, "record"), (rows, "row")) if number
    ]
    where = f"window {first['window']} in {first['step']}" if "window" in first else f"offset {first['offset']}"
    reason, partition = first["reason"].partition("\n")[0], f"{first['topic']}[{first['partition']}]"
    return f"{' and '.join(counted)}, which the results lack; the first one is {where} of {partition}: {reason}"


def _ran(job: Job[Any], inputs: Sequence[Sequence[Any]] | Mapping[str, Sequence[Any]]) -> JobTestDriver:
    if isinstance(inputs, Mapping):
        test = JobTestDriver(job)
        _check_topics(job, inputs)
        for topic in job.topics:
            test.feed(topic, *inputs.get(topic, ()))
        test.finish()
        return test
    assert len(job.sources) == 1, f"job {job.name!r} reads {', '.join(job.topics)}: give the records of each topic"
    test = JobTestDriver(job, partitions=len(inputs))
    for partition, records in enumerate(inputs):
        test.feed(partition, *records)
    test.finish()
    return test
