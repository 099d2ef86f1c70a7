"""Simulated fleets of transactional nodes of which some run the code of an earlier release.

    .venv/bin/python -m tests.sim.transactions_two_releases --seeds 40 [--format N] [--before REF] [--seed S] [--json]

``--before``: a commit, by default the last one whose wire format is before ``--format`` (default: the format since
which keys move). It has to be in the history of the checkout, and its modules where they are now.

Nodes start as either release at random while faults last: a fleet is upgraded and goes back by rolling restarts. Beside
that come kills, slow stores, full disks, trimmed topics, moves of keys and upgrades of the program. Behind the faults
only this release starts. Nodes of the earlier one hand over in half of the fleets, and stay as long as they can in the
others. In the end a node of either release begins with the checkpoints. The client is of either release, too. Answers
are those of every fleet (``transactions_fleet.py``). A node of the earlier release may stop, or be refused at its
start, by name alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from nodes.log.contract import Log, LogFull
from nodes.machine.envelope import FORMAT_VERSION
from nodes.machine.messages import LAYOUTS_VERSION
from nodes.sim.many import fresh_base_seed
from nodes.transactions.clients.client import RepliesTrimmed, TransactionClient
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.job_start import begin
from tests.sim.full_disks import Killed
from tests.sim.releases import Releases, checked_out, last_before
from tests.sim.spilled_state import StateDiskFull
from tests.sim.transactions_books import check_replies
from tests.sim.transactions_fleet import Fleet
from tests.sim.transactions_met import Met
from tests.unit.txn_stage import SEQUENCERS
from transactional.operators import Program
from transactional.requests.requests import WireRequest
from transactional.state import snapshots

STAGE = "tests/unit/txn_stage.py"
"""How the earlier release puts a node together."""
NAMED = {
    "BadMessage": "of a newer version",
    "CheckpointNewer": "newer Holon",
    "JobMismatch": "a newer Holon",
    "RunFailed": "no intact checkpoint of what came before",  # it passes over what is newer
    "TopicExists": "exists with",  # of a release whose topics never grow
    "TopicsTrimmed": "trimmed behind its checkpoints",  # where it has refused all that are left, by their format
}
"""How a node of the earlier release stops: the error, and what is in its text."""


class TransactionReleases(Releases):
    """The modules of both that a fleet needs of the earlier release."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name in (
            "nodes.transactions.driver",
            "nodes.transactions.clients.client",
            "nodes.transactions.composition",
        ):
            self.earlier(name)
        self.format = self.earlier("nodes.machine.messages").FORMAT_VERSION
        self.refuses_checkpoints = self.earlier(snapshots.__name__).FORMAT_VERSION < snapshots.FORMAT_VERSION
        self.stage = self._stage()

    def _stage(self) -> ModuleType:
        spec = spec_from_file_location("earlier_txn_stage", self.folder / STAGE)
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        with self.using(earlier=True):
            spec.loader.exec_module(module)
        return module

    def has(self, path: str) -> bool:
        """Whether the earlier release has this file."""
        return (self.folder / path).exists()

    def program(self, program: Program) -> Any:
        """The same program of the earlier release's types."""
        found = self.earlier("transactional")
        operators = []
        for each in program.operators.values():
            operator = found.Operator(
                each.name, partitions=each.partitions, colocate=each.colocate, upgrade=each.upgrade
            )
            operator.functions.update(each.functions)
            operators.append(operator)
        externals = program.externals.values()
        return found.Program(program.name, operators, externals=externals, version=program.version)


