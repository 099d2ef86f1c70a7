"""Golden dialogues of a standby: what it holds back, when it steps in, how it becomes the owner and back."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from holon import Job, Json, Source
from holon.outputs.identity import Ascent
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.standby.active_standby import ResultPace
from nodes.machine.standby.standby import Patience
from tests.unit.node_dialogue import CountPerWindow, Dialogue, joined, running
from wcrdt.replica.replica import SlotDelta
from wcrdt.replica.slots import WINDOW_START, TrackDelta, WindowChange
from wcrdt.windows.assigners import BEFORE_TIME_MS

KEY = -1
PATIENCE_MS = 30
LATE = PATIENCE_MS // 10 + 1  # steps of 10 ms
MAIN = ("main", 0)


def said(dialogue: Dialogue, text: str) -> None:
    """The dialogue since the last look is exactly this."""
    assert dialogue.take() == dedent(text).strip("\n")


def standby(name: str = "b", *, replicas: int = 2, **settings: Any) -> Dialogue:
    """A node that stands by for partition 0, which ``a`` owns, and has found that there is no backlog."""
    node = joined(name, others=["a"], replicas=replicas, standby_after_ms=PATIENCE_MS, **settings)
    node.control(m.Claim(0, "a", 0, 1))
    node.loaded(0, KEY)
    node.step(e.TailRead(0, KEY, {}, {MAIN: 0, ("late", 0): 0, ("dead", 0): 0}), "tail")
    node.records(0, KEY, 0, {"ts": 1})
    node.broadcast(0, delta(0, 1, 1, {10: 1}, answered=1))
    node.take()
    return node


def delta(since: int, to: int, watermark_ms: int, windows: dict[int, int], answered: int = BEFORE_TIME_MS) -> bytes:
    """The owner's broadcast."""
    changes = [WindowChange("count", end - 10, end, [[0, count]]) for end, count in windows.items()]
    record = TrackDelta((since, 0), (to, 0), watermark_ms, changes)
    window = TrackDelta((BEFORE_TIME_MS, 0), (answered, 0), answered, [])
    return m.encode(m.SlotSent(0, SlotDelta(0, 0, record, window)))


def looked(node: Dialogue, found: list[Ascent] | None = None, track: int = 1) -> list[x.Effect]:
    """The outputs and the broadcast were read to their ends; ``found`` is new on the main output."""
    start = node.node.work.runners[0].standby.outputs.ends[MAIN]  # type: ignore[union-attr]
    news = [] if found is None else [e.Followed(MAIN, start, start + 10, {(0, track): found})]
    return node.step(e.OutputsFollowed(news, True), "looked")


def wait(node: Dialogue, steps: int = LATE) -> list[x.Effect]:
    """So much time passes, in which the node looks at the log again and again; what it does meanwhile."""
    return [effect for _ in range(steps) for effect in looked(node)]


def written(effects: list[x.Effect]) -> list[str]:
    """Kinds of what was written."""
    return [type(effect).__name__ for effect in effects if isinstance(effect, (x.WriteOutput, x.WriteBroadcast))]


# --- holding back -----------------------------------------------------------------------------------------------------


def test_a_standby_holds_results_and_deltas_back() -> None:
    node = standby()
    node.records(0, KEY, 1, {"ts": 12})
    said(node, "> input [0] v-1 1-2")
    assert node.node.replica.frontier_ms == 12, "its own contribution is final and used at once"


def test_what_the_log_shows_is_never_written_again() -> None:
    node = standby()
    node.records(0, KEY, 1, {"ts": 12})
    node.broadcast(0, delta(1, 2, 12, {20: 1}, answered=12))
    looked(node, [((10, 0), (10, 0))])
    assert written(wait(node, 50)) == []


