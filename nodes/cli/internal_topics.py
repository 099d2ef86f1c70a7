"""Which topics of a log are internal: only their own job reads or writes them."""

from __future__ import annotations

from collections.abc import Collection

from nodes.streams.jobs import INTERNAL
from nodes.transactions.topics import TransactionTopics, jobs_among


def internal_topics(topics: Collection[str]) -> frozenset[str]:
    """Those of streaming jobs, and those of transactional ones but for requests and replies."""
    found = {topic for topic in topics if topic.startswith(INTERNAL)}
    for job in jobs_among(topics):
        own = TransactionTopics(job)
        found |= {own.epochs, own.calls, own.commits, own.control, own.control_checkpoints, own.heartbeats}
    return frozenset(found)
