"""Records that name schemas, as commands take them that run a job's functions beside its nodes.

Two rules for this file. Where nodes have agreed on a record, by the job's control topic, their verdict counts. Where
they have not, the registry's present answer counts; records whose schema it lacks are counted, since it may have that
schema once a node comes to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holon.formats.registry import FoundSchema, KnownSchemas, UnknownSchema, head_refusal, id_of, schemas_of, unknown
from holon.input_layout import InputLayout
from nodes.errors import Unreachable
from nodes.machine.ownership.schemas import SchemaFold

Fetch = Callable[[str, int], FoundSchema]
"""Requests a schema from the registry at a URL; raises ``Unreachable``."""


class JudgedSchemas:
    """The schemas of a job's records; its formats learn those that they need.

    ``refused``: how many records nodes have set aside for their schema. ``undecided``: how many name a schema that the
    registry lacks, and have no verdict: they are dead letters here.
    """

    def __init__(self, layout: InputLayout, verdicts: SchemaFold, fetch: Fetch) -> None:
        numbers = {source.topic: number for number, source in enumerate(layout.sources)}
        self._sources = [(numbers[each.place.topic], schemas_of(each.source.format)) for each in layout]
        self._places = layout.places()
        self._verdicts, self._fetch = verdicts, fetch
        self.refused = self.undecided = 0

    @property
    def are_named(self) -> bool:
        """Whether records of the job name schemas at all."""
        return any(known is not None for _, known in self._sources)

    def judge(self, partition: int, records: Iterable[tuple[int, bytes]]) -> dict[int, str]:
        """Of records, each an offset and a value, those that are dead by the nodes' verdict, and why.

        Raises ``Unreachable`` if the registry does not answer, or lacks a schema by which nodes read a record.
        """
        number, known = self._sources[partition]
        if known is None:
            return {}
        found: dict[int, str] = {}
        for offset, value in records:
            if head_refusal(value) is not None or (id := id_of(value)) in known.given:
                continue
            verdict = self._verdicts.verdict(number, partition, offset, id)
            if verdict is False:
                found[offset] = unknown(id)
            elif self._lacks(known, id):
                if verdict:
                    place = self._places[partition]
                    raise Unreachable(f"{known.url} lacks schema {id}, by which nodes read {place} offset {offset}")
                self.undecided += 1
        self.refused += len(found)
        return found

    def _lacks(self, known: KnownSchemas, id: int) -> bool:
        if id not in known.found:
            known.learn(id, self._fetch(known.url, id))
        return isinstance(known.get(id), UnknownSchema)

    def remarks(self) -> list[str]:
        """Lines for people, where there is something to say."""
        found: list[str] = []
        if self.refused:
            found.append(f"{self.refused:,} records are dead letters, as for nodes: no registry had their schema then")
        if self.undecided:
            found.append(
                f"{self.undecided:,} records name a schema that the registry lacks, and nodes have not come to them: "
                f"they are dead letters here, and events for nodes if the schema is registered by then"
            )
        return found
