"""Records written and not acknowledged: tickets count in their order, in any order of the log's answers."""

from __future__ import annotations

from nodes.machine.effects import WriteBroadcast, WriteOutput
from nodes.machine.events import Acknowledged
from nodes.streams.io.in_flight import InFlight

RESULTS = ("results", 2)


def _output(ticket: int, version: int = 1) -> WriteOutput:
    return WriteOutput(3, version, ticket, RESULTS, [b"x"], [b""], [None])


def test_a_ticket_waits_for_those_before_it() -> None:
    flight, delta, output = InFlight(), WriteBroadcast(3, 1, 1, b""), _output(2)
    flight.began(delta)
    flight.began(output)
    flight.done(output, {RESULTS: 9})
    assert flight.take() == []
    flight.done(delta, {})
    assert flight.take() == [Acknowledged(3, 1, 2, {RESULTS: 9})]
    assert flight.take() == []


def test_claims_do_not_speak_for_each_other() -> None:
    flight, old, new = InFlight(), _output(7, version=1), _output(1, version=2)
    flight.began(old)
    flight.began(new)
    flight.done(new, {RESULTS: 5})
    assert flight.take() == [Acknowledged(3, 2, 1, {RESULTS: 5})]
    flight.done(old, {RESULTS: 4})
    assert flight.take() == [Acknowledged(3, 1, 7, {RESULTS: 4})]
