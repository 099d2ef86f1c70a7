"""The job of ``jobs_mixed`` where partitions may fall silent; a record costs so much that a batch outlasts a silence.

The answers are those of ``jobs_mixed``: in a backlog no partition is idle.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from holon import Job, Json, Source
from tests.integration import jobs_mixed
from tests.integration.jobs_mixed import INPUT, Event

IDLE_TIMEOUT_MS = 100
SILENCE_MS = 1000
"""Longer than producers on a busy machine pause."""
ROUNDS = 4000
"""About 2 ms on one quiet core."""


def slowly(event: Event) -> int:
    """The event's time, after much work."""
    hashlib.pbkdf2_hmac("sha256", b"event", b"%d" % event.id, ROUNDS)
    return event.ts


def job() -> Job[Event]:
    """As ``tests.integration.jobs_idle:job``."""
    source = Source(INPUT, Json(Event), timestamp=slowly, idle_timeout_ms=IDLE_TIMEOUT_MS)
    return replace(jobs_mixed.job(), source=source)


def silent_job() -> Job[Event]:
    """As ``tests.integration.jobs_idle:silent_job``: the job of ``jobs_mixed``, of which a partition may be silent."""
    source = Source(INPUT, Json(Event), timestamp=jobs_mixed.time_of, idle_timeout_ms=SILENCE_MS)
    return replace(jobs_mixed.job(), source=source)
