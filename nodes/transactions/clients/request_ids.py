"""Ids that hold where they were made, so that a request that comes too late is refused and never runs again."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from nodes.errors import Unreachable
from nodes.log.contract import Log
from transactional.requests.requests import DRAWN_BYTES, made_id, partition_of, since_of

END_KNOWN_S = 1.0
"""An end offset is fetched again after so long, or so many ids: as far as it is behind, ids expire earlier."""
_END_KNOWN_IDS = 1_000


class NoReply(Unreachable):
    """There is no reply yet. ``call`` again with this ``request_id`` and ``since`` is a retry."""

    def __init__(self, text: str, request_id: str, since: int) -> None:
        super().__init__(f"{text} A retry with the request id {request_id} and since={since} runs it at most once")
        self.request_id = request_id
        self.since = since


class RequestIds:
    """Makes ids for a job's clients; ``topic`` holds the requests. Belongs to the thread of its log.

    ``draw``: so many random bytes, which no other client may draw.
    """

    def __init__(
        self,
        log: Log,
        topic: str,
        clock_s: Callable[[], float] = time.monotonic,
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._log = log
        self._topic = topic
        self.clock_s = clock_s
        self.draw = draw
        self.sequencers = log.partitions(topic)
        self._last = -1
        self._ends: dict[int, tuple[int, float, int]] = {}  # end offset, until when it counts, and for how many more

    def new(self) -> str:
        """An unused id, for one try and all its retries."""
        self._last = (self._last + 1) % self.sequencers
        since = self.end(self._last)
        while partition_of(name := made_id(since, self.draw(DRAWN_BYTES)), self.sequencers) != self._last:
            continue
        return name

    def since(self, name: str) -> int:
        """For the first try of an id: where it was made, or else where its partition ends now."""
        made_at = since_of(name)
        return self.end(partition_of(name, self.sequencers)) if made_at is None else made_at

    def end(self, partition: int) -> int:
        """Where the partition ended a moment ago."""
        end, until_s, left = self._ends.get(partition, (0, 0.0, 0))
        now_s = self.clock_s()
        if left <= 0 or now_s >= until_s:
            end, until_s, left = self._log.end_offset(self._topic, partition), now_s + END_KNOWN_S, _END_KNOWN_IDS
        self._ends[partition] = end, until_s, left - 1
        return end

    def seen(self, partition: int, offset: int) -> None:
        """A reply belongs to a request at this offset."""
        end, until_s, left = self._ends.get(partition, (0, 0.0, 0))
        if offset >= end:
            self._ends[partition] = offset + 1, until_s, left
