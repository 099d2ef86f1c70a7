"""A node is cut off from a broker at a named step of a repartition, a split or an upgrade: every reply is right."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from examples.bank import program
from examples.bank_v2 import program as next_program
from nodes.log import Log
from nodes.machine import messages as m
from nodes.machine.ownership import programs as p
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.layouts.splitting import request_split
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics, create_topics
from nodes.transactions.upgrades.programs import named_program
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_proxy import Proxy, Rule
from tests.integration.processes import PLENTY_S, ROOT, until
from tests.integration.transactions.test_nodes import ACCOUNTS, BANK, answers, money, open_accounts, pay_around
from tests.integration.transactions.test_upgrades import BANK_V2, statements
from tests.integration.txn_logs import opened
from tests.integration.txn_processes import SEQUENCERS, nodes
from tests.shares import share_of
from tests.sim.moving_faults import TAGS
from transactional.describing import version_of
from transactional.program_versions import ProgramVersion

TOPICS = TransactionTopics("bank")
CHANGE = "change"
Cut = Literal["before", "after", "other"]
"""The node that is cut off: the writer of the step's record, before or after that has left, or the other one."""
COPYING = ("planned", "copied", "arrived", "proposed", "moved", "handed over", "ended")
STEPS = {
    "stop": {name: TAGS[name] for name in ("proposed", "moved", "handed over", "ended")},
    "online": {name: TAGS[name] for name in COPYING},
    "portions": {name: TAGS[name] for name in ("in portions", "portion ended")},
    "split": {name: TAGS[name] for name in ("copied", "handed over")},
    "upgrade": {
        "loaded": b"program loaded",
        "ready": b"program ready",
        "proposed": b"\xa7program",
        "holds": b"program holds",
    },
}
"""By what is changed: steps by what their records hold. A split has the records of a repartition."""
WAYS: list[tuple[str, str, Cut]] = [
    (change, step, cut) for change, steps in STEPS.items() for step in steps for cut in ("before", "after", "other")
]
OUTLASTS = ("log.timeout_ms=240000", "node.handover_timeout_ms=500")
"""A node that is cut off does not give its broker up, and one that leaves waits for nobody who has proven nothing."""
READABLE = ("log.kafka.compression.type=none", "node.compress_bytes=0")
"""The proxy finds records by their bytes."""
PORTION_BYTES = {"portions": 60}
"""Of a move in portions, of which it has several then."""


def options_of(change: str) -> list[str]:
    """The settings of its nodes."""
    given = [*OUTLASTS, *READABLE]
    given += [f"node.move_portion_bytes={PORTION_BYTES[change]}"] if change in PORTION_BYTES else []
    return [word for each in given for word in ("-D", each)]


@dataclass
class NetSplit:
    """At the first record of a step one of two nodes is cut off. ``cut``: what is held then, ``place``: whose."""

    proxies: list[Proxy]
    tag: bytes
    which: Cut
    cut: Rule | None = None
    place: int = -1
    _once: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        for number, proxy in enumerate(self.proxies):
            proxy.when_sent(self.tag, lambda number=number: self._reached(number))

    def end(self) -> None:
        assert self.cut is not None
        self.cut.release()

    def _reached(self, writer: int) -> Rule | None:
        """Called by the thread of a proxy."""
        with self._once:
            if self.cut is not None:
                return None
            self.place = 1 - writer if self.which == "other" else writer
            self.cut = self.proxies[self.place].hold()
            return self.cut if self.which == "before" else None


def owners(requests: Repartitioning) -> set[int]:
    """Numbers of nodes that own anything; -1: nobody owns something."""
    found = requests.read().owners().values()
    return {-1 if name is None else int(name.partition("-")[0]) for name in found}


def begin_change(change: str, log: Log, requests: Repartitioning) -> None:
    """As the commands do, which wait for the outcome besides."""
    if change == "upgrade":
        version = version_of(next_program)
        made = ProgramVersion.of(next_program, number=1, code=version.code, reference=BANK_V2)
        argument = p.argument(p.Proposal(CHANGE, named_program(made), version.encode()))
        log.append(TOPICS.control, 0, [m.encode(m.Command(FIRST_INCARNATION, p.PROGRAM, argument, CHANGE))])
    elif change == "split":
        request_split(requests, "bank", None, 0, None)
    else:
        requests.request(["account"], 6, "all", "stop" if change == "stop" else "online")


def is_over(change: str, requests: Repartitioning) -> bool:
    ownership = requests.read()
    if change == "upgrade":
        return ownership.programs.outcome(CHANGE) == ""
    least = 2 if change in PORTION_BYTES else 1
    return ownership.layouts.number >= least and ownership.layouts.open is None


@pytest.mark.long
@pytest.mark.parametrize("way", share_of(WAYS, len(WAYS), __name__), ids="-".join)
def test_a_node_that_is_cut_off_at_a_step_of_a_change_loses_nothing_and_does_nothing_twice(
    way: tuple[str, str, Cut], tmp_path: Path
) -> None:
    """The other one makes the change by itself. Then the first is back, with all that it has sent, and works alone."""
    change, step, which = way
    with opened("kafka", tmp_path) as (log, options), ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(session_bootstrap())) for _ in range(2)]
        create_topics(log, program, SEQUENCERS)
        client, draw = TransactionClient(log, "bank"), Random(5)
        behind = [("--bootstrap", proxy.bootstrap) for proxy in proxies]
        with nodes(2, BANK, *options, *options_of(change), each=behind) as processes:
            open_accounts(client)
            once = client.call("account", "a1", "deposit", [0], request_id="once", timeout_s=PLENTY_S)
            requests = Repartitioning(log, TOPICS)
            until(lambda: owners(requests) == {0, 1}, "both have a share")
            split = NetSplit(proxies, STEPS[change][step], which)
            split.begin()
            begin_change(change, log, requests)
            ids = pay_around(client, draw, 60)
            until(lambda: split.cut is not None, f"the step {step!r} is there")
            lost, left = processes[split.place], processes[1 - split.place]
            until(lambda: owners(requests) == {1 - split.place}, "the other one owns all")
            until(lambda: is_over(change, requests), "it makes the change")
            answers(client, ids)
            split.end()
            answers(client, pay_around(client, draw, 30))
            left.send_signal(signal.SIGTERM)
            assert left.wait(PLENTY_S) == 0
            until(lambda: owners(requests) == {split.place}, "the one that was cut off owns all")
            answers(client, pay_around(client, draw, 30))
            again = client.call("account", "a1", "deposit", [0], request_id="once", timeout_s=PLENTY_S)
            assert again == once, "its reply is remembered"
            assert held(client, change) == 50 * ACCOUNTS
            lost.send_signal(signal.SIGTERM)
            assert lost.wait(PLENTY_S) == 0, "it leaves in order"
        if change == "upgrade":
            replay = [sys.executable, "-m", "nodes.cli", "txn", "replay", BANK_V2, *options]
            assert subprocess.run(replay, cwd=ROOT, timeout=PLENTY_S, check=False).returncode == 0
        else:
            assert money(log) == 50 * ACCOUNTS, "each reply is that of the plain loop"


def held(client: TransactionClient, change: str) -> int:
    """The money in all accounts, as nodes answer."""
    if change == "upgrade":
        return sum(each["cents"] for each in statements(client)) // 100
    balances = (client.call("account", f"a{number}", "balance", timeout_s=PLENTY_S) for number in range(ACCOUNTS))
    return sum(balances)
