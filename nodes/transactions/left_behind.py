"""What earlier owners of a state partition have left on the log, for who takes it over."""

from __future__ import annotations

from nodes.log.contract import Log
from nodes.transactions.topics import TransactionTopics
from transactional.messages import BadMessage, reply_message

TAIL_RECORDS = 100


def commits_from(log: Log, topics: TransactionTopics, partition: int, offset: int) -> list[bytes]:
    """What they have logged from this offset on, as far as it is kept; an epoch without can be run."""
    offset = max(offset, log.start_offset(topics.commits, partition))
    end, found = log.end_offset(topics.commits, partition), []
    while offset < end:
        chunk = log.read(topics.commits, partition, offset)
        found += chunk.values
        offset = max(chunk.next_offset, offset + 1)
    return found


def last_reply(log: Log, topics: TransactionTopics, partition: int) -> tuple[int, int]:
    """The identity of the last reply that is on the log."""
    end = log.end_offset(topics.replies, partition)
    start = max(log.start_offset(topics.replies, partition), end - TAIL_RECORDS)
    last = (0, 0)
    while start < end:
        chunk = log.read(topics.replies, partition, start)
        for value in chunk.values:
            try:
                record = reply_message(value)
            except BadMessage:
                continue
            last = max(last, (record.epoch, record.first + len(record.replies) - 1))
        start = max(chunk.next_offset, start + 1)
    return last
