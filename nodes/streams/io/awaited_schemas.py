"""Schemas of registries that input waits for: a partition stops before the first record whose schema is not known yet.

Two rules for this file. Nodes act by the verdicts of the control topic alone: what a registry has answered is written
there, and counts once it is read back. That a registry has no such schema is said only of records that were there when
the request was sent, since writers register first.

Schemas are requested beside the node's loop. A registry that does not answer holds up the partitions whose records name
a new schema; all others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from holon.formats.registry import (
    HEADER_BYTES,
    FoundSchema,
    KnownSchemas,
    RegisteredSchema,
    head_of,
    id_of,
    other_heads,
    schemas_of,
    unknown,
)
from holon.input_layout import InputLayout
from nodes.checkpoints.saver import DirectSaver, Saver
from nodes.errors import Unreachable
from nodes.log.contract import FetchedRecords
from nodes.machine.ownership.schemas import SchemaFold

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 250, 4_000
"""Pause before a request to a registry that has not answered is sent again; doubled each time. After an answer that
there is no such schema, it is requested again after the first pause at the earliest.
"""
REREAD_MS = 5_000
"""A partition whose verdict has not come back for so long begins anew."""
MAX_IDS = 10_000
"""In one record of the control topic."""
KEPT_REFUSALS = 1_000

Fetch = Callable[[str, int], FoundSchema]
"""Requests a schema from the registry at a URL; raises ``Unreachable``."""


class FoundIds(NamedTuple):
    """A registry's answers about records of a partition, as ``SchemasFound`` of the control topic has them."""

    partition: int
    source: int
    known: list[int]
    before: int


class ReadableRecords(NamedTuple):
    """``refused``: which of the records are dead for their schemas, as in ``Input``."""

    chunk: FetchedRecords
    refused: Mapping[int, str] | None = None


class Answered(NamedTuple):
    """``found`` None: the registry has not answered; ``why`` says why not."""

    url: str
    id: int
    found: FoundSchema | None
    why: str = ""


@dataclass(slots=True)
class _Waiting:
    """Of a partition: the first record that cannot be read, and the schemas of all such before the offset ``before``.

    ``unanswered``: ids that the registry has said nothing of yet; ``lacks``: it has said that there is no such one.
    """

    offset: int
    id: int
    ids: set[int]
    before: int
    unanswered: set[int]
    lacks: bool = False
    written_ms: int | None = None


@dataclass(slots=True)
class _Registry:
    """One registry: what it has, the ids that are requested, and how it answers.

    ``requested``: by id the partitions that waited for it when it was sent.
    """

    saver: Saver[Answered]
    schemas: dict[int, RegisteredSchema] = field(default_factory=dict)
    requested: dict[int, set[int]] = field(default_factory=dict)
    retried: dict[int, int] = field(default_factory=dict)  # id: when it is requested again
    refused_ms: dict[int, int] = field(default_factory=dict)  # id: when the registry did not have it
    pause_ms: int = FIRST_PAUSE_MS
    is_away: bool = False


@dataclass(slots=True)
class _Source:
    """A source whose records name schemas; ``heads``: those that are read behind the last end of verdicts."""

    number: int
    known: KnownSchemas
    registry: _Registry
    heads: set[bytes]


def requested(fetch: Fetch, url: str, id: int) -> Answered:
    """One request, as a saver runs it."""
    try:
        return Answered(url, id, fetch(url, id))
    except Unreachable as error:
        return Answered(url, id, None, str(error))


