"""The work of a transactional job on a real log, judged by one plain loop over its requests in commit order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nodes.log import Log
from nodes.transactions.topics import TransactionTopics
from transactional import Aborted, Program, Serial
from transactional.epochs.ledger import FIRST_EPOCH, Ledger
from transactional.epochs.messages import Replies, reply_message
from transactional.requests.replies import Numbered, ascending


def records(log: Log, topic: str, partition: int) -> dict[int, bytes]:
    """All records of a partition, by offset."""
    found: dict[int, bytes] = {}
    offset, end = log.start_offset(topic, partition), log.end_offset(topic, partition)
    while offset < end:
        chunk = log.read(topic, partition, offset)
        found.update(zip(chunk.offsets.tolist(), chunk.values, strict=True))
        offset = max(chunk.next_offset, offset + 1)
    return found


@dataclass
class Replayed:
    """State after all, and what the run has met. ``repeats``: reply records that a reader drops."""

    serial: Serial
    replies: int
    repeats: int
    reruns: int
    epochs: int


class Replay:
    """Of one job on one log, whose nodes may still run but have answered everything."""

    def __init__(self, log: Log, program: Program) -> None:
        self.log = log
        self.program = program
        self.topics = TransactionTopics(program.name)
        self.sequencers = log.partitions(self.topics.requests)
        self.ledger = Ledger(program, self.sequencers)
        for value in records(log, self.topics.epochs, 0).values():
            self.ledger.apply(value)

    def check(self) -> Replayed:
        """Raises ``AssertionError`` where a reply is not that of the plain loop, or a request has not exactly one."""
        requests = {name: asked for s in range(self.sequencers) for name, asked in self._requests(s)}
        written = [list(self._replies(p)) for p in range(self.log.partitions(self.topics.replies))]
        read = [reply for replies in written for reply in ascending(replies)]
        answered = sorted((each.reply.sequencer, each.reply.offset, each.reply.index) for each in read)
        assert answered == sorted(requests), "each request has one reply"
        all_written = sum(len(record.replies) for records_ in written for record in records_)
        done = Replayed(Serial(self.program), len(read), all_written - len(read), 0, self.ledger.done)
        by_tid: dict[int, Numbered] = {}
        for each in read:
            if each.reply.tid >= 0:
                by_tid.setdefault(each.reply.tid, each)  # the first: later ones are replies to the same id again
        for tid, time_ms in self._order(by_tid, done):
            reply = by_tid[tid].reply
            asked = requests[reply.sequencer, reply.offset, reply.index]
            target = self.program.target(asked["operator"], asked["key"], asked["function"], asked.get("args"))
            expected = done.serial.run(target, tid, time_ms)
            got: bytes | Aborted | None = reply.result if reply.failure is None else reply.failure
            assert got == expected, f"TID {tid}, {asked}: replied {got!r}, in series {expected!r}"
        return done

    def _order(self, by_tid: dict[int, Numbered], done: Replayed) -> Iterator[tuple[int, int]]:
        times: dict[int, int] = {}
        by_epoch: dict[int, list[int]] = {}
        for tid, each in by_tid.items():
            by_epoch.setdefault(each.epoch, []).append(tid)
        for number in range(FIRST_EPOCH, self.ledger.done + 1):
            epoch = self.ledger.epoch(number)
            for s, cut in epoch.cuts.items():
                times.update({self.ledger.tid(number, s, index): cut.time_ms for index in range(cut.count)})
            assert epoch.outcome is not None
            again = [tid for tid, _, _ in epoch.outcome.outcomes]
            done.reruns += len(again)
            for tid in (*sorted(set(by_epoch.get(number, [])) - set(again)), *again):
                yield tid, times[tid]

    def _requests(self, sequencer: int) -> Iterator[tuple[tuple[int, int, int], dict[str, Any]]]:
        """By sequencer, offset, and number in the record."""
        for offset, value in records(self.log, self.topics.requests, sequencer).items():
            asked = json.loads(value)
            for index, each in enumerate(asked if isinstance(asked, list) else [asked]):
                yield (sequencer, offset, index), each

    def _replies(self, partition: int) -> Iterator[Replies]:
        for value in records(self.log, self.topics.replies, partition).values():
            yield reply_message(value)
