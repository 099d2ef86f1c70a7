"""Records that name schemas of a registry, in a simulated fleet: nodes that ask it at once may get different answers.

Two rules for this file. Some records name a schema before it is registered, and some one that never is. Each node asks
a copy of the registry that is behind by a time of its own, and does not answer at times. The expected results follow
from the input and from the verdicts on the control topic alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from holon import Job
from holon.formats.formats import Decoded, Format
from holon.formats.registry import (
    HEADER_BYTES,
    FoundSchema,
    KnownSchemas,
    RegisteredSchema,
    UnknownSchema,
    head_of,
    head_refusal,
    id_of,
    unknown,
)
from nodes.errors import Unreachable
from nodes.machine import messages as m
from nodes.machine.ownership.schemas import SchemaFold
from nodes.sim.inputs.feed import Feed
from nodes.sim.store import LateSaver
from nodes.streams.io.awaited_schemas import Answered, AwaitedSchemas, FoundIds

if TYPE_CHECKING:
    from nodes.log.contract import Log
    from nodes.machine.config import JobRun
    from nodes.sim.options import Options
    from nodes.sim.surroundings import Surroundings

USUAL, LATE, NEVER = 1, (2, 3, 4), 99
"""Schemas that are registered from the start, during the run, and never."""
REQUEST_MS = 10
DEAD = b"\xff"
"""In place of a record that is dead by its verdict: no event."""


class NamedSchemas(Format[Any]):
    """Records of another format, each behind the header of a registry. The schema itself says nothing."""

    def __init__(self, inner: Format[Any]) -> None:
        self.inner = inner
        self.schemas = KnownSchemas("http://registry")

    def describe(self) -> str:
        """As that of the other format."""
        return self.inner.describe()

    def decode(self, payloads: Sequence[bytes]) -> Decoded[Any]:
        """Raises ``JobError`` for a schema that the node has let through and does not know."""
        bad: dict[int, str] = {}
        for row, payload in enumerate(payloads):
            refused = head_refusal(payload)
            if refused is None and isinstance(self.schemas.get(id_of(payload)), UnknownSchema):
                refused = unknown(id_of(payload))
            if refused is not None:
                bad[row] = refused
        good = np.array([row for row in range(len(payloads)) if row not in bad], np.intp)
        found = self.inner.decode([payloads[row][HEADER_BYTES:] for row in good])
        bad |= {int(good[row]): reason for row, reason in found.bad}
        return replace(found, rows=good if found.rows is None else good[found.rows], bad=sorted(bad.items()))


def naming_schemas(feeds: Sequence[Feed], options: Options) -> list[Feed]:
    """The same records, each with the header of a schema."""
    rng = random.Random(f"registry {options.seed} {len(feeds)}")
    ids = [rng.choice([*LATE, NEVER]) if rng.random() < options.registry else USUAL for _ in feeds]
    return [replace(feed, payload=head_of(id) + feed.payload) for feed, id in zip(feeds, ids, strict=True)]


def of_registry(job: Job, options: Options) -> Job:
    """The job, with records that name schemas if the options have such."""
    if not options.registry:
        return job
    sources = [replace(source, format=NamedSchemas(source.format)) for source in job.sources]
    return replace(job, source=sources[0] if len(sources) == 1 else sources)


class SimulatedRegistry:
    """The registry as one node reaches it."""

    def __init__(self, world: Surroundings, node: str) -> None:
        self._world, self._node, self._options = world, node, world.options
        self._rng = random.Random(f"registry {self._options.seed} {node} {world.now_ms}")
        self._behind_ms = self._rng.choice([0, 0, 100, 1000])

    @cached_property
    def _since_ms(self) -> dict[int, int]:
        rng, last_ms = random.Random(f"registry {self._options.seed}"), max(self._options.feed_ms, 1500)
        return {USUAL: 0} | {id: rng.randint(0, last_ms) for id in LATE}

    def fetch(self, url: str, id: int) -> FoundSchema:
        """As ``RegistryClient`` has it."""
        world = self._world
        if not world.healed and self._rng.random() < 0.1:
            raise Unreachable(f"{url}: not reached in the simulation")
        since_ms = self._since_ms.get(id)
        if since_ms is None or since_ms + (self._behind_ms if id != USUAL else 0) > world.now_ms:
            world.trace.add(world.now_ms, "schema-lacking", f"{id} for {self._node}")
            return UnknownSchema()
        return RegisteredSchema(str(id))


def awaited(world: Surroundings, node: str, log: Log, verdicts: SchemaFold) -> AwaitedSchemas | None:
    """The schemas that a node waits for; None where records name none."""
    run = world.run
    if not world.options.registry:
        return None

    def write(found: FoundIds) -> None:
        if found.before:
            world.trace.add(world.now_ms, "schemas-unknown", f"{found} by {node}")
        message = m.SchemasFound(run.incarnation, node, *found)
        log.send(run.job.control_topic, 0, [m.encode(message)])

    registry = SimulatedRegistry(world, node)
    saver = LateSaver[Answered](lambda: world.now_ms, REQUEST_MS, world.rng)
    return AwaitedSchemas(run.layout, registry.fetch, lambda: verdicts, write, lambda line: None, lambda: saver)


def judged(
    run: JobRun, verdicts: SchemaFold, partitions: Sequence[list[tuple[int, bytes | None]]]
) -> list[list[tuple[int, bytes | None]]]:
    """(log timestamp, payload) of each record without its header, by partition; dead ones hold no event.

    A record without a verdict was read by no node.
    """
    topics = [source.topic for source in run.job.sources]
    found: list[list[tuple[int, bytes | None]]] = []
    for partition, (place, records) in enumerate(zip(run.layout.places(), partitions, strict=True)):
        verdict = partial(verdicts.verdict, topics.index(place.topic), partition)
        found.append([(record[0], _judged(verdict, offset, record[1])) for offset, record in enumerate(records)])
    return found


def _judged(verdict: Callable[[int, int], bool | None], offset: int, payload: bytes | None) -> bytes | None:
    if payload is None:
        return None
    return payload[HEADER_BYTES:] if verdict(offset, id_of(payload)) else DEAD
