"""A request for another number of partitions: checked by name before anything moves, and waited for.

Source: Styx, section 8.2. The number of request partitions stays, since requests are known by them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Literal, TypeVar

import msgspec

from nodes.errors import RunFailed, SettingsError, UnknownName
from nodes.log.contract import Log, LogError, TopicPartition
from nodes.machine import messages as m
from nodes.machine.ownership.commands import LAYOUT
from nodes.machine.ownership.layouts import LayoutOutcome, LayoutProgress, ProposedLayout, outcome_of
from nodes.machine.ownership.ownership import Ownership
from nodes.machine.ownership.programs import NamedProgram
from nodes.transactions.clients.patience import Patience
from nodes.transactions.control_history import control_history, nodes_at_work
from nodes.transactions.job_start import KeyLayout, key_layout, started
from nodes.transactions.layouts.cpu import RecentCpu, layout_held_ms, recent_cpu
from nodes.transactions.layouts.heat import RECENT_RECORDS, Recent, recent
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics
from transactional.layout import Group, Homes, Layout, moved_buckets, spread_all, spread_least
from transactional.program_versions import OperatorOutline, ProgramVersion

Spread = Literal["least", "all"]
Mode = Literal["stop", "online"]
"""online: keys are copied while transactions run, and only what changed meanwhile waits for the move."""
About = dict[str, str | int | list[str]]
Told = TypeVar("Told", bound=msgspec.Struct)
SHOWN = 3
"""Names of nodes in a message."""
HEARTBEAT_WAIT_S = 2.0
"""Nodes write several heartbeats in that time."""
_POLL_S = 0.2


class NotRepartitioned(RunFailed):
    """The request was made, and what it asks for has not come to pass."""


class Repartitioned(msgspec.Struct):
    """The end of a request. ``None``: the node that finished it had not seen all of it.

    ``apart_from``: operators that had the same homes as these, and stay where they are.
    """

    operators: list[str]
    layout: int
    from_partitions: int = msgspec.field(name="from")
    to: int
    mode: str
    spread: str
    partitions: int
    buckets: int
    keys: int | None
    bytes: int | None
    replies: int | None
    took_s: float | None
    downtime_ms: int | None
    resumed: bool
    apart_from: list[str] = []


class Repartitioning:
    """Requests of one job. Reads control, and writes there. ``sleep``: seconds, between two attempts; by ``clock_s``.

    ``patience_s``: so long a topic that cannot be enlarged, and a log without room, are tried again; ``tell``: what is
    waited for.
    """

    def __init__(
        self,
        log: Log,
        topics: TransactionTopics,
        *,
        patience_s: float = 0.0,
        tell: Callable[[str], None] = lambda text: None,
        sleep: Callable[[float], None] = time.sleep,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        begun = started(log, topics)
        self._patience = Patience(patience_s, tell, sleep)
        self._clock_s = clock_s
        self._log = log
        self._topics = topics
        self.begun: KeyLayout = key_layout(topics.job, begun)
        assert begun is not None
        self._history = control_history(log, topics, begun.partitions)

    @property
    def groups(self) -> dict[str, Group]:
        """By the name of an operator, of all versions of the program so far: as the newest layout has them."""
        layout = self.layout()
        return {name: layout.group_of(name, group) for name, group in self._declared.items()}

    @property
    def _declared(self) -> dict[str, Group]:
        found = {name: Group(count, colocate) for name, count, colocate in self.begun.operators}
        for named in self.read().programs.holding:
            found |= {each.name: Group(each.partitions, each.colocate) for each in _operators(named)}
        return found

    def read(self) -> Ownership:
        """The control topic, folded."""
        return self._history.read()

    def layout(self) -> Layout:
        """The newest one that holds or is about to, as the control topic has it."""
        newest = self.read().layouts.newest
        if newest is None:
            return Layout.first_of(set(self._declared.values()))
        return msgspec.json.decode(newest.layout, type=Layout)

    def recent(self, records: int = RECENT_RECORDS) -> Recent:
        """The work of the newest epochs, by keys; ``records`` of each partition at most."""
        log, topics, ownership = self._log, self._topics, self.read()
        complete_from = 0
        for partition in range(log.partitions(topics.commits)):
            if log.start_offset(topics.commits, partition) or log.start_offset(topics.calls, partition):
                kept = ownership.checkpoints(self.begun.sequencers + partition)
                complete_from = max([complete_from, *(each.offset + 1 for each in kept[-1:])])
        return recent(log, topics, self.layout(), self.groups, records, complete_from)

    def cpu(self) -> RecentCpu | None:
        """Of partitions since the newest layout holds, a minute at most."""
        return recent_cpu(self._log, self._topics, layout_held_ms(self._log, self._topics))

    def groups_of(self, operators: Collection[str]) -> list[Group]:
        """Those that these operators are of. Raises ``UnknownName``."""
        known = self.groups
        for name in operators:
            if name not in known:
                raise UnknownName("operator", name, [each for each in known if not each.startswith("_")])
        return sorted({known[name] for name in operators}, key=str)

    def operators_of(self, groups: Collection[Group]) -> list[str]:
        """All that move with these."""
        return [name for name, group in self.groups.items() if group in groups]

    def request(
        self, operators: Sequence[str], to: int, spread: Spread, mode: Mode = "online", *, alone: bool = False
    ) -> tuple[ProposedLayout, Repartitioned]:
        """Write it down; gives it, and what is known of its outcome. Raises what names the reason before anything is.

        ``alone``: operators with the same homes until now, that are not named, stay where they are.

        ``UnknownName``: of an operator. ``SettingsError``: a number that cannot be, or is there. ``RunFailed``: no node
        runs, or another one is under way. ``LogError``: topics cannot be enlarged, and could not for ``patience_s``.
        """
        groups, before = self.groups_of(operators), self.layout()
        present = max(1 + max(before.homes_of(group)) for group in groups)
        named, left = self.operators_of(groups), list[str]()
        if alone:
            left = [name for name in named if name not in operators]
            named = [name for name in named if name in operators]
            before = before.apart(operators, known := self.groups)
            groups = sorted({before.group_of(name, known[name].declared) for name in named}, key=str)
        after = changed_layout(before, operators, groups, to, spread)
        about: About = {
            "operators": named,
            "from": present,
            "to": to,
            "mode": mode,
            "spread": spread,
            "apart_from": left,
        }
        made = self.propose(after, about, mode)
        told = Repartitioned(
            named, made.number, present, to, mode, spread, after.partitions, moved_buckets(before, after),
            None, None, None, None, None, resumed=False, apart_from=left,
        )  # fmt: skip
        return made, told

    def propose(self, after: Layout, about: About, mode: Mode = "online") -> ProposedLayout:
        """Write this layout down as the next one; ``about`` is shown. Raises as ``request`` does."""
        self.check_settled()
        self._check_alive()
        if self._enlarge(after.partitions):
            self.check_settled()
            self._check_alive()
        raw = msgspec.Raw(msgspec.json.encode(after))
        units = self.begun.sequencers + after.partitions
        made = ProposedLayout(after.number, units, raw, about, mode == "online", parted=after.is_parted)
        argument = msgspec.json.encode(made).decode()
        name = LAYOUT if made.format == m.LAYOUTS_VERSION else m.ONLINE_LAYOUT  # the name decides the format
        command = m.encode(m.Command(FIRST_INCARNATION, name, argument))
        self._patience.append(self._log, self._topics.control, command)
        if self._requested() != made:
            raise RunFailed(_under_way(self._history.ownership) or "another request came first: see holon txn layout")
        return made

    def _requested(self) -> ProposedLayout | None:
        """The newest request, whatever it has come to."""
        proposed = self.read().layouts.newest_request
        return None if proposed is None else proposed.as_requested

    def _enlarge(self, partitions: int) -> bool:
        """Whether it was waited for. A topic that is larger than it need be does no harm if this is interrupted."""
        waits, missing = False, list(self._topics.of_state_partitions)
        while missing:
            try:
                if self._log.partitions(missing[0]) < partitions:
                    self._log.add_partitions(missing[0], partitions)
                del missing[0]
            except LogError as error:
                self._patience.wait(f"topic {missing[0]!r} to get {_partitions(partitions)}: {error}", error)
                waits = True
        return waits

    def wait(
        self, made: ProposedLayout, told: Repartitioned, timeout_s: float, tell: Callable[[str], None] | None = None
    ) -> Repartitioned:
        """Until it holds. Raises ``NotRepartitioned``: it was given up, or takes longer and goes on.

        ``tell``: how far copies are, about once a second.
        """
        return with_outcome(told, self.outcome(made.number, timeout_s, tell))

    def outcome(self, number: int, timeout_s: float, tell: Callable[[str], None] | None = None) -> LayoutOutcome:
        """Of a layout that was proposed, once it holds. Raises as ``wait`` does."""
        end, shown = self._clock_s() + timeout_s, None
        while (outcome := outcome_of(self.read().layouts, number)) is None:
            if self._clock_s() > end:
                raise NotRepartitioned(
                    f"layout {number} does not hold after {timeout_s:g} s, and nodes go on with it: "
                    f"see holon txn layout"
                )
            progress = self._history.ownership.layouts.progress
            if tell is not None and progress is not None and progress is not shown:
                shown = progress
                tell(copying(progress))
            self._log.wait({TopicPartition(self._topics.control, 0): self._history.offset}, _POLL_S)
        if outcome.problem:
            raise NotRepartitioned(f"layout {number} was given up: {outcome.problem}")
        return outcome

    def check_settled(self) -> None:
        """Raises ``RunFailed`` where another layout is under way."""
        if (text := _under_way(self.read())) is not None:
            raise RunFailed(text)

    def _check_alive(self) -> None:
        if not self._nodes_at_work() and not (self._waited_for_heartbeats() and self._nodes_at_work()):
            silent = ", ".join(sorted(self.read().members)[:SHOWN])
            why = f"; each of {silent} has ended, or waits for room on the log" if silent else ""
            raise RunFailed(f"no node of job {self._topics.job!r} runs: nothing was changed{why}")

    def _nodes_at_work(self) -> list[str]:
        wait_s = HEARTBEAT_WAIT_S if self.read().members else 0.0
        return nodes_at_work(self._log, self._topics, self.read, wait_s, bool, self._clock_s)

    def _waited_for_heartbeats(self) -> bool:
        """Whether heartbeats of members found no room."""
        return bool(self.read().members) and self._patience.awaited_heartbeats(self._log, self._topics)


def changed_layout(
    before: Layout, operators: Sequence[str], groups: Collection[Group], to: int, spread: Spread
) -> Layout:
    """The layout in which these groups, which are those of ``operators``, have ``to`` partitions.

    Raises ``SettingsError``: a number that cannot be, or that all of them have.
    """
    homes = {group: _spread(before, group, to, spread) for group in groups}
    others = {group: each for group, each in homes.items() if 1 + max(before.homes_of(group)) != to}
    if not others:
        raise SettingsError(f"{', '.join(operators)}: {_partitions(to)} already")
    return before.changed(others)


def _operators(named: NamedProgram) -> list[OperatorOutline]:
    try:
        return msgspec.json.decode(named.record, type=ProgramVersion).operators
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise RunFailed(f"program {named.reference} is described as this release cannot read: {error}") from None


def copying(progress: LayoutProgress) -> str:
    """For people."""
    if progress.waits_for:
        return f"waits for {progress.waits_for}"
    left = "" if progress.left_s is None else f", about {progress.left_s:.0f} s"
    return f"copied {progress.copied_bytes / 1e6:.1f} MB, {progress.left_items} keys and replies to go{left}"


def described(about: About) -> str:
    """A request in words."""
    if "split" in about:
        return f"split of partition {about['split']}, half of it to partition {about['target']}"
    names = about.get("operators", [])
    text = ", ".join(names) if isinstance(names, list) else str(names)
    left = about.get("apart_from")
    apart = f" without {', '.join(left)}" if isinstance(left, list) and left else ""
    return f"{text}{apart} to {about.get('to')} partitions"


def _spread(before: Layout, group: Group, to: int, spread: Spread) -> Homes:
    try:
        return (spread_least if spread == "least" else spread_all)(before.homes_of(group), to)
    except ValueError as error:
        raise SettingsError(f"--to {to}: {error}") from None


def _under_way(ownership: Ownership) -> str | None:
    layout = ownership.layouts.open
    if layout is None:
        return None
    progress = ownership.layouts.progress
    so_far = described(layout.about) if progress is None else f"{described(layout.about)}; {copying(progress)}"
    return f"layout {layout.number} is under way ({so_far}): see holon txn layout"


def with_outcome(told: Told, outcome: LayoutOutcome) -> Told:
    """``told`` has these fields: it is a ``Repartitioned``, or a ``Split``."""
    took_s = None if outcome.took_ms is None else outcome.took_ms / 1000
    return msgspec.structs.replace(
        told,
        layout=outcome.number,
        keys=outcome.keys,
        bytes=outcome.size_bytes,
        replies=outcome.replies,
        took_s=took_s,
        downtime_ms=outcome.downtime_ms,
        resumed=outcome.resumed,
    )


def _partitions(count: int) -> str:
    return f"{count} partition" + "s" * (count != 1)
