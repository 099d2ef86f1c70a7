"""The control topic is trimmed while nodes are killed, started and stopped for long: all agree, and no work is lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from nodes.log.contract import Appended
from nodes.machine import messages as m
from nodes.machine.ownership.ownership import Ownership
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.control_history import control_history
from nodes.transactions.driver import TransactionDriver
from tests.sim.recorded_log import RecordedLog
from tests.sim.transactions_oracle import each_seed
from tests.unit.txn_stage import SEQUENCERS, Stage, counters
from transactional import Program

SEEDS = 12
PARTITIONS = 2
UNITS = SEQUENCERS + PARTITIONS
ACTS = 5_000
KEYS = 5


def make_program() -> Program:
    return counters("counted", PARTITIONS)


class KeepingLog(RecordedLog):
    """``folded``: what the control topic amounts to before each of its offsets, also of those that are deleted.

    Some of its checkpoints are damaged on their way.
    """

    def __init__(self, draw: Random, **more: Any) -> None:
        super().__init__(**more)
        self.draw = draw
        self.ownership = Ownership(UNITS, owners_save=True)
        self.folded = [self.ownership.digest()]

    def append(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> Appended:
        if topic.endswith("-control-checkpoints") and self.draw.random() < 0.2:
            values = [value[:-1] for value in values]
        if topic.endswith("-control"):
            for value in values:
                self.ownership.apply(m.decode_control(value))
                self.folded.append(self.ownership.digest())
        return super().append(topic, partition, values, **more)


@dataclass
class LateSaver:
    """The effects of a node happen much later, perhaps when it is gone."""

    later: Callable[[Callable[[], int | None]], None]
    done: list[int] = field(default_factory=list)

    def save(self, work: Callable[[], int | None]) -> int | None:
        self.later(lambda: self.done.append(work() or 0))
        return None

    def finished(self) -> list[int]:
        done, self.done = self.done, []
        return done


class World:
    """Two or three nodes that work, stand still or are killed, and a client that counts."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.acts = 0
        self.works: list[tuple[int, Callable[[], int | None]]] = []  # when it is done, and what
        self.stage = Stage(
            make_program(),
            interval_ms=40,
            trim_ms=80,
            new_log=lambda **more: KeepingLog(Random(seed + 1), **more),
            new_trimmer=lambda: LateSaver(self.later),
        )
        assert isinstance(self.stage.log, KeepingLog)
        self.log: KeepingLog = self.stage.log
        self.client = TransactionClient(self.log, clock_s=self.stage.clock_s)
        self.client.ids.draw = Random(seed + 2).randbytes
        self.asked: dict[str, str] = {}
        self.still: dict[str, int] = {}  # node -> how many acts it stands still for
        self.born = 0
        self.late_starts = self.behind = 0
        for _ in range(self.draw.randrange(2, 4)):
            self.start()

    def start(self) -> None:
        self.born += 1
        self.late_starts += self.trimmed > 0
        self.stage.start(f"n{self.born}")

    def later(self, work: Callable[[], int | None]) -> None:
        """Soon, or when much has happened."""
        self.works.append((self.acts + self.draw.randrange(self.draw.choice([40] * 9 + [3_000])), work))

    def finish(self, until: int) -> None:
        done = [work for due, work in self.works if due <= until]
        self.works = [each for each in self.works if each[0] > until]
        for work in done:
            work()

    @property
    def trimmed(self) -> int:
        return self.log.start_offset(self.stage.topics.control, 0)

    def act(self) -> None:
        draw, nodes = self.draw, self.stage.nodes
        self.acts += 1
        self.finish(self.acts)
        chance = draw.random()
        if chance < 0.1:
            key = f"k{draw.randrange(KEYS)}"
            self.asked[self.client.send("count", key, "add", [1])] = key
        elif chance < 0.102:
            del nodes[draw.choice([name for name in sorted(nodes) if name not in self.still])]
            self.start()
        elif chance < 0.106 and len(self.still) + 1 < len(nodes):
            self.still[draw.choice(sorted(nodes))] = draw.randrange(4_000)
        else:
            self.stage.now_ms += draw.randrange(8)
            self.turn(draw.choice(sorted(nodes)))
        self.still = {name: left - 1 for name, left in self.still.items() if left and name in nodes}

    def turn(self, name: str) -> None:
        if name in self.still:
            return
        driver, feeding = self.stage.nodes[name]
        self.behind += 0 < driver.control.position < self.trimmed
        driver.turn()
        feeding.turn(driver.node.sequencers)
        self.check(driver)

    def check(self, driver: TransactionDriver) -> None:
        at, claiming = driver.control.position, driver.claiming
        name, ownership = claiming.node, claiming.ownership
        assert ownership.digest() == self.log.folded[at], f"node {name} at {at}"
        assert set(ownership.owned_by(name)) <= set(claiming.owned), name
        assert {ownership.owner(unit) for unit in claiming.owned} <= {name, None}, name
        assert claiming.joined == (name in ownership.members), name

    def heal(self) -> None:
        """Until all that was asked is answered, and each count was given once."""
        self.still.clear()
        for _ in range(3_000):
            self.finish(1 << 30)
            self.stage.now_ms += 5
            for name in sorted(self.stage.nodes):
                self.turn(name)
            self.client.poll()
            if len(self.client.answered) == len(self.asked):
                break
        answers = dict(self.client.take_all())
        for number in range(KEYS):
            found = sorted(answers[name] for name, key in self.asked.items() if key == f"k{number}")
            assert found == list(range(1, len(found) + 1))
        fold = control_history(self.log, self.stage.topics, UNITS)
        assert fold.read().digest() == self.log.folded[fold.offset] and fold.offset == len(self.log.folded) - 1


def run(seed: int) -> World:
    world = World(seed)
    for _ in range(ACTS):
        world.act()
    world.heal()
    return world


@pytest.mark.long
def test_who_starts_or_stood_still_knows_what_those_know_that_read_all_of_control() -> None:
    base, worlds = int(os.environ["SIM_BASE_SEED"]), list[World]()
    worlds += each_seed(base, SEEDS, run)
    assert sum(world.trimmed > 0 for world in worlds) > SEEDS // 2
    assert sum(world.late_starts for world in worlds) and sum(world.behind for world in worlds)
