"""Requests for other partitions on nodes in memory: refused by name before anything is written, or waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec
import pytest

from nodes.errors import RunFailed, SettingsError, UnknownName
from nodes.log.contract import Appended, LogError, LogFull
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.machine.ownership import commands
from nodes.machine.ownership.layouts import LayoutProgress
from nodes.transactions.layouts.repartitioning import NotRepartitioned, Repartitioned, Repartitioning
from nodes.transactions.layouts.splitting import request_split
from nodes.transactions.topics import FIRST_INCARNATION
from tests.unit.nodes.transactions.layouts.test_splitting import refused, stage, written
from tests.unit.txn_stage import SlowSaver, Stage, counters

REASON = "Kafka k:9092: enlarging topic: broker: Policy violation"


class Small(MemoryLog):
    """No topic can be enlarged while ``refusals`` are left."""

    refusals = 0
    raises: type[LogError] = LogError

    def add_partitions(self, topic: str, partitions: int) -> None:
        if self.refusals:
            self.refusals -= 1
            raise self.raises(REASON)
        super().add_partitions(topic, partitions)


def small(refusals: int) -> tuple[Stage, Small]:
    made = Stage(counters("small", 2), new_log=lambda on_wait: Small(on_wait=lambda s: made.turn(20)))
    made.start("a")
    made.turn(10)
    assert made.call("count", "k", "add", [7]) == 7
    assert isinstance(made.log, Small)
    made.log.refusals = refusals
    return made, made.log


def more(requests: Repartitioning, to: int, mode: Literal["stop", "online"] = "online") -> Repartitioned:
    made, told = requests.request(["count"], to, "least", mode)
    return requests.wait(made, told, 60)


@pytest.mark.parametrize(
    ("operator", "to", "error", "text"),
    [
        ("count", 0, SettingsError, "--to 0: 0 partitions for 1024 buckets: 1 to 1024 can have one each"),
        ("count", 2, SettingsError, "count: 2 partitions already"),
        ("count", 1_025, SettingsError, "--to 1025: 1025 partitions for 1024 buckets"),
        ("cuont", 3, UnknownName, "no operator 'cuont'; nearest: count"),
    ],
)
def test_requests_that_cannot_be_are_named_and_nothing_is_written(
    operator: str, to: int, error: type[Exception], text: str
) -> None:
    made = stage()
    before = written(made)
    with pytest.raises(error, match=text):
        Repartitioning(made.log, made.topics).request([operator], to, "least")
    assert written(made) == before


def test_without_a_node_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.transactions.layouts.repartitioning.HEARTBEAT_WAIT_S", 0.01)
    made = stage()
    made.nodes.clear()
    before = written(made)
    with pytest.raises(RunFailed, match="no node of job 'split' runs: nothing was changed"):
        Repartitioning(made.log, made.topics).request(["count"], 3, "all")
    assert written(made) == before


def test_a_second_migration_is_refused_with_what_runs_and_how_far_it_is() -> None:
    made = stage()
    first = Repartitioning(made.log, made.topics)
    proposed, told = first.request(["count"], 3, "least")
    second = Repartitioning(made.log, made.topics)
    text = r"layout 1 is under way \(count to 3 partitions\): see holon txn layout"
    refused(made, lambda: second.request(["count"], 4, "all"), RunFailed, text)
    progress = msgspec.json.encode(LayoutProgress(1, 2_000_000, 75, 3.0)).decode()
    made.log.append(
        made.topics.control, 0, [m.encode(m.Command(FIRST_INCARNATION, commands.LAYOUT_PROGRESS, progress))]
    )
    far = r"count to 3 partitions; copied 2.0 MB, 75 keys and replies to go, about 3 s"
    refused(made, lambda: second.request(["count"], 4, "all"), RunFailed, far)
    refused(made, lambda: request_split(second, "split", None, 0, 1), RunFailed, far)
    assert first.wait(proposed, told, 60).partitions == 3


@pytest.mark.parametrize("raises", [LogError, LogFull])
def test_a_topic_that_cannot_be_enlarged_is_waited_for_by_name_and_nothing_is_lost(raises: type[LogError]) -> None:
    made, log = small(3)
    log.raises = raises
    told, slept = list[str](), list[float]()

    def sleep(seconds: float) -> None:
        assert not Repartitioning(log, made.topics).read().layouts.proposed, "it was requested too early"
        slept.append(seconds)

    requests = Repartitioning(log, made.topics, patience_s=60, tell=told.append, sleep=sleep)
    assert more(requests, 3).partitions == 3 and made.call("count", "k", "add", [0]) == 7
    assert slept == [1.0] * 3
    assert told == [f"waits for topic {made.topics.calls!r} to get 3 partitions: {REASON}"], "once, as long as it lasts"


class Full(MemoryLog):
    """While ``full`` is a part of a topic's name, that one has no room; nodes wait for it, so no turn passes."""

    full: str | None = None

    def append(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> Appended:
        if self.full is not None and self.full in topic:
            raise LogFull(f"topic {topic!r}: no space left")
        return super().append(topic, partition, values, **more)


@pytest.mark.parametrize(("full", "topic"), [("", "heartbeats"), ("control", "control")])
@pytest.mark.parametrize("to", [1, 3])
def test_a_command_waits_for_room_on_a_full_disk_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, full: str, topic: str, to: int
) -> None:
    """Nodes that wait for room send no heartbeats: they were taken for nodes that do not run."""
    monkeypatch.setattr("nodes.transactions.layouts.repartitioning.HEARTBEAT_WAIT_S", 0.01)

    def turns(_: float) -> None:
        if log.full != "":
            made.turn(20)

    made = Stage(counters("full", 2), new_log=lambda on_wait: Full(on_wait=turns))
    log = cast("Full", made.log)
    made.start("a")
    made.turn(10)
    told, slept = list[str](), list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        log.full = full if len(slept) < 3 else None

    with pytest.raises(LogFull if full else RunFailed, match="no space left" if full else "no node of job 'full' runs"):
        log.full = full
        more(Repartitioning(log, made.topics), to)
    requests = Repartitioning(log, made.topics, patience_s=60, tell=told.append, sleep=sleep)
    assert more(requests, to).to == to
    assert slept == [1.0] * 3
    text = f"topic {f'full-txn-{topic}'!r}: no space left"
    assert told == [f"waits for room on the log, and nothing is requested until then: {text}"], "once"
    log.full = full
    with pytest.raises(LogFull, match="no space left"):
        more(Repartitioning(log, made.topics, patience_s=2, sleep=lambda seconds: None), 2 if to == 1 else 1)


