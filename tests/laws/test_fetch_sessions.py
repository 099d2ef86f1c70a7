"""Law: a broker that keeps sessions of fetches by the rules of KIP-227 gives every record once, in order."""

from __future__ import annotations

import random

import pytest

from nodes.compiled.loading import Compiled
from nodes.log.kafka.direct.fetched.session import FORGOTTEN, OTHER_EPOCH
from tests.unit.kafka_sessions import ALL, SessionBroker, Where
from tests.unit.nodes.log.kafka.direct.test_session import Reading


def disturb(rng: random.Random, broker: SessionBroker, reading: Reading, away: set[Where]) -> None:
    """Something that parts the reader's and the broker's view, or that changes what is read."""
    where = rng.choice(ALL)
    match rng.choice(["leave or return", "replace", "pause", "resume", "refuse", "restart", "room", "leader"]):
        case "leave or return" if where in away:
            reading.add(where)
            away.remove(where)
        case "leave or return":
            reading.fetcher.remove(where)
            away.add(where)
        case "replace" if reading.fetcher.remove(where):  # and back before a request could say so
            reading.add(where)
        case "pause":
            reading.fetcher.pause(where)
        case "resume" if not reading.fetcher.resume(where, len(reading.values[where])) and where not in away:
            reading.fetcher.remove(where)
            reading.add(where)
        case "refuse":
            broker.refuses = rng.choice([FORGOTTEN, OTHER_EPOCH])
        case "restart":
            broker.session += 1
        case "room":
            broker.keeps = not broker.keeps
        case "leader" if where not in away:
            broker.leaves.add(where)
        case _:
            pass


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_to_the_session_each_record_is_given_once_in_order(loops: Compiled, seed: int) -> None:
    rng = random.Random(seed)
    broker = SessionBroker(room_bytes=rng.choice([200, 1_000, 1 << 20]))
    reading = Reading(loops, broker)
    away: set[Where] = set()
    for _ in range(300):
        for where in rng.sample(ALL, rng.choice([0, 1, 4])):
            broker.append(where, rng.randint(1, 4))
        if rng.random() < 0.3:
            disturb(rng, broker, reading, away)
        for refused in reading.take():
            broker.leaves.discard(refused.place.where)
            away.add(refused.place.where)
    broker.leaves.clear()
    for where in ALL:
        assert reading.fetcher.resume(where, len(reading.values[where])) or where in away
    for where in sorted(away):
        reading.add(where)
    for _ in range(2_000):
        for refused in reading.take():  # by an answer that was on its way
            reading.add(refused.place.where)
        if reading.is_all(broker):
            break
    assert reading.is_all(broker)