class EarlierStage:
    """The fleet, as a node of the earlier release has it: its job is of that release's types."""

    def __init__(self, fleet: MixedFleet, name: str) -> None:
        releases = fleet.releases
        self._fleet = fleet
        self._versions = {code: releases.program(program) for code, program in fleet.versions.items()}
        self.program = self._versions["1"]
        self.own_program = self.program
        self._spills = None
        if fleet.spilled.is_spilled:
            self._spills = fleet.spilled.of(name, releases.earlier("nodes.transactions.checkpoints.spill"))
        self.new_store = releases.stage.Store if self._spills is None else self._spills.store
        self.topics = releases.stage.create_topics(fleet.log, self.program, SEQUENCERS)
        kind = releases.stage.EpochConfig
        given = asdict(fleet.config)
        self.config = kind(**{each.name: given[each.name] for each in fields(kind) if each.name in given})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fleet, name)

    def begin(self) -> None:
        """As its process does at the start."""
        self.releases.stage.begin(self.log, self.topics, self.program, SEQUENCERS)

    def log_of(self, name: str) -> Log:
        """Releases without patience end on a full disk."""
        patient = self._fleet.log_of(name)
        return patient if self.releases.has("nodes/log/patient.py") else self._fleet.logs[name]

    def more(self, name: str) -> dict[str, Any]:
        more = self._fleet.more(name)
        del more["programs"], more["disk_bytes"]
        composition = self.releases.earlier("nodes.transactions.composition")
        if self._spills is not None and "disk_bytes" in {each.name for each in fields(composition.NodeSurroundings)}:
            size_of = self._spills.size_of
            more["disk_bytes"] = lambda store: size_of(store)[1]
        if self.releases.has("nodes/transactions/upgrades/programs.py"):
            programs = self.releases.earlier("nodes.transactions.upgrades.programs")
            version = self.releases.earlier("holon.fingerprint.version").JobVersion
            own = self._fleet.own_code()
            load = lambda version, _: self._versions[version.code]  # noqa: E731
            self.own_program = self._versions[own]
            more["programs"] = programs.NodePrograms(self._versions[own], own, version(own), load=load)
        return more


class EarlierClient:
    """A client of the earlier release, with types of this one, and in simulated time."""

    def __init__(
        self, releases: TransactionReleases, log: Log, sent: Iterable[str], clock_s: Callable[[], float]
    ) -> None:
        self._releases = releases
        self._request = releases.earlier("transactional.requests.requests").WireRequest
        self._module = releases.earlier("nodes.transactions.clients.client")
        vars(self._module)["time"] = SimpleNamespace(monotonic=clock_s)  # it takes no clock
        with releases.using(earlier=True):
            self._client = self._module.TransactionClient(log)
            vars(self._client)["_ids"].clock_s = clock_s
            self._client.expect(sent)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def send_all(self, requests: Iterable[WireRequest]) -> None:
        with self._releases.using(earlier=True):
            made = [(each.id, each.operator, each.key, each.function, each.args, each.since) for each in requests]
            self._client.send_all([self._request(*each) for each in made])

    def poll(self) -> None:
        try:
            with self._releases.using(earlier=True):
                self._client.poll()
        except self._module.RepliesTrimmed as error:
            raise RepliesTrimmed(str(error)) from error


