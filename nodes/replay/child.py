"""One replay of a job over a prefix of its input, step by step, in a process of its own: see ``comparison.py``."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import msgspec

from holon.errors import UserFunctionError
from holon.job import UNSTABLE
from holon.testing import JobTestDriver
from nodes.schema_registry.commands import SchemasOfRegistries, learn_all

SAVE_AFTER, LOSE_AFTER = 50, 100
"""Records of a partition after which its state is saved, and those after which it is lost."""


class FedRecord(msgspec.Struct, array_like=True):
    """A record as a replay takes it; ``value`` None: a tombstone. ``refused``: why nodes have set it aside."""

    partition: int
    stamp_ms: int
    value: bytes | None
    key: bytes | None = None
    headers: dict[str, bytes] = {}
    refused: str | None = None


class ReplayInput(msgspec.Struct):
    """The input of a replay: the partitions of each topic, and ``records`` in the order of their stamps.

    ``schemas``: those of registries that records name.
    """

    reference: str
    on_error: str | None
    path: list[str]
    partitions: dict[str, int]
    records: list[FedRecord]
    loses_state: bool
    schemas: SchemasOfRegistries = {}


class ReplayStep(msgspec.Struct):
    """The outcome of one record. ``outputs``: (output, partition of it, identity, value); ``states``: digests."""

    outputs: list[tuple[str, int, str, bytes]] = []
    states: list[str] = []
    error: str | None = None


def main() -> None:
    """Read ``ReplayInput`` from the first file, write a ``ReplayStep`` a line to the second."""
    given = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=ReplayInput)
    sys.path += [entry for entry in given.path if entry not in sys.path]
    from nodes.streams.jobs import load_job, with_policy

    job = with_policy(load_job(given.reference), given.on_error)  # type: ignore[arg-type]
    learn_all(job.formats, given.schemas)
    with Path(sys.argv[2]).open("wb") as out:
        for step in steps(job, given):
            out.write(msgspec.json.encode(step) + b"\n")
            out.flush()  # the next record may end the process


def steps(job: Any, given: ReplayInput) -> Any:
    """Feed record after record, then end the input."""
    test = JobTestDriver(job, given.partitions)
    seen = [0] * test.layout.partitions
    for record in given.records:
        partition, test.clock_ms = record.partition, record.stamp_ms
        try:
            if record.value is None:
                test.feed_tombstone(partition, key=record.key, headers=record.headers)
            else:
                test.feed(partition, record.value, key=record.key, headers=record.headers, refused=record.refused)
            seen[partition] += 1
            if given.loses_state and not test.waiting():
                _lose(test, partition, seen[partition])
        except UserFunctionError as error:
            yield ReplayStep(error=str(error))
            return
        yield ReplayStep(_outputs(test), _states(test))
    if not test.waiting():
        test.finish()
        yield ReplayStep(_outputs(test), _states(test))


def _lose(test: JobTestDriver, partition: int, seen: int) -> None:
    if seen % LOSE_AFTER == SAVE_AFTER:
        test.checkpoint(partition)
    elif seen % LOSE_AFTER == 0:
        test.fail(partition)


def _outputs(test: JobTestDriver) -> list[tuple[str, int, str, bytes]]:
    """The outputs since the last call, in an order that does not depend on which partition was polled first."""
    fresh = [(name, to, str(identity), value) for name, to, identity, value in test.take_emitted() if name != UNSTABLE]
    return sorted(fresh)


def _states(test: JobTestDriver) -> list[str]:
    """A digest of each partition's declared state; empty while it waits inside of a record."""
    return [
        "" if task.waiting else hashlib.blake2b(task.snapshot().to_bytes(), digest_size=8).hexdigest()
        for task in test.tasks
    ]


if __name__ == "__main__":
    main()
