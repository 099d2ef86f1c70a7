"""The source of the flows: the benchmark's records as rows, with the fields that a query names and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from holon import Decoded
from holon.dataflow import Flow, Stream
from nexmark.flows.columns import TIME_MS, RowColumns
from nexmark.model import AUCTION, BID, PERSON
from nexmark.queries import TOPIC

B = TypeVar("B")
T = TypeVar("T")


class NexmarkRows:
    """Records as rows: ``kind``, ``time_ms``, and a Struct for each kind that a query is about.

    Where a row is of another kind, the Struct's numbers are 0 and its texts empty: filter by ``kind`` first. Names are
    those on the wire in snake case (``date_time``); ``expires`` is epoch ms. A record is dead unless its own kind has
    the fields, as ``NexmarkColumns`` has it. ``atoms``: the records are Arrow record batches.
    """

    def __init__(self, structs: Mapping[str, type], *, atoms: bool = False) -> None:
        self.type: Any = msgspec.defstruct("Event", [("kind", int), (TIME_MS, int), *structs.items()])
        self.columns = RowColumns(structs)
        self._atoms = atoms

    def by_columns(self) -> Any:
        """As ``TypedFormat`` has it."""
        if not self._atoms:
            return self.columns
        from nexmark.flows.atoms import RowAtoms  # pyarrow comes with an extra, and takes its time

        return RowAtoms(self.columns)

    def by_events(self) -> Any:
        """As ``TypedFormat`` has it; never requested, for the type is one Struct."""
        raise NotImplementedError("Nexmark's rows are columns")

    def decode(self, payloads: Sequence[bytes]) -> Decoded[Any]:
        """Decode a run of payloads."""
        return self.by_columns().decode(payloads)

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        return self.by_columns().describe()


@dataclass(frozen=True, slots=True)
class Events:
    """The topic ``nexmark`` as the source of a flow, with the options of a run."""

    flow: Flow
    out_of_orderness_ms: int = 0
    max_future_skew_ms: int | None = None
    atoms: bool = False

    def bids(self, row: type[B]) -> Stream[B]:
        """The bids, with the fields of a Struct."""
        return self._read(bid=row).filter(lambda event: event.kind == BID).map(lambda event: event.bid)

    def persons_and_auctions(self, person: type[T], auction: type[B]) -> tuple[Stream[T], Stream[B]]:
        """The persons and the auctions, each with the fields of a Struct."""
        events = self._read(person=person, auction=auction)
        persons = events.filter(lambda event: event.kind == PERSON).map(lambda event: event.person)
        return persons, events.filter(lambda event: event.kind == AUCTION).map(lambda event: event.auction)

    def auctions_and_bids(self, auction: type[T], bid: type[B]) -> tuple[Stream[T], Stream[B]]:
        """The auctions and the bids, each with the fields of a Struct."""
        events = self._read(auction=auction, bid=bid)
        auctions = events.filter(lambda event: event.kind == AUCTION).map(lambda event: event.auction)
        return auctions, events.filter(lambda event: event.kind == BID).map(lambda event: event.bid)

    def _read(self, **structs: type) -> Stream[Any]:
        return self.flow.source(
            TOPIC,
            NexmarkRows(structs, atoms=self.atoms),
            time=lambda event: event.time_ms,
            out_of_order=self.out_of_orderness_ms,
            max_future_skew_ms=self.max_future_skew_ms,
            bounded=True,
        )