def test_what_the_owner_is_late_with_is_published_results_first() -> None:
    node = standby()
    node.records(0, KEY, 1, {"ts": 12})
    node.take()
    wait(node, LATE - 2)
    assert "write" not in node.take()
    wait(node, 2)
    lines = [line for line in node.take().splitlines() if "write" in line]
    assert lines == [
        '  write main[0] v-1: 10: {"end":10,"count":1}',
        "  write broadcast [0] v-1: delta 1-2 at 12 {20: [[0, 1]]}, answered 1",
        "  write broadcast [0] v-1: delta 2-2 at 12 {}, answered 12",
    ]


def test_only_what_is_missing_is_published() -> None:
    node = standby()
    node.records(0, KEY, 1, {"ts": 12}, {"ts": 22})
    looked(node, [((10, 0), (10, 0))])
    node.take()
    wait(node)
    assert [line for line in node.take().splitlines() if "main" in line] == [
        '  write main[0] v-1: 20: {"end":20,"count":1}'
    ]


def test_all_that_is_held_is_published_however_often_it_was_made() -> None:
    node = standby()
    for step in range(1, 4):
        node.records(0, KEY, step, {"ts": 10 * step + 2})
    node.take()
    wait(node)
    results = [line for line in node.take().splitlines() if "main" in line]
    assert results == ["  write main[0] v-1: " + ", ".join(f'{end}: {{"end":{end},"count":1}}' for end in (10, 20, 30))]


def test_one_look_after_a_long_pause_proves_nothing_against_the_owner() -> None:
    node = standby()
    node.records(0, KEY, 1, {"ts": 12})
    node.tick(passed_ms=5000)
    assert written(looked(node)) == []


def test_nothing_is_late_before_the_log_was_read_to_its_end() -> None:
    node = standby()
    node.records(0, KEY, 1, {"ts": 12})
    for _ in range(50):
        assert written(node.step(e.OutputsFollowed([], False), "looked at some")) == []


def test_while_it_leads_it_publishes_at_once_until_the_other_keeps_pace() -> None:
    node = standby()
    node.records(0, KEY, 1, {"ts": 12})
    wait(node)
    assert written(node.records(0, KEY, 2, {"ts": 22})) == ["WriteBroadcast", "WriteOutput", "WriteBroadcast"]
    looked(node, [((10, 0), (20, 0))])  # its own
    assert "WriteOutput" in written(node.records(0, KEY, 3, {"ts": 32}))
    looked(node, [((30, 0), (30, 0)), ((10, 0), (30, 0))])  # its own, and all of it once more: by the owner
    assert "WriteOutput" not in written(node.records(0, KEY, 4, {"ts": 42}))


def test_lags_that_are_usual_here_are_no_lateness() -> None:
    node = standby(max_watermark_drift_ms=0)
    for step in range(1, 4):  # the owner's results come later by 100 ms each time
        node.records(0, KEY, step, {"ts": 10 * step + 2})
        for _ in range(10):
            node.tick()
        end = 10 * step
        node.broadcast(0, delta(step, step + 1, end + 2, {end + 10: 1}, answered=end + 2))
        assert written(looked(node, [((end, 0), (end, 0))])) == []
    node.records(0, KEY, 4, {"ts": 42})
    assert written(wait(node, 13)) == []
    assert "WriteOutput" in written(wait(node, 6))


def test_the_second_standby_waits_longer_than_the_first() -> None:
    first, second = standby("b"), standby("b")
    second.node.work.replicas.designate(["a", "b"], {0: "a"})
    runner = second.node.work.runners[0]
    assert runner.standby is not None
    replicas = second.node.work.replicas
    runner.standby.ranked(1, Patience.of(replicas.config.standby_after_ms, replicas.work.broadcast_interval_ms, 1))
    for node in (first, second):
        node.records(0, KEY, 1, {"ts": 12})
    assert written(wait(first)) != []
    assert written(wait(second)) == []
    assert written(wait(second)) != []


# --- pace -------------------------------------------------------------------------------------------------------------


