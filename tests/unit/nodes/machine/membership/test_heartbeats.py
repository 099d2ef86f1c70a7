"""Heartbeats of large fleets: told to a group, passed on to everybody."""

from __future__ import annotations

from nodes.machine import messages as m
from nodes.machine.config import NodeConfig
from nodes.machine.effects import WriteHeartbeat
from nodes.machine.membership.heartbeats import GROUPS, RELAYS, HeartbeatGroups, group_of

INTERVAL_MS = 100


def fleet(size: int, above: int = 32) -> dict[str, HeartbeatGroups]:
    names = [f"node-{number}" for number in range(size)]
    made = {
        name: HeartbeatGroups(NodeConfig(name, failure_timeout_ms=300, group_heartbeats_above=above)) for name in names
    }
    for beats in made.values():
        beats.resize(size, 0)
    return made


def interval(fleet: dict[str, HeartbeatGroups], now_ms: int) -> tuple[set[str], int]:
    """All write once and hear their group; gives whom everybody hears of, and how many records all have to read."""
    told: list[tuple[str, WriteHeartbeat]] = []
    for name, beats in fleet.items():
        beat = m.encode(m.Heartbeat(0, name, 1))
        told += [(name, effect) for effect in beats.write(beat, 0, now_ms)]
    heard: set[str] = set()
    for name, effect in told:
        message = m.decode_control(effect.value)
        if effect.group is None:
            heard |= set(message.nodes) if isinstance(message, m.Alive) else {name}
        else:
            for beats in fleet.values():
                if beats.group == effect.group:
                    beats.record_heartbeat(name)
    return heard, sum(effect.group is None for _, effect in told)


def test_a_small_fleet_tells_everybody() -> None:
    small = fleet(32)
    assert interval(small, 0) == (set(small), 32)


def test_a_large_fleet_is_heard_through_few_records() -> None:
    large = fleet(400)
    later_ms = 1000  # before that, each tells everybody too
    interval(large, later_ms)
    heard, records = interval(large, later_ms + INTERVAL_MS)
    assert heard == set(large)
    assert records <= GROUPS * RELAYS


def test_until_all_can_have_read_how_large_the_fleet_is_each_tells_everybody_too() -> None:
    large = fleet(40)
    assert interval(large, 800)[1] >= 40
    assert interval(large, 900)[1] < 40


def test_who_is_dead_is_not_passed_on_and_a_dead_relay_takes_nobody_with_it() -> None:
    large = fleet(400)
    for now_ms in (1000, 1100):
        interval(large, now_ms)
    relay = next(n for n, beats in large.items() if len(beats.write(b"", 0, 1200)) > 1)
    large = {name: beats for name, beats in large.items() if name != relay}
    interval(large, 1200)
    heard, _ = interval(large, 1300)
    assert heard == set(large)


def test_a_fleet_that_has_shrunk_tells_everybody_again() -> None:
    beats = HeartbeatGroups(NodeConfig("a", group_heartbeats_above=32))
    beats.resize(33, 0)
    assert beats.group == group_of("a")
    beats.resize(25, 0)
    assert beats.group is not None
    beats.resize(24, 0)
    assert beats.group is None
