"""A state partition: runs its part of one epoch after the other, round by round, and keeps what is committed.

Everything it sends is a function of the log. So two owners of a partition send the same, and a new owner that folds the
log again sends what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter

from transactional.conflicts.detection import Received, Reexecution
from transactional.conflicts.nondeterminism import parted, timed_out_alone
from transactional.conflicts.read_set_snapshots import read_set_snapshot_of
from transactional.epochs.appends import Append, AppendCalls, AppendCommit, AppendEpochs, AppendReply
from transactional.epochs.copies import ANY_STEPS, MoveSteps
from transactional.epochs.epoch import Epoch
from transactional.epochs.ledger import FIRST_EPOCH, Ledger
from transactional.epochs.messages import (
    BadRecord,
    CallMessage,
    Calls,
    Commit,
    Forward,
    Kind,
    Reply,
    Request,
    RoundBarrier,
    TimeoutAcknowledgement,
    WireCall,
    WireResult,
    addressed,
    to_bytes,
)
from transactional.epochs.pieces import WHOLE_BYTES
from transactional.epochs.received_calls import ReceivedCalls
from transactional.execution.crashing import Caution, NextRound
from transactional.execution.epoch_in_work import RunningEpoch
from transactional.execution.execution import Execution
from transactional.execution.site import Site
from transactional.operators import StateKey
from transactional.requests.replies import ReplyBook, records_of
from transactional.state.logged_commits import LoggedCommits
from transactional.state.moving import Moves
from transactional.state.restored import RestoredState
from transactional.state.shares import Shares
from transactional.state.snapshot_request import SnapshotRequest
from transactional.state.snapshots import FORMAT_VERSION, LedgerState, PartitionState, StateSnapshot
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store
from transactional.tally import TransactionTally


class StatePartition:
    """One partition of every operator, with its own executions, replies and state.

    ``replied``: the identity of the last reply that is known to be on the log; earlier ones are not written again.
    ``inline_bytes``: what a round of all partitions sends up to this size travels in its barriers.
    """

    def __init__(
        self,
        ledger: Ledger,
        number: int,
        *,
        id_window: int,
        replied: tuple[int, int] = (0, 0),
        inline_bytes: int = 0,
        move_steps: MoveSteps = ANY_STEPS,
        new_store: Callable[[], Store | SpillingStore] = Store,
    ) -> None:
        self.ledger = ledger
        self._all_inline_bytes = inline_bytes
        self._shares = Shares.of(ledger.program.limits, inline_bytes, ledger.partitions(ledger.done + 1))
        self.number = number
        self.epoch = FIRST_EPOCH
        self.store = new_store()
        self.replies = ReplyBook(id_window)
        self.committed = 0
        self.tally = TransactionTally()
        self.expects = False
        """Whether the ledger counts this partition's records before it reads them: what it makes goes to the log."""
        self._replied = replied
        self._running = self._none_running()
        self.received = ReceivedCalls(number)
        self._begun: LedgerState | None = None  # while the log may still hold timeout proposals of its epochs
        self.commits_offset = 0
        """Up to this offset, commits are of epochs before the present one: set by their writer."""
        self._commits = LoggedCommits(number, FIRST_EPOCH)
        self._logged: Commit | None = None  # of the present epoch
        self.writes = 0
        self._snapshot_request = SnapshotRequest()
        self._caution = Caution(ledger.crashing, number)
        self._moves = Moves(ledger, number, move_steps)

    # --- the log ----------------------------------------------------------------------------------------------------

    def receive(self, offset: int, message: CallMessage, data: bytes) -> None:
        """A record of this partition's calls; it counts once a cut or barrier names it. Raises ``BadRecord``."""
        self.received.take(offset, message, data, self.epoch)

    @property
    def position(self) -> int:
        """Up to this offset, calls were read."""
        return self.received.position

    @property
    def calls_needed(self) -> int:
        """Up to this offset, calls are of epochs before the present one."""
        return self.received.needed

    def want_snapshot(self, *, whole: bool = False) -> None:
        """Make one at the next end of an epoch, or now: of what has changed since the last one, or of all."""
        self.writes = 0
        self._snapshot_request.request(whole=whole)
        self._maybe_snapshot()

    def take_snapshot(self) -> tuple[int, StateSnapshot] | None:
        """One that was made, with its epoch; durable once this partition's replies so far are.

        It rests upon the one before, or upon what ``restore`` began with. No other is made before it is taken.
        A node that begins with it writes nothing of its epochs any more, so all their records are on the log.
        """
        return self._snapshot_request.take(self.ledger.logged)

    @property
    def has_snapshot(self) -> bool:
        """Whether a snapshot is made that was not taken yet."""
        return self._snapshot_request.is_made

    @property
    def kept_commits(self) -> int:
        """Commits on the log that this partition has not come to yet."""
        return len(self._commits)

    @property
    def is_sending(self) -> bool:
        """Whether it has more to send of what moves away from it, or to find: time alone brings that."""
        return self._moves.are_sending or (self.expects and not self._running.round and self._moves.copying.is_at_work)

    def _maybe_snapshot(self) -> None:
        """Not while this partition is behind the ledger, inside an epoch, or changed already for the next one."""
        if not self._running.round and self.epoch == self.ledger.done + 1 != self._moves.done_before:
            self._snapshot_request.make(self.epoch - 1, self._snapshot)

    def _snapshot(self, since: int | None) -> StateSnapshot:
        all_replies = self.replies.all_changed
        remembered, order = self.replies.changes(whole=since is None)
        rows = self.store.copied() if since is None else self.store.changed
        state = PartitionState(
            FORMAT_VERSION, self.number, self.calls_needed, self.commits_offset, self.committed,
            self.ledger.snapshot(), [], remembered, order, since, all_replies, self._moves.copying.kept(self.epoch - 1),
        )  # fmt: skip
        self.store.changed = {}
        return StateSnapshot(state, rows)

    def restore(self, state: RestoredState) -> None:
        """Go on from there. The ledger still holds all epochs after it. Read the calls from ``position`` on."""
        assert state.partition == self.number, f"a snapshot of partition {state.partition} for partition {self.number}"
        self.epoch, self._begun = state.ledger.done + 1, state.ledger
        self.received.position = state.calls_offset
        self.commits_offset = state.commits_offset
        self.committed = state.committed
        self.store, self.replies = state.store, state.replies
        self._running = self._none_running()
        self._snapshot_request.since = state.ledger.done
        self.received.forget_copies(self._moves.copying.restore(state.ledger, state.written))

    def learn(self, values: Iterable[bytes]) -> int:
        """Records in which earlier owners have logged epochs, which this one need not run; gives how many are none."""
        self._commits, bad = LoggedCommits(self.number, self.epoch), 0
        for value in values:
            try:
                self._commits.add(value)
            except BadRecord:
                bad += 1
        return bad

    def advance(self, out: list[Append]) -> bool:
        """Do the next thing that the log allows; False if it allows nothing, or the rest is for the next step."""
        if self._begun is not None and self.ledger.hanging.check_begun(self.number, self._begun):
            self._begun = None
        epoch, running = self.ledger.epoch(self.epoch), self._running
        self._caution.check(self.epoch, running.round, running.without)
        if running.round == 0:
            if self._moves.are_due(self.epoch):
                return self._change_homes(out)
            if self.expects and self.ledger.layouts.plans:
                self._moves.copying.advance(self.epoch, self.store, self.replies, self.received, out)
            if not self.ledger.layouts.is_member(self.number, self.epoch):
                return self.ledger.done >= self.epoch and self._end_epoch()
            if self._commits:
                self._find_commit()
            return self._first_round(epoch, out) if self._logged is None else self._take_over(epoch, self._logged, out)
        if epoch.last_round is None or running.round < epoch.last_round:
            return self._next_round(epoch, out)
        if not running.committed:
            self._commit(epoch)
            return True
        if epoch.outcome is None:
            return self._ship(epoch, out)
        self._complete(epoch, out)
        return True

    def _change_homes(self, out: list[Append]) -> bool:
        changed = self._moves.advance(self.epoch, self.store, self.replies, self.received, out)
        self.writes += changed or 0
        return changed is not None

    # --- rounds -----------------------------------------------------------------------------------------------------

    def _first_round(self, epoch: Epoch, out: list[Append]) -> bool:
        if not self.ledger.is_sequenced(self.epoch) or self.ledger.done < self.epoch - 1:
            return False
        found = self.received.of(self.epoch, [epoch.cuts[s] for s in sorted(epoch.cuts)])
        return found is not None and self._run(epoch, partial(self._run_first, epoch, found), out)

    def _run(self, epoch: Epoch, step: Callable[[list[Append]], None], out: list[Append]) -> bool:
        """One round, unless records about functions that end their process prevent it."""
        round_ = self._running.round + 1
        known = epoch.barrier(round_, self.number) is not None
        last_cut, done = self.ledger.last_cut, self.ledger.done
        coming = NextRound(self.epoch, round_, done, last_cut, is_known=known, is_owned=self.expects)
        if not (held := self._caution.holds_back(coming, partial(step, []), out)):
            step(out)
        return not held

    def _run_first(self, epoch: Epoch, forwards: Sequence[CallMessage], out: list[Append]) -> None:
        running, placement = self._running, self.ledger.layouts.placement(self.epoch)
        program = self.ledger.versions.program(self.epoch)
        running.site.use(program, placement.places)
        self._shares = Shares.of(program.limits, self._all_inline_bytes, placement.partitions)
        running.leave_out(self.ledger.crashing.accused(self.epoch, self.number))
        roots = [
            (each.tid, each.time_ms, request)
            for each in epoch.carried.values()
            if placement.place((request := each.request).operator, request.key) == self.number
        ]
        for forward in forwards:
            assert isinstance(forward, Forward), (
                f"partition {self.number}: a cut of epoch {self.epoch} names no forward"
            )
            time_ms, step = epoch.cuts[forward.sequencer].time_ms, self.ledger.sequencers
            first = self.ledger.tid(self.epoch, forward.sequencer, 0)
            for index, request in zip(forward.numbers, forward.requests, strict=True):
                if request.kind is Kind.RUN:
                    roots.append((first + index * step, time_ms, request))
                else:
                    running.aside.append(request)
        going_on: set[tuple[int, str]] = set()
        for tid, time_ms, request in sorted(roots, key=itemgetter(0)):
            if request.continued is not None:
                name = request.sequencer, request.id
                if name in going_on or not self.replies.admits(request):
                    continue  # a second owner's, or a stranger's
                going_on.add(name)
            running.roots[tid] = request
            if tid not in running.executions:
                running.executions[tid] = execution = Execution(running.site, tid, time_ms)
                execution.start(request)
        self._end_round(epoch, running.roots.items(), out)

    def _next_round(self, epoch: Epoch, out: list[Append]) -> bool:
        barriers = epoch.barriers.get(self._running.round, {})
        if len(barriers) < self._shares.partitions:
            return False
        received = self.received.of(self.epoch, [barriers[p] for p in sorted(barriers)])
        return received is not None and self._run(epoch, partial(self._run_next, epoch, received), out)

    def _run_next(self, epoch: Epoch, received: Sequence[CallMessage], out: list[Append]) -> None:
        self._running.leave_out(self.ledger.crashing.accused(self.epoch, self.number))
        items: list[tuple[int, WireCall | WireResult]] = []
        for calls in received:
            assert isinstance(calls, Calls), f"partition {self.number}: a barrier of epoch {self.epoch} names no calls"
            items += [(item.tid, item) for item in calls.items]
        items.sort(key=itemgetter(0))  # of one transaction they keep their order
        arriving: dict[int, list[WireCall | WireResult]] = {}
        for tid, item in items:
            arriving.setdefault(tid, []).append(item)
        self._running.revalidate(epoch, self._shares.share, arriving)
        self._end_round(epoch, items, out)

    def _end_round(self, epoch: Epoch, received: Iterable[tuple[int, Received]], out: list[Append]) -> None:
        self.store.check()  # before anything of it leaves: a full disk is no outcome of a transaction
        self._running.round = round_ = self._running.round + 1
        self._running.without = without = self.ledger.crashing.count(self.epoch, self.number, round_)
        sent, self._running.site.sent = self._running.site.sent, {}
        self._running.reexecution.add(received, sent)
        records = [(to, to_bytes(Calls(self.number, self.epoch, round_, items))) for to, items in sorted(sent.items())]
        sends, inline = addressed(records, self._shares.inline_bytes)
        if not inline:  # what has a next barrier was read there
            out += [AppendCalls(to, data) for to, data in records if epoch.barrier(round_ + 1, to) is None]
        contribution = None if sends else self._running.contribution(self._shares.share)
        barrier = RoundBarrier(self.number, self.epoch, round_, sends, contribution, inline, without)
        known = epoch.barrier(round_, self.number)
        if known is None:
            out.append(AppendEpochs(to_bytes(barrier)))
            if self.expects and all(each.timed_out is None for each in self._running.executions.values()):
                self.ledger.expect(barrier)  # but how far a function came that has run too long is chance
        elif known != barrier:
            raise parted(known, barrier, sent, self._running.roots)

    # --- the end of an epoch ----------------------------------------------------------------------------------------

    def _commit(self, epoch: Epoch) -> None:
        """Keep the writes of what is decided."""
        decision, running = epoch.decision, self._running
        assert decision is not None
        for tid, each in running.executions.items():
            if each.timed_out is not None and (tid in decision.rerun or tid not in decision.failed):
                raise timed_out_alone(self.number, self.epoch, each)
        running.commit(decision)
        self.store.apply(running.writes)
        self.writes += len(running.writes)

    def _ship(self, epoch: Epoch, out: list[Append]) -> bool:
        if self._running.read_set_logged:
            return self._acknowledge_timeouts(out)
        self._running.read_set_logged = True
        if self.number not in epoch.read_sets:
            running, place = self._running, self.ledger.layouts.placement(self.epoch).place
            read_set = read_set_snapshot_of(self.number, epoch, self.store, running.executions, running.roots, place)
            out.append(AppendEpochs(to_bytes(read_set)))
            if self.expects:
                self.ledger.expect(read_set)
        return True

    def _acknowledge_timeouts(self, out: list[Append]) -> bool:
        count = len(self.ledger.hanging.of(self.epoch))
        if count == self._running.acknowledged:
            return False
        self._running.acknowledged = count
        out.append(AppendEpochs(to_bytes(TimeoutAcknowledgement(self.number, self.epoch, count))))
        return True

    def _complete(self, epoch: Epoch, out: list[Append]) -> None:
        assert epoch.outcome is not None
        self.store.apply(mine := epoch.outcome.writes_at.get(self.number, {}))
        self.writes += len(mine)
        self._running.writes.update(mine)
        outcomes = self._running.outcomes
        outcomes += epoch.outcome.outcomes_at.get(self.number, [])
        self.ledger.raised.epoch_ended(epoch, self._running)
        self.committed += self.tally.epoch(epoch, [outcome for _, _, outcome in outcomes], self._running.roots)
        postponed = [each.request for each in epoch.outcome.postponed]
        ends = {s: cut.to_offset for s, cut in epoch.cuts.items()}
        self._moves.copying.begin_notes(self.epoch, self.replies)
        replies, calls = self.replies.of_epoch(outcomes, self._running.aside, postponed, ends)
        shown = self.replies.shown(replies)
        self.tally.replies += len(shown)
        self._reply(shown, out)
        self._log_commit(replies, calls, out)
        for execution in self._running.executions.values():
            execution.close()
        self._running.site.written.clear()  # or they would hold each other
        writes, self._running = self._running.writes, self._none_running()
        self._end_epoch(writes)

    def _reply(self, replies: list[Reply], out: list[Append]) -> None:
        out += [AppendReply(self.number, to_bytes(record)) for record in records_of(self.epoch, replies, self._replied)]

    def _log_commit(self, replies: list[Reply], calls: list[Request | bytes], out: list[Append]) -> None:
        writes = [(operator, key, value) for (operator, key), value in self._running.writes.items()]
        if not replies and not writes:
            return
        hung = sorted(self.ledger.hanging.of(self.epoch))
        commit = Commit(self.number, self.epoch, self.committed, writes, replies, calls, hung)
        if len(data := to_bytes(commit)) <= WHOLE_BYTES:
            out.append(AppendCommit(self.number, data))

    def _find_commit(self) -> None:
        bad = self._commits.bad
        self._logged = self._commits.take(self.epoch) or self._logged
        self.ledger.bad_messages += self._commits.bad - bad

    def _take_over(self, epoch: Epoch, commit: Commit, out: list[Append]) -> bool:
        """Keep what an earlier owner has logged of an epoch that is over, and reply what it has not."""
        self.ledger.hanging.check(commit, self.ledger.done)
        if self.ledger.done < self.epoch:
            return False
        self.store.apply(writes := {(operator, key): value for operator, key, value in commit.writes})
        self.writes += len(writes)
        self.committed = commit.committed
        self._moves.copying.begin_notes(self.epoch, self.replies)
        self.replies.recall(commit.replies, commit.calls, {s: cut.to_offset for s, cut in epoch.cuts.items()})
        self._reply(self.replies.shown(commit.replies), out)
        self._logged = None
        return self._end_epoch(writes)

    def _end_epoch(self, writes: Mapping[StateKey, bytes | None] | None = None) -> bool:
        self._moves.copying.note(self.epoch, writes or {}, self.replies)
        self.epoch += 1
        self.received.forget_before(self.epoch)
        self._maybe_snapshot()
        return True

    def _none_running(self) -> RunningEpoch:
        site = Site(self.ledger.program, self.store, self.number, raised=self.ledger.raised)
        return RunningEpoch(site, Reexecution(site))
