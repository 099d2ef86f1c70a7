"""A sender that writes on connections of Holon's own where the brokers serve these, and else by confluent-kafka.

Until a broker has decided it, records wait here in their order. A slow broker is waited for and decides nothing.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError

from nodes.compiled.loading import Compiled
from nodes.log.contract import LogError, LogUnavailable
from nodes.log.kafka.direct.connection import Unserved
from nodes.log.kafka.direct.opening import Opened, Opening, unknown_property
from nodes.log.kafka.direct.producer import MAX_RECORDS, BatchSender
from nodes.log.kafka.direct.security import Dialer
from nodes.log.kafka.errors import Connection
from nodes.log.kafka.producer import Sender
from nodes.log.kafka.record_columns import RecordColumns

logger = logging.getLogger(__name__)

_FIRST_WAIT_S, _SLICE_S = 0.1, 0.01
"""How long the first record waits for the choice of a sender; how often later waits check it."""
_Handed = tuple[str, int, RecordColumns, Callable[[int], None], float]
"""Topic, partition, records, callback, and the time when it was handed over."""


class ChosenSender(Sender):
    """As ``Sender``; ``otherwise`` makes the one of confluent-kafka. Belongs to one thread."""

    def __init__(
        self,
        loops: Compiled,
        config: Mapping[str, Any],
        connection: Connection,
        timeout_s: float,
        otherwise: Callable[[], Sender],
    ) -> None:
        super().__init__(config, connection, timeout_s)
        self._loops = loops
        self._otherwise = otherwise
        self._chosen: Sender | None = None
        self._opening: Opening | None = None
        self._dialer: Dialer | None = None
        self._early: deque[_Handed] = deque()
        self._early_bytes = self._early_records = 0
        self._most_bytes = config["queue.buffering.max.kbytes"] << 10
        self._gathers = False

    def send(
        self,
        name: str,
        partition: int,
        values: Sequence[bytes],
        headers: Sequence[bytes] | None,
        keys: Sequence[bytes | None] | None,
        done: Callable[[int], None],
    ) -> None:
        """Hand records over; where too much waits, wait until some of it has arrived."""
        if self._chosen is None:
            self._raise_failure()
            self._choose(name)
        if self._chosen is not None:
            self._chosen.send(name, partition, values, headers, keys, done)
            return
        records = RecordColumns(values, headers, keys)
        self._early.append((name, partition, records, done, time.monotonic()))
        self._early_bytes += records.size
        self._early_records += records.count
        while self._early_bytes > self._most_bytes or self._early_records > MAX_RECORDS:
            self._await_choice(_SLICE_S)

    def gather(self) -> None:
        self._gathers = True
        if self._chosen is not None:
            self._chosen.gather()

    def release(self) -> None:
        self._gathers = False
        if self._chosen is not None:
            self._chosen.release()

    @property
    def used(self) -> bool:
        """True once something was handed over."""
        return self._chosen is not None or self._opening is not None

    @property
    def stuck(self) -> bool:
        """Whether something waits that leaves with a later call of ``poll_acks``."""
        return bool(self._early) if self._chosen is None else self._chosen.stuck

    def poll_acks(self, wait: bool) -> None:
        """Call what waits for acknowledgements; raises if a record was not delivered."""
        if self._chosen is None:
            self._await_choice(0.0)
            while wait and self._early:
                self._await_choice(_SLICE_S)
        if self._chosen is not None:
            self._chosen.poll_acks(wait)

    def close(self) -> None:
        """Records still on their way may arrive, unheard of."""
        self._failed = LogUnavailable("the log is closed")
        if self._opening is not None:
            self._opening.close()
        if self._chosen is not None:
            self._chosen.close()

    def _choose(self, name: str) -> None:
        """Let a broker decide; the first topic is the one whose leaders are looked for along with it."""
        if self._opening is None:
            unknown = unknown_property(self._config)
            if unknown is not None:
                self._leave(f"property {unknown} is not obeyed otherwise")
                return
            self._dialer = Dialer(self._config)
            self._opening = Opening(self._config["bootstrap.servers"], name, self._dialer, self._timeout_s)
            self._await_choice(_FIRST_WAIT_S)
        else:
            self._await_choice(0.0)

    def _await_choice(self, timeout_s: float) -> None:
        """Whether it is decided; raises where that has taken too long for what waits."""
        self._raise_failure()
        found = None if self._opening is None else self._opening.result(timeout_s)
        if isinstance(found, Unserved):
            self._leave(found.why)
        elif isinstance(found, Opened):
            assert self._dialer is not None
            logger.info("Kafka %s: records are written on connections of Holon's own", self._connection.bootstrap)
            sender = BatchSender(self._loops, self._config, self._connection, self._timeout_s, self._dialer, found)
            self._hand_over(sender)
        elif self._early and time.monotonic() - self._early[0][-1] > self._timeout_s:
            assert self._opening is not None
            name, partition, *_ = self._early[0]
            self._failed = self._failure(KafkaError(KafkaError._MSG_TIMED_OUT, self._opening.why), name, partition)
            self._raise_failure()

    def _leave(self, why: str) -> None:
        logger.info("Kafka %s: records are written by confluent-kafka: %s", self._connection.bootstrap, why)
        self._hand_over(self._otherwise())

    def _hand_over(self, sender: Sender) -> None:
        """All that waits goes to the chosen one. If it fails there, nothing leaves any more."""
        self._chosen = sender
        early, self._early = self._early, deque[_Handed]()
        self._early_bytes = self._early_records = 0
        sender.gather()
        try:
            for name, partition, records, done, _ in early:
                sender.send(name, partition, *records.columns, done)
        except LogError as error:
            self._chosen, self._failed = None, error
            sender.close()
            raise
        if not self._gathers:
            sender.release()
