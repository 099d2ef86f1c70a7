"""Schemas of registries that input waits for: a partition stops before the first record whose schema is not known yet.

Schemas are requested beside the node's loop. A registry that does not answer holds up the partitions whose records name
a new schema; all others go on. Its answers are the same whenever they come, so no result depends on the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from holon.formats.registry import FoundSchema, KnownSchemas, UnknownSchema, schemas_of
from holon.input_layout import InputLayout
from nodes.checkpoints.saver import DirectSaver, Saver
from nodes.errors import Unreachable
from nodes.log.contract import FetchedRecords

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 250, 4_000
"""Pause before a request to a registry that has not answered is sent again; doubled each time."""

Fetch = Callable[[str, int], FoundSchema]
"""Requests a schema from the registry at a URL; raises ``Unreachable``."""


class Answered(NamedTuple):
    """``found`` None: the registry has not answered; ``why`` says why not."""

    url: str
    id: int
    found: FoundSchema | None
    why: str = ""


@dataclass(slots=True)
class _Registry:
    """One registry: the schemas of each format that has it, the ids that are requested, and how it answers."""

    known: list[KnownSchemas]
    saver: Saver[Answered]
    requested: set[int]
    retried: dict[int, int]  # id: when it is requested again
    pause_ms: int = FIRST_PAUSE_MS
    is_away: bool = False


def requested(fetch: Fetch, url: str, id: int) -> Answered:
    """One request, as a saver runs it."""
    try:
        return Answered(url, id, fetch(url, id))
    except Unreachable as error:
        return Answered(url, id, None, str(error))


class AwaitedSchemas:
    """Those of one node. ``report`` gets lines for the operator; ``saver`` makes what runs requests to one registry."""

    def __init__(
        self,
        layout: InputLayout,
        fetch: Fetch,
        report: Callable[[str], None] = lambda line: None,
        saver: Callable[[], Saver[Answered]] = DirectSaver,
    ) -> None:
        self._layout, self._fetch, self._report = layout, fetch, report
        self._known = [schemas_of(partition.source.format) for partition in layout]
        self._registries: dict[str, _Registry] = {}
        for known in self._known:
            if known is not None:
                found = self._registries.setdefault(known.url, _Registry([], saver(), set(), {}))
                found.known.append(known)
        self._waiting: dict[int, set[int]] = {}

    def waits(self, partition: int) -> bool:
        """Whether the next record of a partition names a schema that was requested."""
        return partition in self._waiting

    def count(self) -> int:
        """How many partitions wait."""
        return len(self._waiting)

    def waiting(self) -> dict[str, list[int]]:
        """By registry the partitions that wait for it."""
        found: dict[str, list[int]] = {}
        for partition in sorted(self._waiting):
            known = self._known[partition]
            assert known is not None
            found.setdefault(known.url, []).append(partition)
        return found

    def readable(self, partition: int, chunk: FetchedRecords, now_ms: int) -> FetchedRecords:
        """The records before the first whose schema is not known; it is requested, and so are those behind."""
        known = self._known[partition]
        while known is not None and (missing := known.missing(chunk.values)) is not None:
            row, ids = missing
            self._waiting[partition] = set(ids)
            for id in ids:
                self._request(known.url, id, now_ms)
            if partition in self._waiting:  # no answer has come at once
                return chunk.before(int(chunk.offsets[row]))
        return chunk

    def poll(self, now_ms: int) -> None:
        """Take answers, and retry where there was none. Nothing is to do for most jobs."""
        for url, registry in self._registries.items():
            if not registry.requested:
                continue
            for answer in registry.saver.finished():
                self._take(registry, answer, now_ms)
            for id in sorted(id for id, at_ms in registry.retried.items() if at_ms <= now_ms):
                registry.requested.discard(id)
                del registry.retried[id]
                self._request(url, id, now_ms)

    def _request(self, url: str, id: int, now_ms: int) -> None:
        registry = self._registries[url]
        if id in registry.requested:
            return
        registry.requested.add(id)
        answer = registry.saver.save(partial(requested, self._fetch, url, id))
        if answer is not None:
            self._take(registry, answer, now_ms)

    def _take(self, registry: _Registry, answer: Answered, now_ms: int) -> None:
        if answer.found is None:
            registry.retried[answer.id] = now_ms + registry.pause_ms
            registry.pause_ms = min(2 * registry.pause_ms, LONGEST_PAUSE_MS)
            if not registry.is_away:
                registry.is_away = True
                names = [str(self._layout[partition].place) for partition in self.waiting().get(answer.url, [])]
                verb = "waits" if len(names) == 1 else "wait"
                self._report(f"{answer.why}; {', '.join(names) or 'no partition'} {verb}, and all others go on")
            return
        for known in registry.known:
            known.learn(answer.id, answer.found)
        if isinstance(answer.found, UnknownSchema):
            self._report(
                f"the schema registry {answer.url} has no schema {answer.id}: records that name it are dead letters"
            )
        if registry.is_away:
            registry.is_away = False
            self._report(f"the schema registry {answer.url} answers again")
        registry.pause_ms = FIRST_PAUSE_MS
        registry.requested.discard(answer.id)
        for partition in self._partitions_of(answer.url):
            ids = self._waiting.get(partition)
            if ids is not None:
                ids.discard(answer.id)
                if not ids:
                    del self._waiting[partition]

    def _partitions_of(self, url: str) -> Iterable[int]:
        return [partition for partition, known in enumerate(self._known) if known is not None and known.url == url]
