"""The conditions after a run: results against the plain computation, duplicates, conservation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from holon.job import DEAD, LATE, UNSTABLE
from holon.outputs.identity import OutputId
from nodes.log.contract import FetchedRecords, Log
from nodes.machine import messages as m
from nodes.machine.facts import PartitionClaimed
from nodes.machine.ownership.ownership import Ownership
from nodes.results.reader import OutputReader
from nodes.sim.case import Case
from nodes.sim.expected import Expected, Record, canonical, dead_rows_of, expect, results_of
from nodes.sim.faults.registry import judged
from nodes.sim.faults.upstream_duplicates import first_copies
from nodes.sim.inputs.decoding import event_of
from nodes.sim.node_process import InvariantBroken
from nodes.streams.control_history import control_topic
from nodes.streams.jobs import JobTopics, read_ownership

if TYPE_CHECKING:
    from nodes.machine.config import JobRun
    from nodes.machine.node import Node
    from nodes.sim.faults.isolation import Isolation
    from nodes.sim.options import Options
    from nodes.streams.driver import Driver

SHOWN = 5


class CheckedNode(Protocol):
    """The fields of an incarnation that the checks read."""

    @property
    def name(self) -> str: ...

    @property
    def node(self) -> Node: ...

    @property
    def driver(self) -> Driver: ...


class Checked(Protocol):
    """The fields of a world that the checks read."""

    @property
    def options(self) -> Options: ...

    @property
    def log(self) -> Log: ...

    @property
    def run(self) -> JobRun: ...

    @property
    def case(self) -> Case: ...

    @property
    def isolation(self) -> Isolation | None: ...

    @property
    def unsent(self) -> list[tuple[str, bytes, bytes]]: ...

    @property
    def input_ended(self) -> bool: ...

    @property
    def ends(self) -> Sequence[Sequence[int]]: ...

    @property
    def failed(self) -> bool: ...

    @property
    def processes(self) -> Sequence[CheckedNode]: ...


def check_results(world: Checked) -> Expected:
    """O1, O2 and O7. Raises ``InvariantBroken``; returns what was expected."""
    options, case = world.options, world.case
    check_log(world)
    wanted = expect(options, input_of(world), world.ends)
    results = [name for name in world.run.job.outputs if name not in (LATE, DEAD, UNSTABLE)]
    got = Counter(canonical(json.loads(value)) for name in results for value in outputs(world, name))
    late, dead = diverted(world, LATE), diverted(world, DEAD)
    demand_equal("dead rows", dead_rows(world), wanted.dead_rows)
    if case.fails and world.failed:
        _demand_subset("results of a failed job", got, wanted.results)
        return wanted
    if case.idle and not case.backlog:
        _check_idle(world, wanted, got, late, dead)
    else:
        demand_equal("results", got, wanted.results)
        demand_equal("late records", Counter(late), Counter(wanted.letters))
        demand_equal("dead records", Counter(dead), Counter(wanted.dead))
        kept = len(wanted.accepted) - wanted.filtered
        check_counts(world, kept, len(wanted.late), len(dead), wanted.late_inserts, wanted.filtered, wanted.late_rows)
    return wanted


def check_log(world: Checked) -> None:
    """The conditions that hold whatever a job computes: claims, control checkpoints, and O2."""
    check_claims(world)
    check_control_checkpoints(world)
    check_repeats(world)
    check_unsent(world)


def whole(log: Log, topic: str, partition: int, offset: int = 0) -> FetchedRecords:
    """Everything from ``offset`` on, in one chunk."""
    chunk = log.read(topic, partition, offset, max_records=1 << 40, max_bytes=1 << 50)
    assert chunk.next_offset == log.end_offset(topic, partition)
    return chunk


def input_of(world: Checked) -> list[list[tuple[int, bytes | None]]]:
    """(log timestamp, payload) of every input record that the job has to take, by partition: up to its declared ends.

    There is no payload where a record is a duplicate of another.
    """
    ownership = read_ownership(world.log, world.run.job)
    assert ownership is not None
    found: list[list[tuple[int, bytes | None]]] = []
    for partition, place in enumerate(world.run.layout.places()):
        chunk = whole(world.log, *place)
        counted = first_copies(chunk.headers)
        records = zip(chunk.timestamps_ms.tolist(), chunk.values, counted, strict=True)
        given = [(stamp, payload if counts else None) for stamp, payload, counts in records]
        found.append(given[: ownership.end_offset(partition)])
    return judged(world.run, ownership.schemas, found) if world.options.registry else found


def outputs(world: Checked, output: str) -> list[bytes]:
    """All values of an output, as its users read them."""
    reader = OutputReader(world.log, JobTopics.of(world.run).outputs[output], verify_repeats=True)
    values, identities = [], set()
    for found in reader.read_available():
        if found.identity is not None and found.identity.incarnation < world.run.origin:
            continue  # the reader cannot know of a newer incarnation that has not written to this topic
        if found.identity in identities:
            raise InvariantBroken(f"the reader handed out {found.identity} twice")
        identities.add(found.identity)
        values.append(found.value)
    assert reader.check is not None
    if reader.check.differing or reader.check.unknown:
        raise InvariantBroken(
            f"output {output}: {reader.check.differing} duplicates differ, "
            f"{reader.check.unknown} were never handed out: {reader.check.first_difference}"
        )
    return values


def diverted(world: Checked, output: str) -> list[tuple[int, int]]:
    """(the job's partition, offset) of what is in the late or dead output."""
    records = [json.loads(value) for value in outputs(world, output)]
    number = world.run.layout.number_of
    return [(number(r["topic"], r["partition"]) or 0, r["offset"]) for r in records if "window" not in r]


def dead_rows(world: Checked) -> Counter[str]:
    """Window end and key of dead letters about rows."""
    return dead_rows_of([json.loads(value) for value in outputs(world, DEAD)])


def _control(values: Iterable[bytes]) -> Iterator[m.ControlMessage]:
    """Without what is no message: every node passes it over."""
    for value in values:
        with suppress(m.BadMessage):
            yield m.decode_control(value)


def check_claims(world: Checked) -> None:
    """A partition's claim_versions count up by one, whichever node wins: the older claim never takes it back."""
    ownership = Ownership(world.options.partitions)
    versions: dict[tuple[int, int], int] = {}
    for message in _control(whole(world.log, world.run.job.control_topic, 0).values):
        for fact in ownership.apply(message):
            if isinstance(fact, PartitionClaimed):
                key = (ownership.incarnation, fact.partition)
                if fact.version != versions.get(key, 0) + 1:
                    raise InvariantBroken(f"{fact} follows version {versions.get(key, 0)}")
                versions[key] = fact.version


def check_control_checkpoints(world: Checked) -> None:
    """A checkpoint of the control topic is what a reader from the start folds up to there."""
    job, fold, at = world.run.job, Ownership(world.options.partitions), 0
    records = whole(world.log, job.control_topic, 0).values
    every = replace(control_topic(job), last=1 << 40).intact_checkpoints(world.log)
    for _, saved in sorted(every, key=lambda found: found[1].offset):
        for message in _control(records[at : saved.offset]):
            fold.apply(message)
        at = saved.offset
        if Ownership.restored(saved.state).digest() != fold.digest():
            raise InvariantBroken(f"the checkpoint of the control topic at {at} is not what was folded to there")


def check_repeats(world: Checked) -> None:
    """O2 on the raw topics: all writes of an identity have the same bytes, and go to the same output partition."""
    for output, topic in JobTopics.of(world.run).outputs.items():
        first: dict[tuple[int, OutputId], tuple[int, bytes]] = {}
        for partition in range(world.log.partitions(topic)):
            chunk = whole(world.log, topic, partition)
            for header, value in zip(chunk.headers, chunk.values, strict=True):
                identity = OutputId.from_bytes(header)
                before = first.setdefault((identity.incarnation, identity), (partition, value))
                if before != (partition, value):
                    raise InvariantBroken(
                        f"output {output}: {identity} was written as {before[1]!r} to partition {before[0]}, and as "
                        f"{value!r} to partition {partition}"
                    )


def check_unsent(world: Checked) -> None:
    """A node that is cut off answers nothing false: the outputs that it could not write are on the log in the end."""
    topics = JobTopics.of(world.run).outputs
    known = set(topics.values())
    unsent = [(topic, OutputId.from_bytes(header), value) for topic, header, value in world.unsent if topic in known]
    if not unsent:
        return
    written: dict[tuple[str, OutputId], bytes] = {}
    for topic in sorted(known):
        for partition in range(world.log.partitions(topic)):
            chunk = whole(world.log, topic, partition)
            for header, value in zip(chunk.headers, chunk.values, strict=True):
                written[topic, OutputId.from_bytes(header)] = value
    for topic, identity, value in unsent:
        on_log = written.get((topic, identity))
        due = identity.incarnation == world.run.origin and not world.failed
        if on_log != value and (on_log is not None or due):
            raise InvariantBroken(
                f"{topic}: {identity} would have been {value!r} by a node that was cut off: {on_log!r}"
            )


def check_counts(
    world: Checked,
    accepted: int,
    late: int,
    dead: int,
    late_inserts: int = 0,
    filtered: int = 0,
    late_rows: int = 0,
) -> None:
    """O7: what the final checkpoints count is what went in and what came out."""
    ownership = read_ownership(world.log, world.run.job)
    assert ownership is not None
    final = [ownership.checkpoint(partition) for partition in range(world.options.partitions)]
    sums = [sum((*saved.counts, 0)[i] for saved in final if saved is not None) for i in range(5)]
    given = [payload for records in input_of(world) for _, payload in records]
    records, repeated = len(given), sum(payload is None for payload in given)
    if sums != [accepted, filtered, late, dead, repeated] or sum(sums) != records:
        raise InvariantBroken(f"counts {sums} for {records} records: {accepted} accepted, {late} late, {dead} dead")
    dropped = sum(saved.late_inserts for saved in final if saved is not None)
    if dropped != late_inserts:
        raise InvariantBroken(f"{dropped} late inserts, and not {late_inserts}")
    rows = sum(sum(saved.counts[6:]) for saved in final if saved is not None)
    if rows != late_rows:
        raise InvariantBroken(f"{rows} late rows of all states, and not {late_rows}")


def _check_idle(
    world: Checked, wanted: Expected, got: Counter[str], late: list[tuple[int, int]], dead: list[tuple[int, int]]
) -> None:
    """Lateness depends on the log's order of punctuations: check conservation and windows on accepted records."""
    demand_equal("dead records", Counter(dead), Counter(wanted.dead))
    if len(set(late)) != len(late):
        raise InvariantBroken("a record is in the late output twice")
    options, diverted_ones = world.options, set(late) | set(dead)
    accepted = [
        Record(p, offset, event, None, None)
        for p, records in enumerate(input_of(world))
        for offset, (_, payload) in enumerate(records)
        if payload is not None and (p, offset) not in diverted_ones
        if (event := event_of(options, p, payload)) is not None
    ]
    demand_equal("results", got, results_of(options, accepted))
    rows = len(late) if world.run.job.late_records == "process" else 0
    check_counts(world, len(accepted), len(late), len(dead), rows, late_rows=rows)


def demand_equal(what: str, got: Counter[str] | Counter[tuple[int, int]], wanted: Counter) -> None:
    """Raise ``InvariantBroken`` with the first differences of two multisets."""
    if got != wanted:
        missing, extra = sorted((wanted - got).elements()), sorted((got - wanted).elements())
        raise InvariantBroken(
            f"{what}: {len(missing)} missing, {len(extra)} too many; missing {missing[:SHOWN]}, extra {extra[:SHOWN]}"
        )


def _demand_subset(what: str, got: Counter[str], wanted: Counter[str]) -> None:
    extra = sorted((got - wanted).elements())
    if extra:
        raise InvariantBroken(f"{what}: {len(extra)} too many: {extra[:SHOWN]}")
