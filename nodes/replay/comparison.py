"""Does a job give the same twice? Two replays of the beginning of its input, which differ in what must not matter.

The second process has another seed of Python's hashes and another time zone, runs later and draws other random numbers.
It loses each partition's state now and then, and continues from a checkpoint. The outputs and states of a job from the
same records must be byte for byte the same: takeovers, duplicates and standbys depend on it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import repeat, zip_longest
from pathlib import Path
from typing import Any

import msgspec

from holon.columnar.record_parts import RecordParts
from holon.errors import UpstreamReset
from holon.input_layout import InputLayout
from holon.job import Job
from holon.tracks.upstream_duplicates import Duplicates
from nodes.errors import RunFailed
from nodes.log.contract import Log
from nodes.machine import messages as m
from nodes.python_process import child_environment, module_command
from nodes.replay.child import FedRecord, ReplayInput, ReplayStep
from nodes.schema_registry.commands import SchemasOfRegistries
from nodes.streams.control_history import JobControlHistory
from nodes.streams.judged_schemas import JudgedSchemas
from nodes.streams.upstream import upstream_incarnations

WAYS = ({"PYTHONHASHSEED": "1", "TZ": "UTC"}, {"PYTHONHASHSEED": "2", "TZ": "Asia/Kathmandu"})
SHOWN = 300


class Divergence(msgspec.Struct):
    """Where two replays part: at this record (None: at the end of the input), and in what.

    Partitions are numbered as the job does: over all of its topics.
    """

    partition: int | None
    offset: int | None
    what: str
    first: str
    second: str


class Replayed(msgspec.Struct):
    """``error``: the job's function failed at the same record in both replays, which ended there.

    ``duplicates``: outputs of other jobs that are in the input again, and were passed over. ``dead_by_schema`` and
    ``undecided_schemas``: records that nodes have set aside for their schema, and those whose schema the registry lacks
    and that nodes have not judged.
    """

    job: str
    records: int
    partitions: int
    deterministic: bool
    divergence: Divergence | None = None
    error: str | None = None
    duplicates: int = 0
    dead_by_schema: int = 0
    undecided_schemas: int = 0


class RecordPlace(msgspec.Struct, array_like=True):
    """Where a record of the prefix lies, and what it is. ``headers`` are those that the job reads.

    ``refused``: why it is a dead letter whatever its value is.
    """

    stamp_ms: int
    partition: int
    offset: int
    value: bytes
    header: bytes = b""
    key: bytes | None = None
    headers: dict[str, bytes] = {}
    null: bool = False
    refused: str | None = None


def counted_upstream(log: Log, job: Job[Any]) -> dict[str, int] | None:
    """Job -> the incarnation whose outputs count in the input of this one; None: its duplicates are records."""
    started = JobControlHistory(log, job).ownership.started if job.control_topic in log.topics() else None
    if started is not None:
        recorded = started.description.get(m.UPSTREAM)
        return None if recorded is None else msgspec.json.decode(recorded, type=dict[str, int])
    found = upstream_incarnations(log, *job.topics)
    found.pop(job.name, None)  # it reads nothing of its own
    return found


def without_duplicates(places: list[RecordPlace], upstream: Mapping[str, int] | None) -> list[RecordPlace]:
    """The records that the job would see: other jobs' outputs that are there again are passed over, as by a node.

    Raises ``RunFailed`` where the input holds a newer incarnation of another job than the one that counts.
    """
    known: dict[int, Duplicates] = {}
    passed: set[tuple[int, int]] = set()
    for place in sorted(places, key=lambda each: (each.partition, each.offset)):
        seen = known.setdefault(place.partition, Duplicates(upstream))
        try:
            kept = seen.first_copies([place.header])
        except UpstreamReset as error:
            raise RunFailed(f"the input, partition {place.partition} offset {place.offset}: {error}") from error
        if kept is not None and not kept[0]:
            passed.add((place.partition, place.offset))
    return [place for place in places if (place.partition, place.offset) not in passed]


def prefix(log: Log, layout: InputLayout, records: int) -> list[RecordPlace]:
    """The first ``records`` retained ones of each partition, in the order of their timestamps."""
    found: list[RecordPlace] = []
    for partition, place in enumerate(layout.places()):
        offset, kept = log.start_offset(*place), 0
        while kept < records:
            chunk = log.read(*place, offset, max_records=records - kept)
            if chunk.next_offset == offset:
                break
            headers = chunk.found_headers or repeat(b"", len(chunk))
            rows = zip(chunk.offsets.tolist(), chunk.timestamps_ms.tolist(), chunk.values, headers, strict=True)
            parts = RecordParts() if chunk.parts is None else chunk.parts
            found += [
                RecordPlace(
                    stamp, partition, at, value, header, parts.key(row), parts.headers_of(row), parts.is_null(row)
                )
                for row, (at, stamp, value, header) in enumerate(rows)
            ]
            offset, kept = chunk.next_offset, kept + len(chunk)
    return sorted(found, key=lambda place: (place.stamp_ms, place.partition, place.offset))


def judge(places: Sequence[RecordPlace], partitions: int, schemas: JudgedSchemas) -> None:
    """Set aside what nodes have set aside, and let the formats know the schemas of all others."""
    for partition in range(partitions):
        mine = [place for place in places if place.partition == partition]
        refused = schemas.judge(partition, ((place.offset, place.value) for place in mine))
        for place in mine:
            place.refused = refused.get(place.offset)


def replay_twice(
    reference: str,
    name: str,
    on_error: str | None,
    partitions: dict[str, int],
    places: list[RecordPlace],
    schemas: SchemasOfRegistries | None = None,
) -> Replayed:
    """Run both replays and compare them step by step; ``partitions``: of each topic; ``schemas``: those of registries.

    Raises ``RunFailed`` if the job's code ends a process.
    """
    with tempfile.TemporaryDirectory(prefix="holon-replay-") as folder:
        first, second = (
            _replay(Path(folder, str(number)), reference, on_error, partitions, places, schemas or {}, number)
            for number in range(len(WAYS))
        )
    found = Replayed(name, len(places), sum(partitions.values()), True)
    for number, (one, other) in enumerate(zip_longest(first, second)):
        place = places[number] if number < len(places) else None
        found.divergence = _compared(place, one, other)
        if found.divergence is not None:
            found.deterministic = False
            break
        found.error = found.error or one.error
    return found


def _replay(
    folder: Path,
    reference: str,
    on_error: str | None,
    partitions: dict[str, int],
    places: list[RecordPlace],
    schemas: SchemasOfRegistries,
    number: int,
) -> list[ReplayStep]:
    folder.mkdir()
    records = [
        FedRecord(
            each.partition,
            each.stamp_ms,
            None if each.null else each.value,
            each.key,
            each.headers,
            each.refused,
        )
        for each in places
    ]
    given = ReplayInput(reference, on_error, sys.path, partitions, records, number > 0, schemas)
    (folder / "given").write_bytes(msgspec.msgpack.encode(given))
    command = module_command("nodes.replay.child", str(folder / "given"), str(folder / "steps"))
    ran = subprocess.run(command, env=child_environment(WAYS[number]), stdout=subprocess.DEVNULL, check=False)
    lines = (folder / "steps").read_bytes().splitlines() if (folder / "steps").exists() else []
    steps = [msgspec.json.decode(line, type=ReplayStep) for line in lines]
    if ran.returncode:
        at = places[len(steps)] if len(steps) < len(places) else None
        where = "at its end" if at is None else f"at partition {at.partition} offset {at.offset}"
        raise RunFailed(f"the replay of {reference} ended with exit code {ran.returncode} {where}; see above")
    return steps


def _compared(place: RecordPlace | None, one: ReplayStep | None, other: ReplayStep | None) -> Divergence | None:
    """None if the steps are the same."""
    partition, offset = (None, None) if place is None else (place.partition, place.offset)
    if one is None or other is None:
        missing = "one replay goes on where the other has ended"
        return Divergence(partition, offset, missing, _error(one), _error(other))
    if one.error != other.error:
        return Divergence(partition, offset, "failure", _error(one), _error(other))
    for mine, theirs in zip_longest(one.outputs, other.outputs):
        if mine != theirs:
            what = "output " + (mine or theirs)[0]
            return Divergence(partition, offset, what, _shown(mine), _shown(theirs))
    for number, (mine, theirs) in enumerate(zip(one.states, other.states, strict=True)):
        if mine != theirs:
            return Divergence(partition, offset, f"declared state of partition {number}", mine, theirs)
    return None


def _error(step: ReplayStep | None) -> str:
    return "(ended)" if step is None else step.error or "(no failure)"


def _shown(output: tuple[str, int, str, bytes] | None) -> str:
    if output is None:
        return "(nothing)"
    text = output[3].decode(errors="backslashreplace")
    return f"{output[2]}: {text[:SHOWN]}{'...' if len(text) > SHOWN else ''}"