class MixedFleet(Fleet):
    """``releases_met``: of nodes of either release, what became of them. ``told``: how those of the earlier stopped."""

    releases: TransactionReleases

    def __init__(self, seed: int) -> None:
        self.mixing = Random(f"transactional releases {seed}")
        self.earlier_share = self.mixing.choice([0.3, 0.5, 0.8])
        self.ends_earlier = self.mixing.random() < 0.5
        self.moves = self.mixing.random() < 0.6
        self.healed = False
        self.earlier: set[str] = set()
        self.releases_met: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        super().__init__(seed)
        # Clients of releases before layouts know no new partitions of replies.
        counts = not self.moves or self.releases.format >= LAYOUTS_VERSION
        if counts and self.mixing.random() < 0.4:
            self.releases_met["earlier clients"] += 1
            made = EarlierClient(self.releases, self.callers.client_log, self.sent, self.clock_s)
            self.client = cast("TransactionClient", made)
        if not self.moves:  # nothing that the earlier release does not know is asked for
            self.upgrade_odds = self.layout_odds = 0.0

    # --- nodes ------------------------------------------------------------------------------------------------------

    def start(self, name: str) -> TransactionDriver:
        """A node of either release while faults last; of this one where the earlier one is refused by name."""
        if self.healed or self.mixing.random() >= self.earlier_share:
            return self.started(name)
        with self.releases.using(earlier=True):
            try:
                stage = EarlierStage(self, name)
                stage.begin()
            except Exception as error:  # of either release's types
                self._by_name(error)
                self.releases_met["earlier refused"] += 1
                stage = None
            else:
                self.releases.stage.Stage.start(stage, name)
        if stage is None:
            return self.started(name)
        self.releases_met["earlier started"] += 1
        self.earlier.add(name)
        self.promoted[name] = 0
        self.let_call(name, stage.own_program, self.releases.earlier("nodes.transactions.external_calls"))
        return self.nodes[name][0]

    def started(self, name: str) -> TransactionDriver:
        """A node of this release."""
        begin(self.log, self.topics, self.program, SEQUENCERS)
        self.releases_met["started"] += 1
        return super().start(name)

    def _by_name(self, error: Exception) -> None:
        """Raises the error again unless it names what the earlier release lacks."""
        kind = type(error).__name__
        refuses = self.releases.refuses_checkpoints or kind != "TopicsTrimmed"
        if kind not in NAMED or NAMED[kind] not in str(error) or not refuses:
            raise error
        self.told[kind] += 1

    @contextmanager
    def _code_of(self, name: str) -> Iterator[None]:
        """The modules of the node's release meanwhile; one of the earlier release may stop by name."""
        earlier = name in self.earlier
        try:
            with self.releases.using(earlier=earlier):
                yield
        except (Killed, LogFull, StateDiskFull):
            raise
        except Exception as error:
            if not earlier:
                raise
            self._by_name(error)
            self.releases_met["earlier stopped"] += 1
            self.kill(name, "stopped by name")

    def _work_beside(self, name: str) -> None:
        with self._code_of(name):
            super()._work_beside(name)

    def _node_turns(self, name: str) -> None:
        with self._code_of(name):
            super()._node_turns(name)

    def _ends(self, name: str) -> None:
        self.earlier.discard(name)
        super()._ends(name)

    def step(self) -> None:
        with self.releases.using(earlier=False):
            super().step()

    def turn(self, times: int = 1) -> None:
        with self.releases.using(earlier=False):
            super().turn(times)

    # --- the end ----------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        if not self.healed:
            self.healed = True
            self.disks.end()
            self.releases_met["earlier at the end of faults"] += len(self.earlier)
            for name in sorted(self.earlier) if self.ends_earlier else ():
                self.leaving.add(name)
                self.nodes[name][0].begin_leaving()
        super().heal()

    def check(self) -> None:
        """As before; the node that begins with the checkpoints may be of the earlier release."""
        self.book.check(self.request_now)
        self.releases_met["earlier to the end"] += len(self.earlier)
        for name in sorted(self.nodes):
            self.kill(name, "all at once")
        self.births.clear()
        self.healed = False
        self.bear()
        self.healed = True
        self.releases_met["earlier begins with checkpoints"] += len(self.earlier)
        self.book.check(self.request_now)
        check_replies(self.replies())
        self.releases_met["earlier begun with checkpoints"] += len(self.earlier)
        self.met.restored += any(driver.steps.begun for driver, _ in self.nodes.values())


def simulate(seed: int) -> tuple[Met, Counter[str], Counter[str]]:
    """One run, as of ``transactions_fleet``; what became of nodes of either release, and how earlier ones stopped."""
    fleet = MixedFleet(seed)
    fleet.run()
    return fleet.met, fleet.releases_met, fleet.told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=None)
    parser.add_argument("--format", type=int, default=LAYOUTS_VERSION)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    before = options.before or last_before(options.format)
    base = fresh_base_seed() if options.seed is None else options.seed
    failed, met, releases_met, told = dict[int, str](), Met(), Counter[str](), Counter[str]()
    with checked_out(before, STAGE) as folder:
        MixedFleet.releases = TransactionReleases(folder)
        for seed in range(base, base + options.seeds):
            try:
                found = simulate(seed)
            except Exception as error:
                failed[seed] = f"{type(error).__name__}: {error}"
                print(f"seed {seed}: {failed[seed]}", file=sys.stderr)
                continue
            met.add(found[0])
            releases_met += found[1]
            told += found[2]
    shown: dict[str, Any] = {"before": before, "formats": [MixedFleet.releases.format, FORMAT_VERSION], "seed": base}
    shown |= {"seeds": options.seeds, "wrong": sorted(failed), "releases": dict(releases_met), "stops": dict(told)}
    shown |= {"met": met.shown()}
    print(json.dumps(shown) if options.json else "\n".join(f"{name:<10}{value}" for name, value in shown.items()))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
