"""The job of ``jobs_mixed`` by columns, in a node whose broker forgets a partition of its input once, unnoticed.

Only where the environment has ``FORGETS``: the topic's name on the broker.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from nodes.log.kafka.confluent_reader import Where
from nodes.log.kafka.direct.fetched import session
from tests.integration.jobs_mixed import by_columns as job

__all__ = ["job"]
FORGETS = "HOLON_TEST_FORGETS"
BEFORE = 20
"""So many requests are made before."""
Body = Callable[[int, int, int, Sequence[Any], Sequence[Where]], bytes]


def forgetful(body: Body, name: Where, before: int = BEFORE) -> tuple[Body, list[int]]:
    """Bodies of requests of which one lets the broker forget the partition; and which one that was."""
    forgot_at: list[int] = []

    def sent(wait_ms: int, number: int, epoch: int, places: Sequence[Any], forgotten: Sequence[Where]) -> bytes:
        if epoch > before and not forgot_at:
            forgot_at.append(epoch)
            places, forgotten = [place for place in places if place.where != name], [*forgotten, name]
        return body(wait_ms, number, epoch, places, forgotten)

    return sent, forgot_at


if FORGETS in os.environ:
    session.__dict__["_body"], _ = forgetful(session.__dict__["_body"], (os.environ[FORGETS], 0))
