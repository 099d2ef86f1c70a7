"""An autoscaler of one job: it samples, decides, writes the decision down, and acts if its record was the first.

It keeps nothing: the last decision is on the log. One that dies after its record, and before it has acted, is as one
that has failed: samples show that nothing has changed, and the next decision is made.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable

import msgspec

from nodes.checkpoints.store import CheckpointStore
from nodes.errors import MissingDependency, RunFailed, SettingsError, UnknownName
from nodes.log.contract import Log, LogError
from nodes.machine import messages as m
from nodes.machine.ownership.commands import AUTOSCALE
from nodes.machine.ownership.ownership import Ownership
from nodes.transactions.autoscaling.deciding import Action, Decision, Limits, Sample, decide
from nodes.transactions.autoscaling.providers import NodeProvider
from nodes.transactions.autoscaling.sampling import Sampler
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.layouts.splitting import request_split
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics


class Outcome(msgspec.Struct):
    """Of one turn. ``decision`` None: nothing is to be done. ``won``: it was the first of its number.

    ``problem``: why it could not be done, "": it was, or is under way.
    """

    sample: Sample
    action: Action
    decision: Decision | None = None
    won: bool = False
    problem: str = ""


def decisions_of(ownership: Ownership) -> list[Decision]:
    """The newest that won, oldest first; those of another release that cannot be read are left out."""
    found: list[Decision] = []
    for text in ownership.decisions.kept:
        try:
            found.append(msgspec.json.decode(text, type=Decision))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
    return found


class Autoscaler:
    """``provider`` None: nothing is written, and nothing done. ``wall_ms``: since 1970."""

    def __init__(
        self,
        log: Log,
        topics: TransactionTopics,
        limits: Limits,
        provider: NodeProvider | None,
        store: CheckpointStore | None,
        wall_ms: Callable[[], int],
    ) -> None:
        self.name = uuid.uuid4().hex[:12]
        self.requests = Repartitioning(log, topics)
        self.samples: deque[Sample] = deque(maxlen=limits.samples)
        self._log = log
        self._topics = topics
        self._limits = limits
        self._provider = provider
        self._store = store
        self._sampler = Sampler(log, topics, self.requests, wall_ms, limits.skew)

    def turn(self) -> Outcome:
        """Take a sample, and do what it leads to. Raises ``LogError``."""
        self.samples.append(sample := self._sampler.take())
        ownership = self.requests.read()
        kept = decisions_of(ownership)
        action = decide(list(self.samples), self._limits, kept[-1] if kept else None)
        outcome = Outcome(sample, action)
        if action.kind == "none" or self._provider is None:
            return outcome
        number = ownership.decisions.next_number(self._log.end_offset(self._topics.control, 0))
        outcome.decision = Decision(number=number, by=self.name, at_ms=sample.at_ms, action=action, sample=sample)
        outcome.won = self._record(outcome.decision)
        if outcome.won:
            outcome.problem = self._act(self._provider, action, sample)
        return outcome

    def _record(self, decision: Decision) -> bool:
        """Whether it was the first of its number."""
        argument = msgspec.json.encode(decision).decode()
        self._log.append(self._topics.control, 0, [m.encode(m.Command(FIRST_INCARNATION, AUTOSCALE, argument))])
        return argument in self.requests.read().decisions.kept

    def _act(self, provider: NodeProvider, action: Action, sample: Sample) -> str:
        """Returns why it could not be done."""
        try:
            if action.kind == "nodes":
                provider.scale(action.nodes, sample.nodes)
            elif action.kind == "split":
                assert action.partition is not None
                request_split(self.requests, self._topics.job, self._store, action.partition, action.target)
            else:
                operators = operators_to_scale(self.requests, action.partitions)
                self.requests.request(operators, action.partitions, "least")
        except (RunFailed, SettingsError, UnknownName, MissingDependency, LogError) as error:
            return str(error)
        return ""


def operators_to_scale(requests: Repartitioning, partitions: int) -> list[str]:
    """Those that have more partitions; if there are none, those that have the most."""
    layout = requests.layout()
    counts = {each.group: 1 + max(each.homes) for each in layout.groups}
    above = {group for group, count in counts.items() if count > partitions}
    most = {group for group, count in counts.items() if count == layout.partitions}
    return requests.operators_of(above or most)
