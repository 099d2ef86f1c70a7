"""How a sender writes: on connections of its own, or by confluent-kafka. A thread beside the sender finds out.

Only an answer decides. Requests to a broker that is slow, away, or has no number for a producer just now are retried,
each time with a longer timeout, until the sender is closed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodes.log.kafka.direct import leaders
from nodes.log.kafka.direct.connection import Address, Lost, Unserved
from nodes.log.kafka.direct.leaders import Found, Wanted
from nodes.log.kafka.direct.produce_requests import WANTED, request_producer_id
from nodes.log.kafka.direct.record_batch import Producer
from nodes.log.kafka.direct.security import KNOWN as SECURITY
from nodes.log.kafka.direct.security import Dialer, unsupported_security
from nodes.log.kafka.retry_policy import Remedy, remedy

logger = logging.getLogger(__name__)

_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.05, 1.0
_WARN_S = 10.0
_KNOWN = frozenset(
    "acks batch.size bootstrap.servers client.id enable.gapless.guarantee enable.idempotence error_cb linger.ms logger "
    "message.max.bytes message.timeout.ms queue.buffering.max.kbytes reconnect.backoff.max.ms reconnect.backoff.ms "
    "retry.backoff.ms socket.keepalive.enable socket.nagle.disable".split()
)
_VALUES = {"compression.type": ("lz4", "none")}


def unknown_property(config: Mapping[str, Any]) -> str | None:
    """The first property that a sender of our own does not obey; None if it obeys all."""
    for key, value in config.items():
        if not (key in _KNOWN or key in SECURITY or str(value).lower() in _VALUES.get(key, ())):
            return key
    return unsupported_security(config)


@dataclass(frozen=True, slots=True)
class Opened:
    """The number of a new producer, and the leaders of the first topic if a broker has named them."""

    producer: Producer
    found: Found | Lost


def open_once(brokers: Sequence[Address], name: str, dialer: Dialer, patience_s: float) -> Opened | Lost:
    """Query one broker after the other; ``Unserved`` if one has answered that it does not take these requests."""
    why = Lost("no address of a broker")
    for address in brokers:
        wire = dialer.connect(address, patience_s)
        if isinstance(wire, Lost):
            why = _plainest(why, wire)
            continue
        producer: Producer | int | Lost = wire.lacks(WANTED) or request_producer_id(wire, patience_s)
        wire.close()
        if isinstance(producer, int):
            waits = remedy(producer) is Remedy.WAIT
            producer = (Lost if waits else Unserved)(f"a producer's number is refused (error {producer})")
        if isinstance(producer, Producer):
            return Opened(producer, leaders.find(brokers, Wanted([name], (), WANTED, patience_s=patience_s), dialer))
        why = _plainest(why, producer)
    return why


def _plainest(one: Lost, other: Lost) -> Lost:
    return one if isinstance(one, Unserved) else other


class Opening:
    """Attempts until one succeeds, in a thread that ends with the result or with ``close``."""

    def __init__(self, bootstrap: str, name: str, dialer: Dialer, most_s: float) -> None:
        self.why = ""
        self._bootstrap, self._brokers = bootstrap, leaders.addresses(bootstrap)
        self._name, self._dialer, self._most_s = name, dialer, most_s
        self._closed, self._over = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._result: Opened | Unserved | None = None
        threading.Thread(target=self._run, name="kafka-opening", daemon=True).start()

    def result(self, wait_s: float = 0.0) -> Opened | Unserved | None:
        """The result, once; None as long as no broker has decided."""
        if not self._over.wait(wait_s):
            return None
        with self._lock:
            found, self._result = self._result, None
        return found

    def close(self) -> None:
        """End it; safe to call twice."""
        with self._lock:
            self._closed.set()
            found, self._result = self._result, None
        _close(found)

    def _run(self) -> None:
        pause_s, patience_s, warned_s = _LEAST_PAUSE_S, leaders.CONNECT_S, float("-inf")
        while not self._closed.is_set():
            found = open_once(self._brokers, self._name, self._dialer, patience_s)
            if isinstance(found, Opened | Unserved):
                self._end(found)
                return
            self.why = found.why
            if time.monotonic() - warned_s > _WARN_S:
                warned_s = time.monotonic()
                logger.warning(
                    "Kafka %s: no broker lets this node write yet (%s); retrying", self._bootstrap, found.why
                )
            self._closed.wait(pause_s)
            self._brokers = [*self._brokers[1:], *self._brokers[:1]]
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)
            patience_s = max(leaders.CONNECT_S, min(2 * patience_s, self._most_s))

    def _end(self, found: Opened | Unserved) -> None:
        with self._lock:
            if not self._closed.is_set():
                self._result = found
                self._over.set()
                return
        _close(found)


def _close(found: Opened | Unserved | None) -> None:
    if isinstance(found, Opened) and isinstance(found.found, Found):
        for wire in found.found.wires.values():
            wire.close()
