"""Records of the control topic that come twice, late, from nodes that are gone, or from nobody.

Each kind in both kinds of job. A record takes effect once; nodes answer none of them without end, and all results come
and are right.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from nodes.checkpoints.file_names import MERGED, CheckpointKey, digest_of, name_of
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.sim.drawing import draw
from nodes.sim.run import live
from nodes.sim.trace import Trace
from nodes.sim.world import World
from nodes.streams.control_history import heartbeat_topic
from nodes.transactions.job_start import begin, started
from nodes.transactions.topics import FIRST_INCARNATION, create_topics
from tests.unit.txn_stage import SEQUENCERS, Stage, counters
from wcrdt.replica.slots import WINDOW_START

KEYS = 7
PER_KEY = 12
SETTLE_TURNS = 400
GARBAGE = [b"", b"\0" * 5, b"garbage that is no record of anything", b"\xff" * 4096, m.encode(m.Hello(9, "other", 1))]


class Copies:
    """Writes copies of what stands on a control topic; ``kinds`` are those that came by."""

    def __init__(self, log: MemoryLog, topic: str, *, late: float) -> None:
        self.log, self.topic, self.late = log, topic, late
        self.draw = random.Random(14)
        self.at = log.start_offset(topic, 0)
        self.seen: list[bytes] = []
        self.kinds: set[str] = set()

    def repeat(self, *, is_late: bool = True, most: int = 2_000) -> None:
        """Each new record again; ``is_late``: and now and then an old one, of whichever node."""
        for value in list(self._new()):
            self.seen.append(value)
            if len(self.seen) < most:
                self.log.append(self.topic, 0, [value])
                self.kinds.add(type(m.decode_control(value)).__name__)
        if is_late and self.seen and self.draw.random() < self.late:
            self.log.append(self.topic, 0, [self.draw.choice(self.seen)])
        self.at = self.log.end_offset(self.topic, 0)

    def all_again(self) -> None:
        """Everything that there was, in its order."""
        self.seen += list(self._new())
        for value in self.seen:
            self.log.append(self.topic, 0, [value])
        self.at = self.log.end_offset(self.topic, 0)

    def _new(self) -> Iterator[bytes]:
        self.at = max(self.at, self.log.start_offset(self.topic, 0))
        while self.at < self.log.end_offset(self.topic, 0):
            chunk = self.log.read(self.topic, 0, self.at)
            self.at = chunk.next_offset
            yield from chunk.values


# --- transactional jobs -----------------------------------------------------------------------------------------------


def count_up(stage: Stage, each: Callable[[], None]) -> None:
    for number in range(KEYS * PER_KEY):
        assert stage.call("count", f"k{number % KEYS}", "add", [1]) == number // KEYS + 1
        stage.turn(3)
        each()


def settled(stage: Stage) -> None:
    """Every unit has one owner that works on it, and nobody has more to say."""
    stage.turn(SETTLE_TURNS)
    end = stage.log.end_offset(stage.topics.control, 0)
    stage.turn(SETTLE_TURNS)
    said = {type(m.decode_control(value)).__name__ for value in stage.log.read(stage.topics.control, 0, end).values}
    assert said <= {"CheckpointSaved"}
    owned = [unit for driver, _ in stage.nodes.values() for unit in driver.claiming.owned]
    assert sorted(owned) == list(range(SEQUENCERS + stage.program.partitions))


def test_a_transactional_job_takes_each_control_record_once() -> None:
    stage = Stage(counters("twice", 3), interval_ms=50)
    for name in "abc":
        stage.start(name)
    copies = Copies(stage.log, stage.topics.control, late=0.3)
    beats = Copies(stage.log, stage.topics.heartbeats, late=0.3)
    calls = 0

    def each() -> None:
        nonlocal calls
        calls += 1
        copies.repeat()
        beats.repeat()
        if calls == 15:
            stage.start("d")
        if calls == 30:
            stage.nodes.pop("a")[0].leave()
        if calls == 50:
            del stage.nodes["b"]  # killed
        if calls == 60:
            stage.start("e")

    count_up(stage, each)
    assert copies.kinds >= {"JobStarted", "Hello", "Claim", "Release", "Goodbye", "CheckpointSaved"}
    assert beats.kinds == {"Heartbeat"}
    copies.all_again()
    beats.all_again()
    settled(stage)
    assert stage.call("count", "k0", "add", [0]) == PER_KEY


def test_a_hello_that_comes_twice_is_not_answered() -> None:
    stage = Stage(counters("greeting", 2))
    stage.start("a")
    stage.call("count", "k", "add", [1])
    greeting = next(
        value
        for value in stage.log.read(stage.topics.control, 0, 0).values
        if isinstance(m.decode_control(value), m.Hello)
    )
    end = stage.log.end_offset(stage.topics.control, 0)
    stage.log.append(stage.topics.control, 0, [greeting])
    stage.turn(SETTLE_TURNS)
    assert stage.log.end_offset(stage.topics.control, 0) == end + 1
    assert stage.call("count", "k", "add", [1]) == 2


def test_a_hello_of_somebody_else_under_a_living_nodes_name_is_not_answered_without_end() -> None:
    stage = Stage(counters("forged", 2))
    stage.start("a")
    stage.call("count", "k", "add", [1])
    for forged in (m.Hello(FIRST_INCARNATION, "a"), m.Hello(FIRST_INCARNATION, "a", 0, 1 << 40)):
        stage.log.append(stage.topics.control, 0, [m.encode(forged)])
        settled(stage)
    assert stage.call("count", "k", "add", [1]) == 2


def forged_checkpoints(unit: int, epoch: int) -> Iterator[m.CheckpointSaved]:
    """Names that no store has given, of that state partition, and good ones from who may not save it."""
    start = m.CheckpointSaved(FIRST_INCARNATION, "a", unit, 1, "?", epoch, 0, *WINDOW_START)
    key = CheckpointKey("forged-txn", FIRST_INCARNATION, unit, (epoch, 0), WINDOW_START)
    good = name_of(key, digest_of(b"forged"))
    for name in ("x", "../../etc/passwd", "/dev/zero", good + "/", good.replace(".ckpt", ".."), "\0", "a/b.ckpt" * 90):
        yield m.CheckpointSaved(FIRST_INCARNATION, "a", unit, 1, name, epoch, 0, start.answered_ms)
    yield m.CheckpointSaved(FIRST_INCARNATION, "a", unit, 1, good, epoch + 1, 0, start.answered_ms)
    for node, version in (("nobody", 1), ("a", 0), ("a", 99), ("nobody", 0)):
        yield m.CheckpointSaved(FIRST_INCARNATION, node, unit, version, good, epoch, 0, start.answered_ms)


@pytest.mark.parametrize("epoch", [0, 10**12])
def test_forged_names_of_checkpoints_have_no_effect(epoch: int) -> None:
    stage = Stage(counters("forged", 2), interval_ms=50, trim_ms=100)
    stage.start("a")
    for number in range(KEYS * PER_KEY):
        stage.call("count", f"k{number % KEYS}", "add", [1])
        stage.turn(5)
    before = stage.nodes["a"][0].claiming.ownership.digest()
    forged = [m.encode(saved) for unit in (2, 3) for saved in forged_checkpoints(unit, epoch)]
    for record in forged:
        stage.log.append(stage.topics.control, 0, [record])
    folded = stage.nodes["a"][0].claiming.ownership
    kept = [folded.checkpoints(unit) for unit in (2, 3)]
    for record in forged:
        assert folded.apply(m.decode_control(record)) == []
    assert [folded.checkpoints(unit) for unit in (2, 3)] == kept and folded.digest() == before
    stage.turn(SETTLE_TURNS)
    del stage.nodes["a"]
    stage.start("b")
    for key in range(KEYS):
        assert stage.call("count", f"k{key}", "add", [0]) == PER_KEY


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_as_the_first_control_record_stops_nobody(garbage: bytes) -> None:
    log, program = MemoryLog(), counters("first", 2)
    topics = create_topics(log, program, SEQUENCERS)
    log.append(topics.control, 0, [garbage])
    begin(log, topics, program, SEQUENCERS)
    begin(log, topics, program, SEQUENCERS)
    found = started(log, topics)
    assert found is not None and found.incarnation == FIRST_INCARNATION
    assert log.end_offset(topics.control, 0) == 2


def test_a_start_of_another_incarnation_does_not_silence_a_transactional_job() -> None:
    stage = Stage(counters("silenced", 2))
    stage.start("a")
    stage.call("count", "k", "add", [1])
    stage.log.append(stage.topics.control, 0, [m.encode(m.JobStarted(9, "forged", 1))])
    stage.start("b")
    settled(stage)
    assert stage.call("count", "k", "add", [1]) == 2


# --- streaming jobs ---------------------------------------------------------------------------------------------------


def world_of(seed: int, *, calm: bool) -> World:
    return World(draw(seed, max_nodes=3, calm=calm), Trace(None))


@pytest.mark.long
@pytest.mark.parametrize("calm", [True, False])
def test_a_streaming_job_takes_each_control_record_once(calm: bool) -> None:
    kinds: set[str] = set()
    for seed in range(8):
        world = world_of(seed, calm=calm)
        copies = Copies(world.log, world.run.job.control_topic, late=0.05)
        beats = Copies(world.log, heartbeat_topic(world.run.job), late=0.02)
        step = world.step

        def stepped(
            step: Callable[[], None] = step, copies: Copies = copies, beats: Copies = beats, world: World = world
        ) -> None:
            step()
            copies.repeat(is_late=not world.all_fed)
            beats.repeat(is_late=not world.all_fed)

        world.step = stepped  # type: ignore[method-assign]
        live(world)
        kinds |= copies.kinds
    expected = {"JobStarted", "Hello", "Claim", "CheckpointSaved", "EndOfInput", "Goodbye"}
    if not calm:
        expected |= {"Release", "Leaving", "MergedSaved", "SlotWanted", "Command"}
    assert kinds >= expected


def test_forged_names_of_checkpoints_have_no_effect_on_a_streaming_job() -> None:
    for seed in range(4):
        world = world_of(seed, calm=True)
        run = world.run
        merged = name_of(CheckpointKey("x", run.incarnation, MERGED, (10**9, 0), (0, 0)), digest_of(b""))
        for name in ("x", "../../etc/passwd", "\0", merged):
            forged: list[m.ControlMessage] = [
                m.CheckpointSaved(run.incarnation, "nobody", partition, 0, name, 10**9, 10**15, 10**15, done=True)
                for partition in range(run.partitions)
            ]
            forged.append(m.MergedSaved(run.incarnation, "nobody", name, 10**8, [10**9] * run.partitions))
            world.log.append(run.job.control_topic, 0, [m.encode(each) for each in forged])
        live(world)
        assert world.all_done()


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_as_the_first_control_record_stops_no_streaming_job(garbage: bytes) -> None:
    class Spoiled(MemoryLog):
        def create_topic(self, name: str, partitions: int, *args: object, **kwargs: object) -> None:
            super().create_topic(name, partitions, *args, **kwargs)  # type: ignore[arg-type]
            if name.endswith("control") and not self.end_offset(name, 0):
                self.append(name, 0, [garbage])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nodes.sim.world.MemoryLog", Spoiled)
        live(world := world_of(1, calm=True))
    assert world.log.read(world.run.job.control_topic, 0, 0).values[0] == garbage
