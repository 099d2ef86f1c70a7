"""A move of keys in a virtual fleet, by each candidate, and what it costs."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from deploy.bench.candidates.on_demand import ArrivingStore, Counts, OnDemandPartition, in_force
from deploy.bench.candidates.virtual_fleet import LogTimes, Member, VirtualFleet
from nodes.transactions.bench.reply_times import Interval, ReplyTimes
from nodes.transactions.layouts.portions import KnownState, bucket_sizes, next_portion, portions_left
from transactional.epochs.appends import Append, AppendEpochs
from transactional.epochs.copies import PORTION_BYTES
from transactional.epochs.layout_messages import NewLayout, PlannedLayout
from transactional.epochs.messages import to_bytes
from transactional.execution.serial import Serial
from transactional.layout import Layout, spread_all
from transactional.operators import Program, StateKey
from transactional.requests.requests import WireRequest
from transactional.state.store import Store
from transactional.workloads.contract import BenchWorkload, RequestHistory, WorkloadShape, unexpected

SEQUENCERS = 2
_LOADING = 1 << 40
"""The first TID of transactions that make the first state: identifiers are drawn by it, and must be none of later ones.
"""
WAYS = ("none", "stop", "copies", "keys", "groups")
"""No move at all; Algorithm 3; candidate (b); candidate (a) by keys, and by whole groups."""
ON_DEMAND = frozenset({"keys", "groups"})


@dataclass(frozen=True, slots=True)
class Setting:
    """One run. Times in seconds: the move is requested after ``before_s``, and load goes on for ``after_s`` behind it.

    ``most_s``: of the move, at most. ``batch_bytes``: of requested keys, ``portion_bytes``: of copies, for each node.
    """

    workload: BenchWorkload
    shape: WorkloadShape
    rate: float
    way: str
    partitions: tuple[int, int] = (12, 16)
    nodes: int = 2
    before_s: float = 3.0
    after_s: float = 3.0
    most_s: float = 30.0
    batch_bytes: int = 1 << 18
    portion_bytes: int = PORTION_BYTES
    log: LogTimes = field(default_factory=LogTimes)


def first_rows(workload: BenchWorkload, shape: WorkloadShape) -> dict[StateKey, bytes]:
    """The state before the first request."""
    if workload.first_state is not None:
        return {key: workload.first_state.value(key) for key in workload.first_state.keys(shape)}
    serial = Serial(workload.program)
    for number, request in enumerate(workload.load(shape)):
        target = workload.program.target(request.operator, request.key, request.function, request.args)
        serial.run(target, _LOADING + number, 0)
    return serial.state


class Mover:
    """Requests layouts, as the owner of the first unit does."""

    def __init__(self, fleet: VirtualFleet, program: Program, setting: Setting) -> None:
        self.began_s: float | None = None
        self.ended_s: float | None = None
        self.portions = 0
        self._fleet = fleet
        self._program = program
        self._setting = setting
        self._proposed = 0  # the number of the layout
        self._planned: Layout | None = None

    def after_step(self, member: Member) -> Sequence[Append]:
        setting = self._setting
        waits = member.number != 0 or member.free_s < setting.before_s
        if setting.way == "none" or self.ended_s is not None or waits:
            return ()
        if self.began_s is None:
            self.began_s = member.free_s
        if setting.way == "copies":
            return self._copied_ahead(member)
        if not self._proposed:
            return self._propose(NewLayout(self._target(0)))
        ledger = member.node.ledger
        if setting.way in ON_DEMAND:
            over = all(each.has_all for each in self._members() if isinstance(each, OnDemandPartition))
        else:
            over = ledger.layouts.newest.number == 1 and ledger.logged >= ledger.layouts.newest_since
        self.ended_s = member.free_s if over else None
        return ()

    def _members(self) -> list[Any]:
        found = [self._fleet.owner(each).node.partitions[each] for each in range(self._setting.partitions[1])]
        return found

    def _target(self, number: int) -> Layout:
        first = Layout.first(self._program.operators)
        homes = {each.group: spread_all(each.homes, self._setting.partitions[1]) for each in first.groups}
        made = first.changed(homes)
        return Layout(number + 1, made.partitions, made.groups)

    def _propose(self, message: NewLayout | PlannedLayout) -> Sequence[Append]:
        self._proposed = message.layout.number
        return [AppendEpochs(to_bytes(message))]

    def _copied_ahead(self, member: Member) -> Sequence[Append]:
        ledger = member.node.ledger
        newest, target = ledger.layouts.newest, self._target(ledger.layouts.newest.number)
        if self._planned is None or (
            newest.number == self._planned.number and ledger.logged >= ledger.layouts.newest_since
        ):
            if self._planned is not None and newest.groups == target.groups:
                self.ended_s = member.free_s
                return ()
            partitions = member.node.partitions
            states = {number: KnownState(each.store.tables) for number, each in partitions.items()}
            sizes = bucket_sizes(newest, target, self._program.operators, states)
            portion_bytes = self._setting.portion_bytes * self._setting.nodes
            left = portions_left(newest, target, sizes, portion_bytes, self.portions)
            self._planned = next_portion(newest, target, sizes, left)
            self.portions += 1
            return [AppendEpochs(to_bytes(PlannedLayout(self._planned)))]
        if newest.number < self._planned.number and ledger.copies.are_ready and self._proposed < self._planned.number:
            return self._propose(NewLayout(self._planned))
        return ()


def measured(setting: Setting, program: Program, rows: Mapping[StateKey, bytes]) -> dict[str, Any]:
    """One run; raises ``RuntimeError`` where an invariant of the workload is broken. ``program``: on the partitions."""
    counts, on_demand = Counts(), setting.way in ON_DEMAND
    with in_force(counts, on_demand=on_demand, by_group=setting.way == "groups", batch_bytes=setting.batch_bytes):
        store = ArrivingStore if on_demand else Store
        fleet = VirtualFleet(program, setting.nodes, SEQUENCERS, max(setting.partitions), setting.log, store)
        fleet.load(rows, program.place)
        mover = Mover(fleet, program, setting)
        fleet.after_step = mover.after_step
        client = Client(fleet, setting)
        gc.collect()
        gc.disable()  # all epochs are kept for the figures, and looking through them is no work of nodes
        try:
            again = _run(fleet, mover, client, setting, counts)
        finally:
            gc.enable()
    found = figures(fleet, mover, client, setting)
    found.update(
        moved_MB=(counts.batch_bytes if on_demand else fleet.moved_bytes) / 1e6,
        requested_MB=counts.requested_bytes / 1e6,
        requests=counts.requests,
        requested_rows=counts.requested_rows,
        again_before=100 * again[0],
        again_during=100 * again[1],
        portions=mover.portions,
    )
    check(fleet, client, setting, program)
    return found


class Client:
    """An open loop at a steady rate."""

    def __init__(self, fleet: VirtualFleet, setting: Setting) -> None:
        self.sent: list[WireRequest] = []
        self.due: list[float] = []
        self.ends_s = setting.before_s + setting.most_s + setting.after_s
        self._fleet = fleet
        self._setting = setting
        fleet.at(0.0, self._send)

    def _send(self) -> None:
        """Those of the next tenth of a second."""
        setting, fleet = self._setting, self._fleet
        count = max(1, round(setting.rate / 10))
        for request in setting.workload.requests(setting.shape, len(self.sent), count):
            due_s = len(self.sent) / setting.rate
            self.sent.append(request)
            self.due.append(due_s)
            fleet.request_at(due_s, request)
        next_s = len(self.sent) / setting.rate
        if next_s < self.ends_s:
            fleet.at(next_s, self._send)


def _run(fleet: VirtualFleet, mover: Mover, client: Client, setting: Setting, counts: Counts) -> tuple[float, float]:
    """Transactions that ran once more in a partition, for each reply: before the move and during it."""

    def rate(since: tuple[int, int]) -> float:
        return (counts.ran_again - since[0]) / max(1, len(fleet.answered) - since[1])

    fleet.run(lambda: fleet.now_s >= setting.before_s)
    before, mark = rate((0, 0)), (counts.ran_again, len(fleet.answered))
    limit_s = setting.before_s + (setting.after_s if setting.way == "none" else setting.most_s)
    fleet.run(lambda: mover.ended_s is not None or fleet.now_s >= limit_s)
    during = rate(mark)
    client.ends_s = min(client.ends_s, fleet.now_s + setting.after_s)
    fleet.run(lambda: False)
    return before, during


def figures(fleet: VirtualFleet, mover: Mover, client: Client, setting: Setting) -> dict[str, Any]:
    """Of the replies and epochs. ``rounds``: mean and most, of the epochs of transactions."""
    began_s = setting.before_s if mover.began_s is None else mover.began_s
    ended_s = mover.ended_s
    interval = Interval(began_s, setting.before_s + setting.most_s if ended_s is None else ended_s)
    if setting.way == "none":
        interval = Interval(began_s, began_s + setting.after_s)
    lost = [each.id for each in client.sent if each.id not in fleet.answered]
    if lost:
        raise RuntimeError(f"{setting.way}: {len(lost)} of {len(client.sent)} requests had no reply, such as {lost[0]}")
    times = ReplyTimes(client.due, [fleet.answered[each.id] for each in client.sent])
    phases = times.phases([interval])
    share = times.least_share(interval)
    during = [n for n, ended in fleet.ended.items() if interval.begin_s <= ended <= interval.end_s]
    before = [n for n, ended in fleet.ended.items() if ended < interval.begin_s]
    return {
        "way": setting.way,
        "took_s": interval.end_s - interval.begin_s if ended_s is not None else None,
        "silence_ms": times.downtime_ms(interval),
        "worst_second": None if share is None else 100 * share,
        **{f"{quantile}_{phase}": None if (found := phases[phase]) is None else getattr(found, quantile)
           for phase in ("before", "during", "after") for quantile in ("p50", "p99")},
        "rounds_before": _rounds(fleet, before)[0],
        "rounds_during": _rounds(fleet, during)[0],
        "most_rounds": _rounds(fleet, during)[1],
        "rerun": sum(len(each.decision.rerun) for each in map(fleet.first_node.ledger.epoch, during) if each.decision),
        "cpu_share": sum(each.cpu_s for each in fleet.members) / len(fleet.members) / fleet.now_s,
    }  # fmt: skip


def _rounds(fleet: VirtualFleet, numbers: Sequence[int]) -> tuple[float, int]:
    """Mean over their transactions, and the most."""
    found: list[int] = []
    for epoch in map(fleet.first_node.ledger.epoch, numbers):
        found += [epoch.last_round or 0] * sum(cut.count for cut in epoch.cuts.values())
    return (fmean(found), max(found)) if found else (0.0, 0)


def check(fleet: VirtualFleet, client: Client, setting: Setting, program: Program) -> None:
    """The workload's invariants over all replies and the state in the end. Raises ``RuntimeError`` if one is broken."""
    serial = Serial(program)
    for partition in range(max(setting.partitions)):
        for key, value in fleet.store(partition).items.items():
            if serial.state.setdefault(key, value) is not value:
                raise RuntimeError(f"{setting.way}: {key} has two homes")
    history = RequestHistory(
        client.sent,
        {each.id: fleet.outcomes[each.id] for each in client.sent},
        {each.id: due_s for each, due_s in zip(client.sent, client.due, strict=True)},
        dict(fleet.answered),
    )

    def send(requests: Sequence[WireRequest]) -> dict[str, Any]:
        return {each.id: serial.call(each.operator, each.key, each.function, each.args) for each in requests}

    wrong = setting.workload.check(setting.shape, history, send) + unexpected(setting.workload, history)
    if wrong:
        raise RuntimeError(f"{setting.way}: {len(wrong)} invariants are broken: {'; '.join(wrong[:3])}")
