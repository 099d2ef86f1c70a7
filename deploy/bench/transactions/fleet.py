"""A fleet of transactional nodes in virtual time: each has a core and a process of its own, and takes turns here.

Two rules for this file: no clock, since a turn reports its own cost; and no node learns what it does not read.
"""

from __future__ import annotations

import heapq
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from deploy.bench.transactions.node import CALLED_NOTHING, MS, Sent, Turn, Turned, program_of, read_frame, write_frame
from nodes.transactions.topics import TransactionTopics
from transactional.epochs.messages import reply_message
from transactional.requests.requests import WireRequest, partition_of, request_record

IDLE_US = 20 * MS
"""So often a node reads the time where nothing comes."""
RECORD_REQUESTS = 200


class FleetNode:
    """One node's process, and what the fleet knows of it."""

    def __init__(self, number: int, nodes: int) -> None:
        command = [sys.executable, "-m", "deploy.bench.transactions.node", str(number), str(nodes)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.free_us = self.busy_us = self.beside_us = 0.0
        self.turns = self.read_records = self.read_bytes = 0
        self.coming: list[Sent] = []
        self.waits: set[tuple[str, int]] = set()
        self.has_changes = True
        self.last: Turned | None = None

    def turn(self, now_us: float) -> Turned:
        """Have one; what has come is read with it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        coming, self.coming = self.coming, []
        write_frame(self.process.stdin, Turn(now_us, coming))  # type: ignore[arg-type]
        turned = read_frame(self.process.stdout, Turned)  # type: ignore[arg-type]
        assert turned is not None, f"node {self.process.args} has ended"
        self.turns += 1
        self.busy_us += turned.spent_us
        self.beside_us += turned.beside_us
        self.free_us = now_us + turned.spent_us
        self.waits = set(turned.waits)
        self.has_changes = turned.left
        self.last = turned
        return turned


class VirtualFleet:
    """Nodes in virtual time, in microseconds; as many state partitions, and request partitions, as nodes."""

    def __init__(self, nodes: int, transit_us: float) -> None:
        self.now_us, self.transit_us, self.nodes = 0.0, transit_us, nodes
        self.topics = TransactionTopics(program_of(nodes).name)
        self.members = [FleetNode(number, nodes) for number in range(nodes)]
        self._owners: dict[tuple[str, int], int] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.answered_us: dict[str, float] = {}
        self.outcomes: dict[str, Any] = {}
        for number in range(nodes):
            self.at(0.0, partial(self._turn, number, idle=True))

    def close(self) -> None:
        """Nodes end when their input is closed."""
        for member in self.members:
            assert member.process.stdin is not None and member.process.stdout is not None
            member.process.stdin.close()
            member.process.wait()
            member.process.stdout.close()

    def at(self, us: float, what: Callable[[], None]) -> None:
        """Do it then."""
        self._count += 1
        heapq.heappush(self._events, (us, self._count, what))

    def run(self, until: Callable[[], bool], limit_s: float = 120.0) -> None:
        """Until something holds; fails if that takes more than ``limit_s`` of virtual time."""
        end_us = self.now_us + limit_s * 1e6
        while not until():
            us, _, what = heapq.heappop(self._events)
            self.now_us = max(self.now_us, us)
            assert self.now_us < end_us, f"not done after {limit_s:g} s of virtual time"
            what()

    def settle(self) -> None:
        """Until all have joined and everything has its owner, which alone gets from then on what it reads."""
        self.run(self._is_owned)
        for number, member in enumerate(self.members):
            assert member.last is not None
            for sequencer in member.last.sequencers:
                self._owners[self.topics.requests, sequencer] = number
            for state in member.last.partitions:
                for topic in (self.topics.calls, self.topics.commits, self.topics.replies):
                    self._owners[topic, state] = number

    def _is_owned(self) -> bool:
        known = [member.last for member in self.members]
        each = [last for last in known if last is not None and last.joined]
        one_each = all(len(last.sequencers) == len(last.partitions) == 1 for last in each)
        return len(each) == self.nodes and one_each

    # --- nodes ------------------------------------------------------------------------------------------------------

    def _turn(self, number: int, *, idle: bool = False) -> None:
        """A turn, if the node is free and something is there for it, or its last turn was long ago."""
        member = self.members[number]
        if member.free_us > self.now_us:
            if idle:
                self.at(member.free_us, partial(self._turn, number, idle=True))
            return  # its turn comes when it is free
        if not idle and not member.has_changes:
            return
        turned = member.turn(self.now_us)
        end_us = member.free_us
        for each in turned.sent:
            self.at(end_us + self.transit_us, partial(self._arrive, number, *each))
        self.at(end_us, partial(self._turn, number))
        if idle:
            self.at(end_us + IDLE_US, partial(self._turn, number, idle=True))

    def _arrive(self, sender: int | None, topic: str, partition: int, values: list[bytes], name: int) -> None:
        if topic == self.topics.replies:
            for value in values:
                for reply in reply_message(value).replies:
                    self.answered_us.setdefault(reply.id, self.now_us)
                    self.outcomes.setdefault(reply.id, reply.outcome)
        owner, size = self._owners.get((topic, partition)), sum(map(len, values))
        for number in range(self.nodes) if owner is None else (owner,):
            member = self.members[number]
            member.coming.append((topic, partition, values, name if number == sender else CALLED_NOTHING))
            if (topic, partition) in member.waits:
                member.has_changes = True
                member.read_records += len(values)
                member.read_bytes += size
                self._turn(number)

    # --- clients ----------------------------------------------------------------------------------------------------

    def send(self, requests: Sequence[WireRequest], after_us: float = 0.0) -> None:
        """They are on the log after the way there."""
        by_place: dict[int, list[WireRequest]] = {}
        for request in requests:
            by_place.setdefault(partition_of(request.id, self.nodes), []).append(request)
        for place, each in sorted(by_place.items()):
            records = [request_record(each[at : at + RECORD_REQUESTS]) for at in range(0, len(each), RECORD_REQUESTS)]
            arrive = partial(self._arrive, None, self.topics.requests, place, records, CALLED_NOTHING)
            self.at(self.now_us + after_us + self.transit_us, arrive)

    def answer(self, requests: Sequence[WireRequest]) -> None:
        """Run until all of these are answered."""
        wanted = len(self.answered_us) + sum(request.id not in self.answered_us for request in requests)
        self.run(lambda: len(self.answered_us) >= wanted)


@contextmanager
def fleet_of(nodes: int, transit_us: float) -> Iterator[VirtualFleet]:
    """One that has settled."""
    fleet = VirtualFleet(nodes, transit_us)
    try:
        fleet.settle()
        yield fleet
    finally:
        fleet.close()