def test_a_request_that_waits_for_a_topic_can_be_interrupted_and_made_again() -> None:
    made, log = small(1 << 30)

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    before = written(made)
    with pytest.raises(KeyboardInterrupt):
        more(Repartitioning(log, made.topics, patience_s=60, sleep=interrupt), 3)
    with pytest.raises(LogError, match="Policy violation"):
        more(Repartitioning(log, made.topics), 3)
    assert written(made) == before
    log.refusals = 0
    assert more(Repartitioning(log, made.topics), 3).partitions == 3


@pytest.mark.slow
def test_another_request_that_comes_first_while_a_topic_is_waited_for_is_named() -> None:
    made, log = small(2)

    def other(seconds: float) -> None:
        if log.refusals == 1:
            Repartitioning(log, made.topics).request(["count"], 1, "least")

    waits = Repartitioning(log, made.topics, patience_s=60, sleep=other)
    with pytest.raises(RunFailed, match=r"layout 1 is under way \(count to 1 partitions\)"):
        more(waits, 3)
    made.turn(500)
    assert more(Repartitioning(log, made.topics), 3).layout == 2


class Away(Stage):
    """Checkpoints are saved once ``away`` is over."""

    away = False

    def more(self, name: str) -> dict[str, object]:
        self.saver = SlowSaver(lambda: 0 if self.away else self.now_ms, lambda: 1)
        return {"new_saver": lambda what: self.saver if what == "saver" else self.new_saver(what)}

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            super().turn()
            self.saver.go_on()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["stop", "online"])
def test_while_the_checkpoint_store_is_away_the_move_waits_and_says_for_what(mode: Literal["stop", "online"]) -> None:
    made = Away(counters("away", 2), new_log=lambda on_wait: MemoryLog(on_wait=lambda s: made.turn(20)))
    made.start("a")
    made.turn(10)
    assert made.call("count", "k", "add", [7]) == 7
    made.away = True
    requests, told = Repartitioning(made.log, made.topics), list[str]()
    proposed, begun = requests.request(["count"], 4, "least", mode)
    with pytest.raises(NotRepartitioned, match=r"does not hold after 0\.01 s, and nodes go on with it"):
        while True:
            made.turn(400)
            requests.wait(proposed, begun, 0.01, told.append)
    assert set(told) == {"waits for first checkpoints of state partitions 2, 3"}
    assert made.call("count", "k", "add", [1]) == 8, "transactions go on meanwhile"
    text = "layout 1 is under way .count to 4 partitions; waits for first checkpoints of state partitions 2, 3."
    refused(made, lambda: Repartitioning(made.log, made.topics).request(["count"], 5, "all"), RunFailed, text)
    made.away = False
    assert requests.wait(proposed, begun, 60).partitions == 4 and made.call("count", "k", "add", [0]) == 8
