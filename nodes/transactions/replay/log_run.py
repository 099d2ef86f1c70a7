"""Runs the epochs of a transactional job again from its log, and stops where the log differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from typing import Any

import msgspec

from nodes.errors import RunFailed
from nodes.log.contract import Log
from nodes.transactions.control_history import control_history
from nodes.transactions.job_start import answer_key, started
from nodes.transactions.topics import TransactionTopics
from nodes.transactions.upgrades.programs import loaded_version, version_record
from transactional import events as e
from transactional.describing import version_of
from transactional.epochs.appends import Append, AppendCommit, AppendReply
from transactional.epochs.ledger import FIRST_EPOCH
from transactional.epochs.messages import BadRecord, Commit, RecordPiece, Reply, Request, commit_message, reply_message
from transactional.epochs.pieces import RecordPieces
from transactional.epochs.sequencer import EpochConfig
from transactional.execution.crashing import Trying
from transactional.execution.tracing import Traced, shown, traced
from transactional.node import TransactionNode
from transactional.operators import Program
from transactional.program_versions import KnownPrograms, ProgramVersion
from transactional.requests.replies import ascending
from transactional.requests.requests import RequestAdmission

WHOLE = 1 << 60
KEPT_EPOCHS = 1000
CHUNK = 1000


class LoggedRequest(msgspec.Struct):
    """A request and its place: number ``index`` in the record at ``offset`` of request partition ``partition``."""

    id: str
    operator: str
    key: str
    function: str
    partition: int
    offset: int
    index: int


class Differs(msgspec.Struct):
    """The log's values, and the computed ones. ``tids``: of transactions that may be the cause."""

    what: str
    logged: str
    computed: str
    tids: list[int]
    written: tuple[str, str] | None = None


class EpochRun(msgspec.Struct):
    """One epoch that was run again. ``calls``: the traces of functions; ``requests``: their requests, by TID."""

    epoch: int
    replies: int
    calls: list[Traced]
    differs: Differs | None = None
    requests: dict[int, LoggedRequest] = {}


def values_of(log: Log, topic: str, partition: int) -> Iterator[tuple[int, bytes]]:
    """All records up to the present end, with offsets. Raises ``RunFailed`` if the first ones are gone."""
    offset, end = log.start_offset(topic, partition), log.end_offset(topic, partition)
    if offset:
        raise RunFailed(
            f"topic {topic}, partition {partition}: records before offset {offset} are gone, and what functions do "
            f"follows from all that was before; a log can be run again from its beginning only. "
            f"Nodes that run with -D node.truncate_internal_topics=false delete nothing"
        )
    while offset < end:
        chunk = log.read(topic, partition, offset, max_records=CHUNK)
        yield from zip(chunk.offsets.tolist(), chunk.values, strict=True)
        offset = max(chunk.next_offset, offset + 1)


