"""Records of a partition's earlier owners on the log, for the next owner."""

from __future__ import annotations

from nodes.log.contract import Log
from nodes.transactions.topics import TransactionTopics
from transactional.epochs.messages import BadRecord, reply_message
from transactional.operators import Program
from transactional.program_versions import VersionHistory
from transactional.requests.requests import RequestAdmission

TAIL_RECORDS = 100
BACK_RECORDS = 20
"""First step back in a request partition; the others are as long as what was found lets expect."""


def commits_from(log: Log, topics: TransactionTopics, partition: int, offset: int) -> list[bytes]:
    """Their records from this offset on, as far as they are kept; an epoch without can be run."""
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
            except BadRecord:
                continue
            last = max(last, (record.epoch, record.first + len(record.replies) - 1))
        start = max(chunk.next_offset, start + 1)
    return last


def ids_from(
    log: Log,
    topics: TransactionTopics,
    program: Program,
    sequencer: int,
    *,
    sequencers: int,
    needed: int,
    id_window: int,
    versions: VersionHistory | None = None,
) -> int:
    """Where to begin to read requests so that from ``needed`` on all ids are known that count.

    They count for so many offsets, and so many requests. A record may hold a list of them: then far fewer records do.
    """
    first = max(log.start_offset(topics.requests, sequencer), needed - id_window)
    at, known, step = needed, 0, BACK_RECORDS
    while at > first and known < id_window:
        end, at = at, max(first, at - step)
        admission = RequestAdmission(program, sequencer, sequencers, id_window)
        admission.versions = versions
        found = _in_lists(log, topics, admission, at, end)
        known += found
        lacking = -(-(id_window - known) * (end - at) // found) if found else 2 * step
        step = min(max(1, lacking), 8 * step)
    return at


def _in_lists(log: Log, topics: TransactionTopics, admission: RequestAdmission, offset: int, end: int) -> int:
    """Requests of these records whose ids are remembered; of single ones no offset has more than one."""
    while offset < end:
        chunk = log.read(topics.requests, admission.sequencer, offset, max_records=end - offset)
        for at, value in zip(chunk.offsets.tolist(), chunk.values, strict=True):
            if at < end and bytes(value[:1]) == b"[":
                admission.admit(at, value)
        offset = max(chunk.next_offset, offset + 1)
    return admission.known