class AwaitedSchemas:
    """Those of one node.

    Args: ``verdicts`` gives the fold of the control topic as far as this node has read it, and ``write`` appends to
    that topic. ``report`` gets lines for the operator; ``saver`` makes what runs requests to one registry.
    """

    def __init__(
        self,
        layout: InputLayout,
        fetch: Fetch,
        verdicts: Callable[[], SchemaFold],
        write: Callable[[FoundIds], object],
        report: Callable[[str], None] = lambda line: None,
        saver: Callable[[], Saver[Answered]] = DirectSaver,
    ) -> None:
        self._layout, self._fetch, self._report = layout, fetch, report
        self._verdicts, self._write = verdicts, write
        self._registries: dict[str, _Registry] = {}
        by_topic: dict[str, _Source | None] = {}
        for number, source in enumerate(layout.sources):
            known = schemas_of(source.format)
            if known is not None:
                registry = self._registries.setdefault(known.url, _Registry(saver()))
                by_topic[source.topic] = _Source(number, known, registry, set(map(head_of, known.given)))
        self._sources = [by_topic.get(partition.place.topic) for partition in layout]
        self._waiting: dict[int, _Waiting] = {}
        self._clock_ms: int | None = None
        self._running_ms = 0

    def waits(self, partition: int) -> bool:
        """Whether the next record of a partition names a schema that was requested."""
        return partition in self._waiting

    def count(self) -> int:
        """How many partitions wait."""
        return len(self._waiting)

    def waiting(self) -> dict[str, list[int]]:
        """By registry the partitions that wait for it."""
        found: dict[str, list[int]] = {}
        for number in sorted(self._waiting):
            found.setdefault(self._source(number).known.url, []).append(number)
        return found

    def readable(self, partition: int, chunk: FetchedRecords, now_ms: int) -> ReadableRecords:
        """The records before the first one that has no verdict; its schema is requested, and so are those behind."""
        source = self._sources[partition]
        if source is None or not len(chunk):
            return ReadableRecords(chunk)
        others, end = other_heads(chunk.values, source.heads), self._verdicts().end(partition)
        if not others and chunk.offsets[0] >= end:
            return ReadableRecords(chunk)
        refused, blocked = self._judged(source, partition, chunk, end)
        if not blocked:
            return ReadableRecords(chunk, refused)
        now_ms = self._passed(now_ms)
        (offset, id), ids = blocked[0], {id for _, id in blocked}
        waiting = _Waiting(offset, id, ids, int(chunk.offsets[-1]) + 1, ids - source.registry.schemas.keys())
        self._waiting[partition] = waiting
        for each in sorted(waiting.unanswered):
            self._request(source.known.url, each, now_ms)
        self._go_on(partition, now_ms)
        return ReadableRecords(chunk.before(offset), refused)

    def _judged(
        self, source: _Source, partition: int, chunk: FetchedRecords, end: int
    ) -> tuple[dict[int, str], list[tuple[int, int]]]:
        """The dead records, by offset, and offset and schema of those that cannot be read yet."""
        verdicts, schemas = self._verdicts(), source.registry.schemas
        refused: dict[int, str] = {}
        blocked: list[tuple[int, int]] = []
        for offset, head in _heads(chunk):
            id = id_of(head)
            if id in source.known.given or (offset >= end and head in source.heads):
                continue
            verdict = verdicts.verdict(source.number, partition, offset, id)
            if verdict is False:
                refused[offset] = unknown(id)
            elif verdict and id in schemas:
                source.known.learn(id, schemas[id])
                source.heads.add(head)
            else:
                blocked.append((offset, id))
        return refused, blocked

    def poll(self, now_ms: int) -> None:
        """Take answers and verdicts, and retry where there was no answer. Nothing is to do for most jobs."""
        now_ms = self._passed(now_ms)
        for url, registry in self._registries.items():
            if not registry.requested:
                continue
            for answer in registry.saver.finished():
                self._take(registry, answer, now_ms)
            for id in sorted(id for id, at_ms in registry.retried.items() if at_ms <= now_ms):
                del registry.requested[id], registry.retried[id]
                if self._waiters(url, id):
                    self._request(url, id, now_ms)
        for partition in list(self._waiting):
            self._go_on(partition, now_ms)

    def _passed(self, now_ms: int) -> int:
        """The time of pauses: a clock that is set back stands still."""
        self._running_ms += 0 if self._clock_ms is None else max(0, now_ms - self._clock_ms)
        self._clock_ms = now_ms
        return self._running_ms

    def _request(self, url: str, id: int, now_ms: int) -> None:
        registry = self._registries[url]
        if id in registry.requested:
            return
        again_ms = registry.refused_ms.get(id, now_ms - FIRST_PAUSE_MS) + FIRST_PAUSE_MS
        if again_ms > now_ms:
            registry.requested[id], registry.retried[id] = set(), again_ms
            return
        registry.requested[id] = self._waiters(url, id)
        answer = registry.saver.save(partial(requested, self._fetch, url, id))
        if answer is not None:
            self._take(registry, answer, now_ms)

    def _take(self, registry: _Registry, answer: Answered, now_ms: int) -> None:
        url, id, found, why = answer
        verdicts, waiters = self._verdicts(), self._waiters(url, id)
        if isinstance(found, RegisteredSchema):
            registry.schemas.setdefault(id, found)
            answered = waiters
        else:  # others may have found it: then this registry is behind
            answered = {each for each in waiters if not verdicts.knows(self._source(each).number, id)}
            why = why or f"the schema registry {url} lacks schema {id}, which other nodes have read there"
        if found is None or (waiters and not answered):
            registry.retried[id] = now_ms + registry.pause_ms
            registry.pause_ms = min(2 * registry.pause_ms, LONGEST_PAUSE_MS)
            if not registry.is_away:
                registry.is_away = True
                names = [str(self._layout[number].place) for number in self.waiting().get(url, [])]
                verb = "waits" if len(names) == 1 else "wait"
                self._report(f"{why}; {', '.join(names) or 'no partition'} {verb}, and all others go on")
            return
        if registry.is_away:
            registry.is_away = False
            self._report(f"the schema registry {url} answers again")
        registry.pause_ms = FIRST_PAUSE_MS
        sent_for = registry.requested.pop(id)
        if not isinstance(found, RegisteredSchema):
            answered &= sent_for
            self._refused(registry, url, id, now_ms)
        for number in answered:
            self._waiting[number].unanswered.discard(id)
            self._waiting[number].lacks |= not isinstance(found, RegisteredSchema)
        if waiters - answered:
            self._request(url, id, now_ms)

    def _refused(self, registry: _Registry, url: str, id: int, now_ms: int) -> None:
        if id not in registry.refused_ms:
            self._report(f"the schema registry {url} has no schema {id}: records that name it are dead letters")
            if len(registry.refused_ms) >= KEPT_REFUSALS:
                registry.refused_ms.clear()
        registry.refused_ms[id] = now_ms

    def _go_on(self, partition: int, now_ms: int) -> None:
        """The partition is read on if its next record has a verdict; else write what is known to lead to one."""
        waiting, source, verdicts = self._waiting[partition], self._source(partition), self._verdicts()
        schemas, number = source.registry.schemas, source.number
        verdict = verdicts.verdict(number, partition, waiting.offset, waiting.id)
        if verdict is False or (verdict and waiting.id in schemas):
            del self._waiting[partition]
        elif verdict and waiting.id not in waiting.unanswered:  # others have found it
            waiting.unanswered.add(waiting.id)
            self._request(source.known.url, waiting.id, now_ms)
        elif waiting.unanswered:
            return
        elif waiting.written_ms is None:
            waiting.written_ms = now_ms
            known = [id for id in sorted(waiting.ids) if id in schemas and not verdicts.knows(number, id)]
            before = waiting.before if waiting.lacks and len(known) <= MAX_IDS else 0
            self._write(FoundIds(partition, number, known[:MAX_IDS], before))
        elif now_ms - waiting.written_ms >= REREAD_MS:
            del self._waiting[partition]

    def _waiters(self, url: str, id: int) -> set[int]:
        """The partitions that wait for an answer."""
        return {
            number
            for number, waiting in self._waiting.items()
            if id in waiting.unanswered and self._source(number).known.url == url
        }

    def _source(self, partition: int) -> _Source:
        source = self._sources[partition]
        assert source is not None, f"partition {partition} waits for no schema"
        return source


def _heads(chunk: FetchedRecords) -> Sequence[tuple[int, bytes]]:
    """Offset and header of the records that name schemas."""
    named = other_heads(chunk.values, frozenset())
    heads = (value[:HEADER_BYTES] for value in chunk.values)
    return [(offset, head) for offset, head in zip(chunk.offsets.tolist(), heads, strict=True) if head in named]