class LogReplay:
    """Of one job. Epochs before ``from_epoch`` are taken from the commits on the log, where they are there."""

    def __init__(self, log: Log, program: Program, from_epoch: int, to_epoch: int | None) -> None:
        self.log, self.program = log, program
        self.topics = TransactionTopics(program.name)
        self.from_epoch, self.to_epoch = from_epoch, to_epoch
        self.sequencers = log.partitions(self.topics.requests)
        self.partitions = log.partitions(self.topics.calls)  # also those that took part in some epochs alone
        self.calls: list[Traced] = []
        # Appends are compared here, and not written.
        key = answer_key(program.name, started(log, self.topics))
        config = EpochConfig(compress_bytes=WHOLE, piece_bytes=WHOLE, answer_key=key)
        end = log.end_offset(self.topics.epochs, 0)
        trying = Trying(follows=True)  # an epoch may be cut before the one before it is over
        self.node = TransactionNode(self._programs(), self.sequencers, config, trying=trying, history_end=end)
        self._replies = self._logged_replies()
        self._commits: dict[tuple[int, int], Commit] = {}
        self._incoming: dict[int, Iterator[tuple[int, bytes]]] = {}
        self._made: list[Append] = []
        for partition in range(self.partitions):
            before = list(self._logged_commits(partition))
            self.node.step(e.PartitionTaken(partition, commits=before), 0)
            self._incoming[partition] = values_of(log, self.topics.calls, partition)

    def _programs(self) -> KnownPrograms:
        """All versions of the job's program; those that are not the given one are loaded by their names."""
        numbers, begun = count(), started(self.log, self.topics)
        units = self.sequencers + self.program.partitions if begun is None else begun.partitions
        holding = control_history(self.log, self.topics, units).read().programs.holding

        def load(version: ProgramVersion) -> Program:
            return traced(loaded_version(version), self.calls, numbers)

        first = version_record(holding[0]) if holding else None
        own = traced(self.program, self.calls, numbers)
        return KnownPrograms(own, code=version_of(self.program).code, first=first, load=load)

    def run(self) -> Iterator[EpochRun]:
        """Epoch after epoch, up to the last that is over, or the first that differs.

        Where messages between partitions differ, and one record of the log ends several epochs, the first of these is
        named.
        """
        ledger, done = self.node.ledger, FIRST_EPOCH - 1
        for offset, value in values_of(self.log, self.topics.epochs, 0):
            self.node.receive(e.EpochsRead([value], offset + 1))
            if ledger.done == done:
                continue  # partitions run an epoch once all its barriers are known, and compare each with theirs
            stopped = self._catch_up()
            for number in range(done + 1, ledger.done + 1) if stopped is None else ():
                run = self._over(number)
                if number >= self.from_epoch:
                    yield self._named(run)
                if run.differs is not None or number == self.to_epoch:
                    return
            if stopped is not None:
                yield self._named(EpochRun(done + 1, 0, self.calls, stopped))
                return
            done = ledger.done
            self.node.receive(e.EpochsCovered(done - KEPT_EPOCHS))
        stopped = self._last_epoch()
        if stopped is not None:
            yield self._named(EpochRun(done + 1, 0, self.calls, stopped))

    def _named(self, run: EpochRun) -> EpochRun:
        """With the requests of those transactions that have no reply yet, if something differs."""
        if run.differs is not None:
            missing = sorted({*run.differs.tids, *(call.tid for call in run.calls)} - {*run.requests})
            run.requests |= {tid: request for tid in missing if (request := self.request(tid)) is not None}
        return run

    def request(self, tid: int) -> LoggedRequest | None:
        """The request of a transaction; None if it began long before."""
        ledger = self.node.ledger
        for number in range(ledger.done + 1, max(FIRST_EPOCH, ledger.done - KEPT_EPOCHS) - 1, -1):
            epoch, sequencer = ledger.epoch(number), tid % self.sequencers
            cut = epoch.cuts.get(sequencer)
            if cut is None or epoch.base is None or not 0 <= tid // self.sequencers - epoch.base < cut.count:
                continue
            found = self._requests(sequencer, cut.from_offset, cut.to_offset)[tid // self.sequencers - epoch.base]
            return LoggedRequest(
                found.id, found.operator, found.key, found.function, sequencer, found.offset, found.index
            )
        return None

    # --- one epoch --------------------------------------------------------------------------------------------------

    def _catch_up(self) -> Differs | None:
        """Run in all partitions the epochs that are over in the ledger."""
        stopped = self._step(e.Ticked())
        while stopped is None and min(each.epoch for each in self.node.partitions.values()) <= self.node.ledger.done:
            sending = any(each.is_sending for each in self.node.partitions.values())
            stopped = self._step(e.Ticked()) if sending else self._read_calls()
        return stopped

    def _step(self, event: e.Event) -> Differs | None:
        try:
            self._made += self.node.step(event, 0)
        except AssertionError as error:  # Nondeterministic, or what follows from it
            return Differs(
                "messages between partitions",
                "what the barriers on the log name",
                str(error),
                list(getattr(error, "tids", ())),
            )
        return None

    def _read_calls(self) -> Differs | None:
        """The next records of the partitions that are behind."""
        for number, partition in sorted(self.node.partitions.items()):
            if partition.epoch <= self.node.ledger.done:
                read = self._next_calls(number)
                if read is None:
                    raise RunFailed(
                        f"topic {self.topics.calls}, partition {number}: records of epoch {partition.epoch} are gone; "
                        f"all epochs before it were the same"
                    )
                stopped = self._step(read)
                if stopped is not None:
                    return stopped
        return None

    def _next_calls(self, number: int) -> e.CallsRead | None:
        read = list(islice(self._incoming[number], CHUNK))
        return e.CallsRead(number, [offset for offset, _ in read], [value for _, value in read]) if read else None

    def _last_epoch(self) -> Differs | None:
        """One that is not over: perhaps because its nodes have found that they disagree with its barriers."""
        stopped = self._step(e.Ticked())
        for number in range(self.partitions):
            while stopped is None and (read := self._next_calls(number)) is not None:
                stopped = self._step(read)
        return stopped

    def _over(self, number: int) -> EpochRun:
        """Compare what an epoch has made with what the log has."""
        decision = self.node.ledger.epoch(number).decision
        failed = {} if decision is None else decision.failed
        hung = {tid for tid, failure in failed.items() if failure.kind == "TimedOut"}  # how far they came is chance
        calls = [call for call in self._calls_of(number) if call.tid not in hung]
        replies: dict[tuple[int, int, int], Reply] = {}
        commits: dict[int, Commit] = {}
        later: list[Append] = []
        for append in self._made:
            match append:
                case AppendReply(partition, value):
                    record = reply_message(value)
                    if record.epoch > number:
                        later.append(append)
                    replies.update(
                        ((partition, record.epoch, at), each)
                        for at, each in enumerate(record.replies, record.first)
                        if record.epoch == number
                    )
                case AppendCommit(partition, value):
                    message = commit_message(value)
                    assert isinstance(message, Commit)
                    if message.epoch > number:
                        later.append(append)
                    else:
                        commits[partition] = message
                case _:
                    pass
        self._made = later
        differs = None
        if number >= self.from_epoch:
            differs = self._compared_replies(number, replies) or self._compared_commits(number, commits)
        return EpochRun(number, len(replies), calls, differs, _requests_by_tid(replies.values(), calls))

    def _calls_of(self, number: int) -> list[Traced]:
        """Functions of this epoch and their acts; one record of the epochs topic may end several."""
        following = self.node.ledger.epoch(number + 1).base
        if following is None:
            ours, self.calls[:] = list(self.calls), []
            return ours
        ours = [call for call in self.calls if call.tid // self.sequencers < following]
        self.calls[:] = [call for call in self.calls if call.tid // self.sequencers >= following]
        return ours

    def _compared_replies(self, number: int, made: dict[tuple[int, int, int], Reply]) -> Differs | None:
        logged = self._replies.pop(number, {})
        for name in sorted({*made, *logged}):
            mine, theirs = made.get(name), logged.get(name)
            if mine != theirs and theirs is not None:  # else the nodes have stopped before they replied
                what = f"reply {name[2]} of state partition {name[0]} in epoch {number}"
                tids = sorted({each.tid for each in (mine, theirs) if each is not None})
                return Differs(what, _outcome(theirs), _outcome(mine), tids)
        return None

    def _compared_commits(self, number: int, made: dict[int, Commit]) -> Differs | None:
        for partition in range(self.partitions):
            theirs, mine = self._commits.pop((partition, number), None), made.get(partition)
            if theirs is None:
                continue  # who ran it died before it was logged
            logged = _written(theirs)
            computed = {} if mine is None else _written(mine)
            for key in sorted({*logged, *computed}):
                if logged.get(key, ()) != computed.get(key, ()):
                    what = f"state of {key[0]} {key[1]!r} after epoch {number}"
                    return Differs(what, _value(logged, key), _value(computed, key), [], key)
        return None

    # --- the log ----------------------------------------------------------------------------------------------------

    def _logged_replies(self) -> dict[int, dict[tuple[int, int, int], Reply]]:
        found: dict[int, dict[tuple[int, int, int], Reply]] = {}
        for partition in range(self.partitions):
            records = (value for _, value in values_of(self.log, self.topics.replies, partition))
            for each in ascending(_decoded(reply_message, records)):
                found.setdefault(each.epoch, {})[partition, each.epoch, each.n] = each.reply
        return found

    def _logged_commits(self, partition: int) -> Iterator[bytes]:
        """Remember the commits to compare with; gives those of epochs that are not run again."""
        pieces = RecordPieces()
        for _, value in values_of(self.log, self.topics.commits, partition):
            try:
                message = commit_message(value)
                if message.epoch < self.from_epoch:
                    yield value
                    continue
                if isinstance(message, RecordPiece):
                    whole = pieces.take(message)
                    message = message if whole is None else commit_message(whole)
            except BadRecord:
                continue
            if isinstance(message, Commit) and message.partition == partition:
                self._commits.setdefault((partition, message.epoch), message)

    def _requests(self, sequencer: int, start: int, end: int) -> list[Request]:
        key = self.node.config.answer_key
        admission, found, offset = RequestAdmission(self.program, sequencer, self.sequencers, WHOLE, key), [], start
        admission.versions = self.node.ledger.versions
        while offset < end:
            chunk = self.log.read(self.topics.requests, sequencer, offset, max_records=CHUNK)
            for at, value in zip(chunk.offsets.tolist(), chunk.values, strict=True):
                if at < end:
                    found += admission.admit(at, value)
            offset = max(chunk.next_offset, offset + 1)
        return found


def _requests_by_tid(replies: Iterable[Reply], calls: list[Traced]) -> dict[int, LoggedRequest]:
    roots = {call.tid: call for call in calls if call.root}
    return {
        each.tid: LoggedRequest(
            each.id, root.operator, root.key, root.function, each.sequencer, each.offset, each.index
        )
        for each in replies
        if (root := roots.get(each.tid)) is not None
    }


def _decoded(decode: Callable[[bytes], Any], values: Iterator[bytes]) -> Iterator[Any]:
    for value in values:
        try:
            yield decode(value)
        except BadRecord:
            continue


def _written(commit: Commit) -> dict[tuple[str, str], tuple[bytes | None]]:
    return {(operator, key): (value,) for operator, key, value in commit.writes}


def _value(written: dict[tuple[str, str], tuple[bytes | None]], key: tuple[str, str]) -> str:
    return shown(written[key][0]) if key in written else "not written"


def _outcome(reply: Reply | None) -> str:
    if reply is None:
        return "no reply"
    return str(reply.failure) if reply.result is None else shown(reply.result)
