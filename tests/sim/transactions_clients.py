"""The clients of a simulated transactional fleet, and those who upgrade its program."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from msgspec import structs

from holon.fingerprint.version import JobVersion
from nodes.log.contract import Log
from nodes.machine import messages as m
from nodes.machine.ownership.programs import PROGRAM, ProgramFold, Proposal, argument
from nodes.transactions.control_history import control_history
from nodes.transactions.topics import FIRST_INCARNATION
from nodes.transactions.upgrades.programs import NodePrograms, named_program
from tests.sim.layout_commands import LayoutCommands
from tests.sim.transactions_books import Counters
from transactional.epochs.messages import reply_message
from transactional.operators import Program
from transactional.program_versions import ProgramVersion
from transactional.requests.requests import WireRequest


class ServedFleet(LayoutCommands):
    """A fleet with clients. ``sent``: requests without a reply; ``outcomes``: of those that somebody waits for."""

    versions: dict[str, Program]
    upgrade_draw: Random
    book: Counters
    sent: dict[str, WireRequest]
    outcomes: dict[str, Any]
    asked: int

    def heal(self) -> None:
        """No more faults; fails if requests stay without a reply."""
        raise NotImplementedError

    # --- requests ---------------------------------------------------------------------------------------------------

    def ask(self, count: int) -> None:
        """So many requests of the book."""
        requests = []
        for _ in range(count):
            self.asked += 1
            request = self.book.next(f"r{self.asked}")
            if self.callers.drawn:
                request = self.callers.first_of(self.client, request)
            self.sent[request.id] = request
            requests.append(request)
        self.callers.send_all(self.client, requests)

    def receive(self) -> None:
        self.callers.poll(self.client)
        for name, outcome in self.client.take_all():
            self.met.answered += 1
            request = self.sent.pop(name)
            if name in self.outcomes:
                self.outcomes[name] = outcome
            else:
                self.book.answered(request, outcome)

    def request_now(self, request: WireRequest) -> Any:
        """Its outcome, once all is answered; without an id it is a new one."""
        if not request.id:
            self.asked += 1
            request = structs.replace(request, id=f"r{self.asked}")
        self.sent[request.id], self.outcomes[request.id] = request, None
        self.callers.send_all(self.client, [request])
        self.heal()
        return self.outcomes.pop(request.id)

    def replies(self) -> Iterator[tuple[str, object]]:
        """All that are on the log still, with their ids."""
        topic = self.topics.replies
        for partition in range(self.log.partitions(topic)):
            begin = self.log.start_offset(topic, partition)
            for value in self.log.read(topic, partition, begin, max_records=1 << 30).values:
                yield from ((each.id, (each.result, each.failure)) for each in reply_message(value).replies)

    # --- upgrades ---------------------------------------------------------------------------------------------------

    def programs(self) -> NodePrograms:
        """Of a node that is started with a version that has held."""
        own = self.own_code()
        load = lambda version, _: self.versions[version.code]  # noqa: E731
        return NodePrograms(self.versions[own], own, JobVersion(own), load=load)

    def own_code(self) -> str:
        """Of a version that has held: that with which the next node is started."""
        return self.upgrade_draw.choice(sorted({each.code for each in self.fold().holding} | {"1"}))

    def fold(self, log: Log | None = None) -> ProgramFold:
        """As it stands on the control topic."""
        return control_history(self.log if log is None else log, self.topics, 1).read().programs

    def propose(self) -> None:
        """The other version than the one that holds; it is void while an upgrade runs."""
        log = self.callers.command_log(self.propose)
        fold = self.fold(log)
        code = "2" if (fold.holding[-1].code if fold.holding else "1") == "1" else "1"
        if code == "1" and not fold.holding:
            return
        number = fold.number + 1
        version = ProgramVersion.of(self.versions[code], number=number, code=code, reference=code)
        self.asked += 1
        proposal = Proposal(f"upgrade {self.asked}", named_program(version), JobVersion(code).encode())
        command = m.Command(FIRST_INCARNATION, PROGRAM, argument(proposal))
        log.append(self.topics.control, 0, [m.encode(command)])