def test_patience_is_what_is_usual_and_not_the_worst_moment_of_the_last_seconds() -> None:
    def patience_ms(*bad_seconds: int) -> int:
        pace = ResultPace()
        for second in range(10):
            pace.lag(100 if second in bad_seconds else 8, second * 1000)
        return pace.patience_ms(30)

    assert patience_ms() == patience_ms(9) == patience_ms(3, 4) == 30
    assert patience_ms(3, 4, 9) == 150
    alone = ResultPace()
    alone.lag(100, 0)
    assert alone.patience_ms(30) == 150, "of the first seconds all that is known counts"


def test_a_standby_with_a_backlog_follows_the_owner_and_accuses_nobody() -> None:
    node = standby()
    node.step(e.InputRead(0, KEY, node.input(1, {"ts": 12}, {"ts": 22}), more=True), "a read that was cut")
    assert written(wait(node, 30)) == []
    assert node.node.wanted() == [], "it is ahead of the owner"
    node.broadcast(0, delta(1, 100, 22, {20: 1}, answered=12))
    (wanted,) = node.node.wanted()
    assert (wanted.offset, wanted.limit) == (3, 100)


def test_a_standby_neither_saves_nor_answers() -> None:
    node = standby(checkpoint_interval_ms=10)
    node.records(0, KEY, 1, {"ts": 12})
    node.tick(1000)
    node.control(m.SlotWanted(0, "a", 0, 0))
    assert "save" not in node.take()
    assert written(node.effects) == []


def test_a_standby_asks_for_what_it_has_not_made_either() -> None:
    node = standby(failure_timeout_ms=100)
    node.heartbeat("a")
    node.broadcast(0, delta(5, 9, 42, {50: 1}))
    node.control()
    assert "write control: SlotWanted b [0] behind 1" in node.take()


def test_a_standby_asks_for_what_lies_between_its_own_work_and_the_end_of_a_delta_that_did_not_fit() -> None:
    node = standby(failure_timeout_ms=100)
    node.broadcast(0, delta(5, 9, 42, {50: 1}))
    node.records(0, KEY, 1, {"ts": 12})
    node.control()
    assert "write control: SlotWanted b [0] behind 2" in node.take(), "its own work goes as far as 2"
    node.records(0, KEY, 2, {"ts": 22}, {"ts": 23}, {"ts": 24})
    node.tick(200)
    node.control()
    assert "write control: SlotWanted b [0] behind 5" in node.take(), "where that delta began"
    node.broadcast(0, delta(5, 9, 42, {50: 1}))
    node.tick(200)
    node.control()
    assert "SlotWanted" not in node.take()


# --- becoming the owner, and back -------------------------------------------------------------------------------------


def test_a_claim_promotes_the_standby_in_place() -> None:
    node = standby()
    node.records(0, KEY, 1, {"ts": 12})
    node.take()
    node.control(m.Claim(0, "b", 0, 2))
    said(
        node,
        """
        > control: Claim b [0] v2
          write main[0] v-1: 10: {"end":10,"count":1}
          write broadcast [0] v-1: full slot 2 at 12 {10: [[0, 1]], 20: [[0, 1]]}, answered 12
        """,
    )
    node.records(0, KEY, 2, {"ts": 22})
    assert "write main[0] v-1: 20" in node.take()


def test_a_promoted_standby_saves_under_its_claim() -> None:
    node = standby(checkpoint_interval_ms=50)
    node.control(m.Claim(0, "b", 0, 2))
    node.records(0, KEY, 1, {"ts": 12})
    node.tick(60)
    node.acknowledged(0, KEY)
    node.stored()
    assert "CheckpointSaved b [0] v2 at 2" in node.take()


def test_what_the_owner_wrote_before_it_died_is_not_written_by_the_promoted() -> None:
    node = standby()
    looked(node, [((10, 0), (10, 0))])
    node.control(m.Claim(0, "b", 0, 2))
    node.take()
    node.records(0, KEY, 1, {"ts": 12}, {"ts": 22})
    assert [line for line in node.take().splitlines() if "main" in line] == [
        '  write main[0] v-1: 20: {"end":20,"count":1}'
    ]


