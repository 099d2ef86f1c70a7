"""Functions that end their process: which epochs nodes have tried in vain, and which transactions the log accuses.

An incarnation of a node that has just taken work over logs an ``Attempt`` before it runs an epoch that is not over.
From the second attempt at an epoch on, its steps are tried in a process of their own first. The transaction that ends
that process is accused on the log (``Crashes``). The first record of a transaction counts, unless its partition has run
that round before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from transactional.conflicts.nondeterminism import crashed_elsewhere
from transactional.epochs.appends import Append, AppendEpochs
from transactional.epochs.messages import Attempt, Crashes, ReadSetSnapshot, Request, to_bytes
from transactional.errors import Aborted
from transactional.execution.hanging import Hung
from transactional.execution.rerun import Rerun

EVERYWHERE = -1
"""In place of a state partition: the rerun of an epoch, which every node makes."""
SUSPICIOUS_ATTEMPTS = 2
"""So many incarnations have to try an epoch until its steps are tried apart."""
_NOBODY: Mapping[int, Crashes] = {}


class DiedInTransaction(NamedTuple):
    """A step that was tried apart has ended its process while this transaction ran."""

    tid: int
    failure: Aborted


Apart = Callable[[Callable[[], object]], DiedInTransaction | None]
"""Tries a step in a process of its own, which writes nothing; None: it can be made."""


@dataclass(frozen=True, slots=True)
class Trying:
    """How a node tries. ``node``: its name, empty: it reports no attempts. ``apart`` None: it tries nothing so.

    ``follows``: it runs nothing of which the log does not have the barrier.
    """

    node: str = ""
    apart: Apart | None = None
    follows: bool = False


class CrashesHere(Exception):
    """A function ends its process, and on another node it did not: this one cannot go on."""


class Crashing:
    """Of one ledger: a fold over attempts and verdicts."""

    def __init__(self, records: Iterable[Attempt | Crashes] = ()) -> None:
        self.trying = Trying()
        self._attempts: dict[int, dict[int, set[str]]] = {}  # by epoch and partition: who has tried
        self._verdicts: dict[tuple[int, int], dict[int, Crashes]] = {}  # by epoch and partition, then TID
        self._void: set[tuple[int, int, int]] = set()  # epoch, partition, TID
        self._due: int | None = None  # an epoch whose rerun was due when this node began
        self._unpublished: list[Attempt] = []
        for each in records:
            if isinstance(each, Attempt):
                self.tried(each)
            else:
                self.accuse(each)

    # --- attempts ---------------------------------------------------------------------------------------------------

    def tried(self, attempt: Attempt) -> None:
        """Of the log."""
        self._attempts.setdefault(attempt.epoch, {}).setdefault(attempt.partition, set()).add(attempt.node)

    def has_tried(self, epoch: int, partition: int) -> bool:
        """Whether the log has the attempt of this incarnation."""
        return self.trying.node in self._attempts.get(epoch, {}).get(partition, ())

    def is_tried(self, epoch: int) -> bool:
        """Whether a node has begun with this epoch anew."""
        return epoch in self._attempts

    def is_suspicious(self, epoch: int) -> bool:
        """Whether it was tried so often that its steps are tried apart."""
        attempts = self._attempts.get(epoch)
        return attempts is not None and max(map(len, attempts.values())) >= SUSPICIOUS_ATTEMPTS

    def find_due(self, epoch: int) -> None:
        """This node has read all that was there, and the rerun of this epoch is due."""
        if self.trying.node and not self.has_tried(epoch, EVERYWHERE):
            self._due = epoch
            self._unpublished.append(Attempt(EVERYWHERE, epoch, self.trying.node))

    def holds_back(self, epoch: int) -> bool:
        """Whether the attempt of this incarnation to run the epoch again is not on the log yet."""
        return epoch == self._due and not self.has_tried(epoch, EVERYWHERE)

    def take_unpublished(self) -> list[Attempt]:
        """The messages for the epochs topic."""
        if not self._unpublished:
            return []
        unpublished, self._unpublished = self._unpublished, []
        return unpublished

    def try_apart(self, epoch: int, step: Callable[[], object]) -> DiedInTransaction | None:
        """The transaction that ends the process in this step of a suspicious epoch; None: the step can be made."""
        apart = self.trying.apart
        return apart(step) if apart is not None and self.is_suspicious(epoch) else None

    def run_again(
        self, epoch: int, read_sets: Sequence[ReadSetSnapshot], run: Callable[[], Rerun | Hung]
    ) -> Rerun | Hung:
        """The rerun of an epoch, tried apart where that is suspicious."""
        died = self.try_apart(epoch, run)
        if died is None:
            return run()
        roots = (root for read_set in read_sets for root in read_set.roots)
        return Hung(died.tid, request_of(died.tid, roots), died.failure)

    # --- verdicts ---------------------------------------------------------------------------------------------------

    def accuse(self, crashes: Crashes) -> bool:
        """Of the log, and not void; False if another one of the transaction has come first."""
        accused = self._verdicts.setdefault((crashes.epoch, crashes.partition), {})
        return accused.setdefault(crashes.tid, crashes) is crashes

    def pass_over(self, crashes: Crashes) -> None:
        """Of the log, and void: the partition has run that round."""
        self._void.add((crashes.epoch, crashes.partition, crashes.tid))

    def accused(self, epoch: int, partition: int) -> Mapping[int, Crashes]:
        """Whose functions the partition does not run, from a round of this epoch on."""
        return self._verdicts.get((epoch, partition), _NOBODY) if self._verdicts else _NOBODY

    def count(self, epoch: int, partition: int, round_: int) -> int:
        """How many verdicts the partition has to go by in this round."""
        return sum(each.round <= round_ for each in self.accused(epoch, partition).values()) if self._verdicts else 0

    def is_void(self, epoch: int, partition: int, tid: int) -> bool:
        """Whether the log has a verdict that came too late."""
        return (epoch, partition, tid) in self._void

    # --- as one value -----------------------------------------------------------------------------------------------

    def forget(self, before: int) -> None:
        """Drop what is known of epochs before this one."""
        if self._attempts or self._verdicts or self._void:
            self._attempts = {epoch: each for epoch, each in self._attempts.items() if epoch >= before}
            self._verdicts = {name: each for name, each in self._verdicts.items() if name[0] >= before}
            self._void = {name for name in self._void if name[0] >= before}

    def records(self, done: int) -> list[Attempt | Crashes]:
        """All of this that is on the log of epochs after ``done``, for a snapshot."""
        attempts = [
            Attempt(partition, epoch, node)
            for epoch in sorted(self._attempts)
            if epoch > done
            for partition in sorted(self._attempts[epoch])
            for node in sorted(self._attempts[epoch][partition])
        ]
        named = [name for name in sorted(self._verdicts) if name[0] > done]
        return [*attempts, *(each for name in named for each in self._verdicts[name].values())]


class NextRound(NamedTuple):
    """A round that a partition could run. ``is_known``: the log has its barrier.

    ``done``: the last epoch that is over; ``cut``: the last of which a request partition was cut.
    """

    epoch: int
    round: int
    done: int
    cut: int
    is_known: bool
    is_owned: bool


class Caution:
    """Of one owner of a state partition, or of a standby."""

    def __init__(self, crashing: Crashing, partition: int) -> None:
        self._crashing = crashing
        self._partition = partition
        self._attempted_epoch: int | None = None  # the epoch for which it has reported an attempt
        self._until: int | None = None  # the last epoch that an owner before this one can have run; None: not known yet
        self._accuses: tuple[int, int] | None = None  # epoch and TID of a verdict that is on its way

    def holds_back(self, coming: NextRound, step: Callable[[], object], out: list[Append]) -> bool:
        """Whether the step may not be made yet; adds the records that have to precede it.

        Raises ``CrashesHere`` where it ends its process here, and has not where another owner made it.
        """
        if self._crashing.trying.follows:
            return not coming.is_known
        if not coming.is_owned:
            self._until = None
            # Where the owner does not come through, nor would this one.
            return not coming.is_known and self._crashing.is_tried(coming.epoch)
        if coming.round == 1 and self._waits_for_attempt(coming, out):
            return True
        if self._waits_for_verdict(coming.epoch):
            return True
        died = self._crashing.try_apart(coming.epoch, step)
        if died is None:
            return False
        self._accuses = coming.epoch, died.tid
        verdict = Crashes(died.tid, coming.epoch, self._partition, coming.round, died.failure)
        out.append(AppendEpochs(to_bytes(verdict)))
        return True

    def check(self, epoch: int, round_: int, without: int) -> None:
        """Raises ``Nondeterministic`` if a verdict concerns a round that this partition has run before it came."""
        if without != self._crashing.count(epoch, self._partition, round_):
            raise crashed_elsewhere([*self._crashing.accused(epoch, self._partition).values()][-1])

    def _waits_for_attempt(self, coming: NextRound, out: list[Append]) -> bool:
        """Whether an ``Attempt`` has to be logged first: this incarnation has just taken the partition over."""
        crashing, epoch = self._crashing, coming.epoch
        if not crashing.trying.node or epoch <= coming.done:
            return False
        if self._until is not None and epoch > self._until:
            return False
        if self._attempted_epoch != epoch:
            self._attempted_epoch = epoch
            out.append(AppendEpochs(to_bytes(Attempt(self._partition, epoch, crashing.trying.node))))
        if not crashing.has_tried(epoch, self._partition):
            return True
        if self._until is None:
            # A node runs on before its records of the epoch before are on the log. But it runs nothing that is cut
            # behind the first record of its successor, which has read up to there only now.
            self._until = coming.cut
        return False

    def _waits_for_verdict(self, epoch: int) -> bool:
        """One of its own, to come back."""
        if self._accuses is None or self._accuses[0] != epoch:
            return False
        tid = self._accuses[1]
        if tid in self._crashing.accused(epoch, self._partition):
            self._accuses = None
            return False
        if self._crashing.is_void(epoch, self._partition, tid):
            raise CrashesHere(
                f"state partition {self._partition}, epoch {epoch}: transaction {tid} ends its process here, and on "
                "another node it has come through. Give all nodes the same memory and the same libraries"
            )
        return True


def request_of(tid: int, roots: Iterable[tuple[int, int, Request]]) -> Request:
    """Of what is run again."""
    return next(request for each, _, request in roots if each == tid)
