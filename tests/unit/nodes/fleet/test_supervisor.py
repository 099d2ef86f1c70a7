"""Which nodes are started again, when, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.fleet.processes import Fleet, FleetProcess
from nodes.fleet.supervisor import Supervisor
from nodes.settings.settings import load_settings


def never() -> bool:
    return False


class FakeProcess:
    """A process that ends when told to."""

    def __init__(self) -> None:
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode


class FakeFleet(Fleet):
    """Starts no process."""

    __slots__ = ()

    def add(self, number: int, expected: int = 1) -> FleetProcess:
        process: Any = FakeProcess()
        self.members.append(FleetProcess(number, process))
        return self.members[-1]


class Watch:
    """A supervisor of two nodes, and what it said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.fleet = FakeFleet("m:j", load_settings(environ={}), 2)
        self.fleet.start()
        self.supervisor = Supervisor(self.fleet, self.said.append)
        self.supervisor.check(0.0, is_over=never)

    def ends(self, member: int, code: int, at_s: float, over: bool = False) -> None:
        process: Any = self.fleet.members[member].process
        process.returncode = code
        self.supervisor.check(at_s, lambda: over)

    @property
    def numbers(self) -> list[int]:
        return [member.number for member in self.fleet.members]


@pytest.mark.parametrize("code", [-9, -11, 70, 4, 0])
def test_a_node_that_crashes_or_just_ends_is_started_again_after_a_second(code: int) -> None:
    watch = Watch()
    watch.ends(1, code, at_s=10.0)
    watch.supervisor.check(10.9, is_over=never)
    assert watch.numbers == [0, 1]
    watch.supervisor.check(11.0, is_over=never)
    assert watch.numbers == [0, 1, 1] and watch.supervisor.restarts == 1
    assert watch.said[0].startswith("node 1 has ended: ") and watch.said[0].endswith("starting it again in 1 s")


@pytest.mark.parametrize(("code", "times"), [(-7, 1), (-11, 1), (-6, 1), (-9, 0), (70, 0), (1, 0), (0, 0)])
def test_the_log_is_to_be_checked_where_a_node_may_have_met_damaged_pages(code: int, times: int) -> None:
    watch, told = Watch(), [0]
    watch.supervisor.on_wrong_pages = lambda: told.append(code)
    watch.ends(1, code, at_s=10.0)
    assert told == [0] + [code] * times


@pytest.mark.parametrize("code", [1, 2, 3])
def test_a_node_that_has_said_why_it_cannot_go_on_is_not_started_again(code: int) -> None:
    watch = Watch()
    watch.ends(0, code, at_s=1.0)
    watch.supervisor.check(60.0, is_over=never)
    assert watch.numbers == [0, 1]
    assert watch.said == [f"node 0 has ended: exit code {code}; not started again, as that would not help"]


def test_three_restarts_a_minute_are_enough() -> None:
    watch = Watch()
    member = 0
    for round in range(3):
        watch.ends(member, -6, at_s=round * 10.0)
        watch.supervisor.check(round * 10.0 + 1, is_over=never)
        member = len(watch.fleet.members) - 1
    watch.ends(member, -6, at_s=30.0)
    watch.supervisor.check(40.0, is_over=never)
    assert watch.numbers == [0, 1, 0, 0, 0]
    assert watch.said[-1] == "node 0 has ended: killed by SIGABRT; given up after 3 restarts within a minute"
    assert not watch.supervisor.exhausted  # the other one runs
    watch.ends(1, 1, at_s=41.0)
    assert watch.supervisor.exhausted


def crash_often(watch: Watch, times: int, every_s: float = 3.0) -> None:
    """Of node 0, which is started again each time."""
    member = 0
    for number in range(times):
        watch.ends(member, -11, at_s=number * every_s)
        watch.supervisor.check(number * every_s + 1.5, is_over=never)
        member = len(watch.fleet.members) - 1


def test_crashes_that_the_log_has_found_the_record_of_do_not_count() -> None:
    watch = Watch()
    watch.supervisor.accused = lambda: len(watch.fleet.members) // 2  # each record costs two nodes
    crash_often(watch, 12)
    assert watch.supervisor.restarts == 12


