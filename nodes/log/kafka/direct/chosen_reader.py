"""The choice of a log's reader: over connections of our own, or by confluent-kafka where these are not wanted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import Consumer

from nodes.compiled.loading import Compiled
from nodes.log.kafka.confluent_reader import ConfluentReader, Reader
from nodes.log.kafka.direct.consumer import DirectReader


class ReaderChoice:
    """Readers of one log. ``not_directly``: why none over connections of our own may be; None: one may.

    ``requested_headers``: by topic, as the broker names it, the headers that its records are read with.
    """

    def __init__(self, consuming: Mapping[str, Any], not_directly: str | None) -> None:
        self.not_directly = not_directly
        self.requested_headers: dict[str, Collection[str]] = {}
        self._consuming = dict(consuming)

    def library(self, without_headers: str | None = None) -> ConfluentReader:
        """Reads by confluent-kafka. Raises ``KafkaException`` for a property that it does not know."""
        return ConfluentReader(Consumer(self._consuming), self.requested_headers, without_headers)

    def quickest(self, loops: Compiled, without_headers: str | None = None) -> Reader:
        """Reads over connections of our own, where that may be. ``without_headers``: as in ``ConfluentReader``."""
        library = self.library(without_headers)
        if self.not_directly:
            return library
        return DirectReader(library, loops, self._consuming, self.requested_headers, without_headers)
