"""Finding leaders and connecting to them, beside the thread that sends: a name or a host may take its time."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nodes.log.kafka_batch_requests import WANTED
from nodes.log.kafka_wire import Address, Cluster, Lost, Wire, ask_cluster

CONNECT_S = 10.0
"""For a connection, and for each answer."""


@dataclass(frozen=True, slots=True)
class Found:
    """Leaders, and new connections: to all that lead something and to which there was none."""

    cluster: Cluster
    wires: dict[Address, Wire]

    @property
    def led(self) -> dict[tuple[str, int], Address]:
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


def find(ask: Sequence[Address], names: Collection[str], have: Collection[Address], client_id: str) -> Found | Lost:
    """Ask one broker after the other, until one says who leads these topics; then connect to the leaders."""
    why = Lost("no address of a broker")
    for address in ask:
        wire = Wire.connect(*address, client_id, CONNECT_S)
        if isinstance(wire, Lost):
            why = wire
            continue
        cluster = ask_cluster(wire, names)
        wire.close()
        if isinstance(cluster, Cluster):
            return _connected(Found(cluster, {}), names, have, client_id)
        why = cluster
    return why


def _connected(found: Found, names: Collection[str], have: Collection[Address], client_id: str) -> Found:
    for (name, _), address in found.led.items():
        if name in names and address not in have and address not in found.wires:
            wire = Wire.connect(*address, client_id, CONNECT_S)
            if isinstance(wire, Lost) or wire.lacks(WANTED) is not None:
                continue  # whoever needs it asks again
            wire.without_waiting()
            found.wires[address] = wire
    return found


class Finder:
    """One search at a time, in a thread that ends with it."""

    def __init__(self, client_id: str) -> None:
        self._client = client_id
        self._lock = threading.Lock()
        self._result: Found | Lost | None = None
        self._closed = False
        self.busy = False

    def start(self, ask: Sequence[Address], names: Collection[str], have: Collection[Address]) -> None:
        """Begin; ``result`` has it when it is over."""
        assert not self.busy
        self.busy = True
        threading.Thread(target=self._find, args=(ask, names, have), name="kafka-leaders", daemon=True).start()

    def result(self) -> Found | Lost | None:
        """What was found, once."""
        with self._lock:
            found, self._result = self._result, None
        if found is not None:
            self.busy = False
        return found

    def close(self) -> None:
        """Nobody asks any more; safe to call twice."""
        with self._lock:
            self._closed = True
            found, self._result = self._result, None
        _close(found)

    def _find(self, ask: Sequence[Address], names: Collection[str], have: Collection[Address]) -> None:
        found = find(ask, names, have, self._client)
        with self._lock:
            if not self._closed:
                self._result = found
                return
        _close(found)


def _close(found: Found | Lost | None) -> None:
    if isinstance(found, Found):
        for wire in found.wires.values():
            wire.close()