def test_what_is_to_last_is_not_given_up_once_it_has_begun() -> None:
    watch = Watch()
    watch.supervisor.lasting = True
    crash_often(watch, 4)
    assert watch.said[-1].endswith("given up after 3 restarts within a minute"), "nothing has ever worked here"
    watch = Watch()
    watch.supervisor.lasting, watch.supervisor.has_begun = True, lambda: True
    crash_often(watch, 4)
    assert watch.said[-1].endswith("starting it again in 1 s")
    for at_s, pause_s in ((13.0, 2), (20.0, 4), (30.0, 8)):
        watch.ends(len(watch.fleet.members) - 1, -11, at_s=at_s)
        assert watch.said[-1].endswith(f"starting it again in {pause_s} s")
        watch.supervisor.check(at_s + pause_s, is_over=never)
    assert watch.numbers[2:] == [0] * 7


def test_after_a_quiet_minute_a_node_has_all_its_restarts_again() -> None:
    watch = Watch()
    member = 0
    for round in range(8):
        watch.ends(member, -6, at_s=round * 25.0)
        watch.supervisor.check(round * 25.0 + 1, is_over=never)
        member = len(watch.fleet.members) - 1
    assert watch.supervisor.restarts == 8


def test_a_node_whose_log_does_not_answer_is_started_again_as_often_as_it_takes() -> None:
    watch, at_s, member, pauses = Watch(), 0.0, 0, list[float]()
    for _ in range(9):
        watch.ends(member, 4, at_s=at_s)
        began = len(watch.fleet.members)
        pause_s = 0.0
        while len(watch.fleet.members) == began:
            pause_s += 1.0
            watch.supervisor.check(at_s + pause_s, is_over=never)
        pauses.append(pause_s)
        at_s, member = at_s + pause_s + 5.0, began
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0]
    assert not any("given up" in said for said in watch.said)
    watch.ends(member, 4, at_s=at_s + 100.0)
    assert watch.said[-1].endswith("starting it again in 1 s"), "it had run for long"


def in_vain(watch: Watch) -> None:
    """Both nodes end at once, whenever they are started."""
    for at_s in range(400):
        for member in watch.fleet.members:
            process: Any = member.process
            process.returncode = 4
        watch.supervisor.check(float(at_s), is_over=never)


def test_a_log_that_has_never_answered_is_given_up() -> None:
    watch = Watch()
    in_vain(watch)
    assert watch.supervisor.exhausted and watch.numbers.count(0) == watch.numbers.count(1) == 6
    assert watch.said[-1].endswith("given up, as log or store have not answered any node since the start")


def test_a_log_that_has_answered_a_node_once_is_not_given_up() -> None:
    watch = Watch()
    watch.supervisor.has_begun = lambda: True
    watch.supervisor.check(0.0, is_over=never)
    watch.supervisor.has_begun = lambda: False
    in_vain(watch)
    assert not watch.supervisor.exhausted and len(watch.numbers) > 20


def test_restarts_for_want_of_the_log_do_not_use_up_those_for_crashes() -> None:
    watch, member = Watch(), 0
    for round, code in enumerate([4, -6, 4, -6, 4, -6]):
        watch.ends(member, code, at_s=round * 10.0)
        watch.supervisor.check(round * 10.0 + 9, is_over=never)
        member = len(watch.fleet.members) - 1
    assert watch.supervisor.restarts == 6


def test_nothing_is_started_once_the_job_is_over() -> None:
    watch = Watch()
    watch.ends(0, -9, at_s=1.0)
    watch.ends(1, 0, at_s=1.5, over=True)
    watch.supervisor.check(5.0, lambda: True)
    assert watch.numbers == [0, 1] and watch.supervisor.exhausted
    assert len(watch.said) == 1


def test_what_a_node_wrote_before_it_ended_is_known_when_its_end_is_judged() -> None:
    """The job is done, and the last node leaves, between two looks: no crash."""
    watch = Watch()
    process: Any = watch.fleet.members[0].process
    asked: list[int | None] = []
    process.returncode = 0
    watch.supervisor.check(1.0, lambda: not asked.append(process.poll()))  # polls the processes first
    assert asked == [0] and watch.said == [] and watch.numbers == [0, 1]


def test_a_node_that_the_fleet_killed_stays_dead() -> None:
    watch = Watch()
    watch.fleet.members[0].killed = True
    watch.ends(0, -9, at_s=1.0)
    watch.supervisor.check(5.0, is_over=never)
    assert watch.numbers == [0, 1] and watch.said == []