def test_who_loses_a_claim_goes_on_as_a_standby() -> None:
    node = running("b", replicas=2, standby_after_ms=PATIENCE_MS)
    node.control(m.Hello(0, "a"), m.Claim(0, "a", 0, 2))
    runner = node.node.work.runners[0]
    assert runner.standby is not None and runner.version == 0
    node.take()
    node.records(0, 1, 0, {"ts": 3}, {"ts": 12})
    said(node, "> input [0] v1 0-2")
    node.control(m.Claim(0, "b", 0, 3))
    assert "write main[0] v1: 10" in node.take()


def test_with_one_copy_nobody_stands_by() -> None:
    node = joined("b", others=["a"], replicas=1)
    node.control(m.Claim(0, "a", 0, 1))
    assert not node.node.work.runners


def test_a_standby_at_a_record_that_fails_leaves_it_to_the_owner() -> None:
    node = standby()
    node.records(0, KEY, 1, {"ts": 12, "fail": True})
    assert "Failed" not in node.take()
    node.control()
    assert not node.node.work.runners, "until there is another checkpoint"
    assert node.node.left is None


# --- idle partitions --------------------------------------------------------------------------------------------------


def idle_job() -> Job:
    source: Source[dict[str, Any]] = Source(
        "in", Json(dict[str, Any]), timestamp=lambda event: event["ts"], idle_timeout_ms=100
    )
    return Job("count", source, CountPerWindow, output="out")


def test_a_checkpoint_waits_for_results_that_waited_for_their_delta() -> None:
    node = running(checkpoint_interval_ms=50, job=idle_job())
    node.broadcast(0, *[effect.value for effect in node.effects if isinstance(effect, x.WriteBroadcast)])
    node.records(0, 1, 0, {"ts": 3}, {"ts": 12})
    own = [effect.value for effect in node.effects if isinstance(effect, x.WriteBroadcast)]
    node.tick(60)
    own += [effect.value for effect in node.effects if isinstance(effect, x.WriteBroadcast)]
    before = node.node.work.runners[0].ticket
    node.broadcast(0, *own)
    assert "WriteOutput" in written(node.effects)
    node.step(e.Acknowledged(0, 1, before, {}), "all before the results is acknowledged")
    assert not any(isinstance(effect, x.SaveCheckpoint) for effect in node.effects)
    node.tick(60)
    node.acknowledged(0, 1)
    assert any(isinstance(effect, x.SaveCheckpoint) for effect in node.effects)


def test_a_full_slot_without_windows_that_nothing_more_can_be_added_to_is_taken_and_they_stay() -> None:
    """A standby that is promoted sends one, where the last deltas of the owner never got to the log."""
    node = joined(partitions=2, others=["b"])
    node.control(m.Claim(0, "a", 0, 1), m.Claim(0, "b", 1, 1))
    node.run_partition(0, 1)
    changes = [WindowChange("count", 0, 10, [[2, 1]]), WindowChange("count", 50, 60, [[2, 1]])]
    delta = SlotDelta(1, 0, TrackDelta((0, 0), (5, 0), 55, changes), TrackDelta(WINDOW_START, WINDOW_START, 0, []))
    node.broadcast(1, m.encode(m.SlotSent(0, delta)))
    node.take()
    track = TrackDelta((9, 0), (9, 0), 90, [WindowChange("count", 50, 60, [[2, 3]])], full=True)
    full = SlotDelta(1, 0, track, TrackDelta((90, 0), (90, 0), 90, [], full=True), [], dropped_through_ms=50)
    node.broadcast(1, m.encode(m.SlotSent(0, full)))
    assert "rewind" not in node.take()
    replica = node.node.replica
    assert replica.slots[1].record.position == (9, 0)
    assert sorted(window.end_ms for window in replica.slots[1].record.contributions["count"]) == [10, 60]
    assert replica.dropped_through_ms == BEFORE_TIME_MS
