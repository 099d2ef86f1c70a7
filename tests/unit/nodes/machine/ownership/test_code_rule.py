"""Nodes of a transactional job with different code: the control topic's order says who works, and who leaves."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon.fingerprint.schema import shape_of
from holon.fingerprint.version import FORMAT, JobVersion
from nodes.machine import messages as m
from nodes.machine.code_check import JobMismatch
from nodes.machine.control_state import ControlCheckpoint, decode_control_checkpoint, encode_control_checkpoint
from nodes.machine.ownership.claims import MAX_CHECKS, Claiming
from nodes.machine.ownership.code_rule import CodeRule
from nodes.machine.ownership.commands import CODE, CODE_BESIDE, VERSION
from nodes.machine.ownership.ownership import Ownership

SUSPECT_MS = 100
UNITS = 4


class Account(msgspec.Struct):
    balance: int = 0


class Longer(msgspec.Struct):
    balance: int = 0
    limit: int = 0


class Renamed(msgspec.Struct):
    saldo: int = 0


class Retyped(msgspec.Struct):
    balance: str = ""


def version(code: str, state: Any = Account) -> JobVersion:
    return JobVersion(code, {"account": shape_of(state)}, {}, {"app.deposit": code}, FORMAT)


class Fleet:
    """Nodes on one control topic. ``refused``: what the others of them were told when they ended."""

    def __init__(self, began: JobVersion | None) -> None:
        described = {} if began is None else {VERSION: began.encode()}
        self.topic = [m.encode(m.JobStarted(1, "{}", UNITS, described))]
        self.beats: list[bytes] = []
        self.nodes: dict[str, Claiming] = {}
        self.read: dict[str, tuple[int, int]] = {}
        self.refused: dict[str, str] = {}
        self.paused: set[str] = set()
        self.now_ms = 0

    def start(self, name: str, code: JobVersion, *, accept: bool = False) -> None:
        rule = CodeRule("bank", code, accept=accept)
        self.nodes[name] = Claiming(name, -1, 1, UNITS, failure_timeout_ms=SUSPECT_MS, rule=rule)
        self.read[name] = 0, 0

    def kill(self, name: str) -> None:
        del self.nodes[name]

    def leave(self, name: str) -> None:
        self.topic += self.nodes.pop(name).leave()

    def run(self, duration_ms: int = 4 * MAX_CHECKS * SUSPECT_MS) -> None:
        for _ in range(duration_ms // 20):
            self.now_ms += 20
            for name in sorted(self.nodes.keys() - self.paused):
                self._turn(name, self.nodes[name])

    def _turn(self, name: str, node: Claiming) -> None:
        self.beats.append(m.encode(m.Heartbeat(1, name, self.now_ms)))
        at, beats_at = self.read[name]
        self.read[name] = len(self.topic), len(self.beats)
        try:
            node.receive_heartbeats(self.beats[beats_at:], self.now_ms)  # a new node reads those of the dead too
            self.topic += node.control(self.topic[at:], True, self.now_ms, node.incoming)
        except JobMismatch as error:
            self.refused[name] = str(error)
            self.leave(name)

    def working(self) -> list[str]:
        return sorted(name for name, node in self.nodes.items() if node.owned)

    def commands(self) -> list[str]:
        found = [m.decode_control(value) for value in self.topic]
        return [each.name for each in found if isinstance(each, m.Command)]


def test_nodes_with_the_same_code_work_together_and_say_nothing_of_it() -> None:
    fleet = Fleet(version("1"))
    fleet.start("a", version("1"))
    fleet.start("b", version("1"))
    fleet.run()
    assert fleet.working() == ["a", "b"] and not fleet.refused and not fleet.commands()


def test_a_node_with_other_code_is_refused_beside_others_by_name_and_leaves_no_trace() -> None:
    fleet = Fleet(version("1"))
    fleet.start("a", version("1"))
    fleet.run()
    fleet.start("b", version("2"))
    fleet.run()
    assert fleet.working() == ["a"] and not fleet.commands()
    assert "a work with other code" in fleet.refused["b"] and "app.deposit" in fleet.refused["b"]
    assert "--accept-code" in fleet.refused["b"]


@pytest.mark.parametrize("ending", ["leave", "kill"])
def test_other_code_goes_on_when_no_other_node_is_there(ending: str) -> None:
    """Also where the others were killed, so that they are members still, and their heartbeats are on the log."""
    fleet = Fleet(version("1"))
    fleet.start("a", version("1"))
    fleet.run()
    getattr(fleet, ending)("a")
    fleet.start("b", version("2"))
    fleet.run()
    fleet.start("c", version("2"))
    fleet.run()
    assert fleet.working() == ["b", "c"] and not fleet.refused and fleet.commands() == [CODE]


def test_a_node_that_stood_still_meanwhile_leaves_when_it_reads_on() -> None:
    fleet = Fleet(version("1"))
    fleet.start("a", version("1"))
    fleet.run()
    fleet.paused = {"a"}
    fleet.run(SUSPECT_MS)
    fleet.start("b", version("2"))
    fleet.run()
    assert fleet.nodes["b"].owned
    fleet.paused = set()
    fleet.run()
    assert fleet.working() == ["b"] and "has gone on with other code" in fleet.refused["a"]


def test_of_two_that_begin_at_once_with_different_code_one_leaves() -> None:
    fleet = Fleet(version("1"))
    fleet.start("a", version("2"))
    fleet.start("b", version("3"))
    fleet.run()
    assert len(fleet.working()) == 1 and len(fleet.refused) == 1


def test_accepted_code_works_beside_the_others_and_is_said_on_the_log() -> None:
    """The way to renew a fleet node by node; when the last old node has gone, new code alone goes on."""
    fleet = Fleet(version("1"))
    fleet.start("a", version("1"))
    fleet.run()
    fleet.start("b", version("2"), accept=True)
    fleet.run()
    assert fleet.working() == ["a", "b"] and fleet.commands() == [CODE_BESIDE]
    assert len(fleet.nodes["a"].ownership.codes) == 2
    fleet.start("c", version("3"))
    fleet.run()
    assert "c" in fleet.refused


@pytest.mark.parametrize("state", [Longer, Renamed])
def test_nodes_whose_states_have_other_types_never_work_side_by_side(state: Any) -> None:
    """An old node would drop a field that it does not know, whenever it writes."""
    fleet = Fleet(version("1"))
    fleet.start("a", version("1"))
    fleet.run()
    fleet.start("b", version("2", state), accept=True)
    fleet.run()
    assert fleet.working() == ["a"] and "types of state differ" in fleet.refused["b"]


@pytest.mark.parametrize(
    ("state", "accept", "words"),
    [
        (Longer, False, ""),
        (Renamed, False, "account.balance"),
        (Renamed, True, ""),
        (Retyped, False, "cannot read"),
        (Retyped, True, "cannot read"),
    ],
)
def test_state_that_does_not_fit_is_refused_by_name(state: Any, accept: bool, words: str) -> None:
    fleet = Fleet(version("1"))
    fleet.start("a", version("2", state), accept=accept)
    fleet.run()
    assert fleet.working() == ([] if words else ["a"])
    assert words in fleet.refused.get("a", "")


def test_a_second_rename_is_compared_with_what_was_accepted_last() -> None:
    fleet = Fleet(version("1"))
    fleet.start("a", version("2", Longer))
    fleet.run()
    fleet.leave("a")
    fleet.start("b", version("3"))
    fleet.run()
    assert "account.limit" in fleet.refused["b"]


def test_a_job_of_a_release_that_recorded_nothing_needs_a_word() -> None:
    fleet = Fleet(None)
    fleet.start("a", version("1"))
    fleet.run()
    assert "another release" in fleet.refused["a"] and "--accept-code" in fleet.refused["a"]
    fleet.start("b", version("1"), accept=True)
    fleet.run()
    fleet.start("c", version("1"))
    fleet.run()
    assert fleet.working() == ["b", "c"] and fleet.commands() == [CODE]


def test_versions_outlive_a_checkpoint_of_the_control_topic() -> None:
    fold = Ownership(UNITS)
    fold.apply(m.JobStarted(1, "{}", UNITS, {VERSION: version("1").encode()}))
    assert fold.codes == [version("1").encode()]
    fold.apply(m.Command(1, CODE_BESIDE, version("2").encode()))
    again = decode_control_checkpoint(encode_control_checkpoint(ControlCheckpoint(7, fold.snapshot())))
    assert Ownership.restored(again.state).codes == [version("1").encode(), version("2").encode()]
    fold.apply(m.Command(1, CODE, version("3").encode()))
    assert fold.codes == [version("3").encode()]
