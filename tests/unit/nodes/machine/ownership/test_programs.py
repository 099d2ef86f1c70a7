"""The outcome of an upgrade follows from the order of its records on the control topic."""

from __future__ import annotations

from nodes.machine import messages as m
from nodes.machine.control_state import ControlCheckpoint, decode_control_checkpoint, encode_control_checkpoint
from nodes.machine.ownership import programs as p
from nodes.machine.ownership.ownership import Ownership

FIRST = p.NamedProgram(0, "a", 1, "bank:program", "{}")
NEXT = p.NamedProgram(1, "b", 2, "bank_v2:program", "{}", 7)


class Topic:
    def __init__(self) -> None:
        self.ownership = Ownership(2)
        self.ownership.apply(m.JobStarted(1, "{}", 2))

    @property
    def fold(self) -> p.ProgramFold:
        return self.ownership.programs

    def says(self, name: str, argument: p.Proposal | p.Loading | p.Holding | str) -> None:
        text = argument if isinstance(argument, str) else p.argument(argument)
        self.ownership.apply(m.Command(1, name, text))


def proposed(upgrade: str = "x", program: p.NamedProgram = NEXT) -> Topic:
    topic = Topic()
    topic.says(p.PROGRAM, p.Proposal(upgrade, program, "described"))
    return topic


def test_an_upgrade_runs_until_it_holds() -> None:
    topic = proposed()
    assert topic.fold.proposal is not None and topic.fold.outcome("x") is None and topic.fold.number == 0
    topic.says(p.PROGRAM_LOADED, p.Loading("x", "one", FIRST))
    topic.says(p.PROGRAM_LOADED, p.Loading("x", "one", FIRST))
    assert topic.fold.loaded == ["one"] and not topic.fold.ready and topic.fold.holding == [FIRST]
    topic.says(p.PROGRAM_READY, "x")
    topic.says(p.PROGRAM_HOLDS, p.Holding(NEXT, "described"))
    topic.says(p.PROGRAM_HOLDS, p.Holding(NEXT, "described"))
    assert topic.fold.outcome("x") == "" and topic.fold.proposal is None and topic.fold.holding == [FIRST, NEXT]
    assert topic.ownership.codes == ["described"]


def test_a_node_that_cannot_have_it_ends_it_unless_it_is_too_late() -> None:
    topic = proposed()
    topic.says(p.PROGRAM_LOADED, p.Loading("x", "one", FIRST, "no such module"))
    assert topic.fold.outcome("x") == "node one: no such module" and topic.fold.proposal is None
    late = proposed()
    late.says(p.PROGRAM_READY, "x")
    late.says(p.PROGRAM_LOADED, p.Loading("x", "one", FIRST, "no such module"))
    assert late.fold.outcome("x") is None and late.fold.proposal is not None


def test_of_two_proposals_the_second_is_void_and_one_of_another_number_too() -> None:
    topic = proposed()
    topic.says(p.PROGRAM, p.Proposal("y", NEXT, ""))
    topic.says(p.PROGRAM_READY, "y")
    assert topic.fold.outcome("y") == "an upgrade to bank_v2:program was proposed before it" and not topic.fold.ready
    assert topic.fold.proposal is not None and topic.fold.proposal.id == "x"
    stale = proposed("z", p.NamedProgram(2, "b", 2, "bank_v2:program", "{}"))
    assert stale.fold.outcome("z") == "another upgrade was made since it was checked"


def test_what_is_none_of_its_records_has_no_effect() -> None:
    topic = Topic()
    for name in sorted(p.COMMANDS):
        for argument in ("", "{", "[]", '{"id": 5}'):
            topic.says(name, argument)
    assert topic.fold.state() == p.ProgramState()


def test_a_checkpoint_of_the_control_topic_holds_it_and_stops_older_releases() -> None:
    topic = proposed()
    topic.says(p.PROGRAM_LOADED, p.Loading("x", "one", FIRST))
    data = encode_control_checkpoint(ControlCheckpoint(5, topic.ownership.snapshot()))
    assert data[0] == m.PROGRAMS_VERSION
    restored = Ownership.restored(decode_control_checkpoint(data).state)
    assert restored.programs.state() == topic.fold.state() and restored.digest() == topic.ownership.digest()
    plain = encode_control_checkpoint(ControlCheckpoint(5, Topic().ownership.snapshot()))
    assert plain[0] == m.FIRST_VERSION


def test_outcomes_of_long_ago_are_forgotten() -> None:
    topic = proposed()
    for number in range(2 * p.KEPT_OUTCOMES):
        topic.says(p.PROGRAM, p.Proposal(f"y{number}", NEXT, ""))
    assert topic.fold.outcome("y0") is None and len(topic.fold.state().outcomes) == p.KEPT_OUTCOMES
