"""Finding leaders and connecting to them, beside the thread that sends or reads: a name or a host may take its time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from nodes.log.kafka.direct.connection import (
    EPOCH_ENDS,
    EPOCH_ENDS_VERSION,
    METADATA,
    METADATA_VERSION,
    Address,
    Cluster,
    EpochEnd,
    Lost,
    PartitionName,
    Wire,
    fetch_cluster,
    fetch_epoch_ends,
)
from nodes.log.kafka.direct.security import Dialer

CONNECT_S = 3.0
"""For a connection, and for each answer: a broker that hangs is passed over, and gets a longer timeout later."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The subject of a search: leaders of these topics, and connections to them.

    ``have``: brokers to which there is a connection already. ``versions``: of requests that a leader has to take.
    ``places``: the partitions whose leaders are connected to (None: all), with the epoch of the last record that was
    read of each; from a newer leader the end of that epoch is fetched (-1: it is not). ``patience_s``: for
    a connection and for each answer.
    """

    names: Collection[str]
    have: Collection[Address]
    versions: Mapping[int, int]
    places: Mapping[PartitionName, int] | None = None
    patience_s: float = field(default_factory=lambda: CONNECT_S)


@dataclass(frozen=True, slots=True)
class Found:
    """Leaders, and new connections: to all that lead something and to which there was none."""

    cluster: Cluster
    wires: dict[Address, Wire]
    ends: dict[PartitionName, EpochEnd] = field(default_factory=dict)
    wanted: Wanted = field(default_factory=lambda: Wanted((), (), {}))

    @property
    def led(self) -> dict[PartitionName, Address]:
        """Topic and partition -> where it is led, of those that are led."""
        return {place: (leader.host, leader.port) for place, leader in self.cluster.leaders.items() if leader.host}


def addresses(bootstrap: str) -> list[Address]:
    """Of a list as ``bootstrap.servers`` has it."""
    found = []
    for one in bootstrap.split(","):
        host, _, port = one.strip().rpartition(":")
        if host and port.isdigit():
            found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return found


def find(brokers: Sequence[Address], wanted: Wanted, dialer: Dialer) -> Found | Lost:
    """Query one broker after the other, until one names the leaders of these topics; then connect to the leaders."""
    why = Lost("no address of a broker")
    for address in brokers:
        wire = dialer.connect(address, wanted.patience_s)
        if isinstance(wire, Lost):
            why = wire
            continue
        cluster = wire.lacks({METADATA: METADATA_VERSION}) or fetch_cluster(wire, wanted.names)
        wire.close()
        if isinstance(cluster, Cluster):
            return _connected(Found(cluster, {}, {}, wanted), dialer)
        why = cluster
    return why


def _connected(found: Found, dialer: Dialer) -> Found:
    wanted = found.wanted
    led: dict[Address, list[PartitionName]] = {}
    for place, address in found.led.items():
        if place[0] in wanted.names and (wanted.places is None or place in wanted.places):
            led.setdefault(address, []).append(place)
    for address, places in led.items():
        epochs = _older(found, places)
        if address in wanted.have and not epochs:
            continue
        wire = dialer.connect(address, wanted.patience_s)
        if isinstance(wire, Lost):
            continue  # it is looked for again
        versions = {**wanted.versions, EPOCH_ENDS: EPOCH_ENDS_VERSION} if epochs else wanted.versions
        ends = None
        if wire.lacks(versions) is None:
            ends = fetch_epoch_ends(wire, epochs) if epochs else {}
        if ends is None or isinstance(ends, Lost):
            wire.close()
            continue
        found.ends.update(ends)
        if address in wanted.have:
            wire.close()
        else:
            wire.without_waiting()
            found.wires[address] = wire
    return found


def _older(found: Found, places: Collection[PartitionName]) -> dict[PartitionName, tuple[int, int]]:
    """Those that have another leader than the one of what was read: its epoch, and that of the last record."""
    read = {place: (found.wanted.places or {}).get(place, -1) for place in places}
    current = {place: found.cluster.leaders[place].epoch for place in places}
    return {place: (current[place], read[place]) for place in places if 0 <= read[place] < current[place]}


class Finder:
    """One search at a time, in a thread that ends with it. ``over`` is called there when there is a result."""

    def __init__(self, dialer: Dialer, over: Callable[[], None] = lambda: None) -> None:
        self._dialer = dialer
        self._over = over
        self._lock = threading.Lock()
        self._result: Found | Lost | None = None
        self._closed = False
        self.busy = False

    def start(self, brokers: Sequence[Address], wanted: Wanted) -> None:
        """Begin; ``result`` has it when it is over."""
        assert not self.busy
        self.busy = True
        threading.Thread(target=self._find, args=(brokers, wanted), name="kafka-leaders", daemon=True).start()

    def result(self) -> Found | Lost | None:
        """The findings, once."""
        with self._lock:
            found, self._result = self._result, None
        if found is not None:
            self.busy = False
        return found

    def close(self) -> None:
        """End the search; safe to call twice."""
        with self._lock:
            self._closed = True
            found, self._result = self._result, None
        _close(found)

    def _find(self, brokers: Sequence[Address], wanted: Wanted) -> None:
        found = find(brokers, wanted, self._dialer)
        with self._lock:
            if not self._closed:
                self._result = found
                self._over()
                return
        _close(found)


def _close(found: Found | Lost | None) -> None:
    if isinstance(found, Found):
        for wire in found.wires.values():
            wire.close()
