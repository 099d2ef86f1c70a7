"""The scripts of deploy/bench: costs fitted to turns, when a ramp stops, stages and pictures of stacks."""

from __future__ import annotations

import random
from argparse import Namespace
from collections import Counter
from xml.etree import ElementTree

import pytest

from deploy.bench.flatness import flat
from deploy.bench.flows import shard_reads
from deploy.bench.ramp import Ramp, ended_by
from deploy.bench.scale import held_bytes
from deploy.bench.stages import by_stage, stage_of
from deploy.endless import BATCH, Endless
from deploy.stand_ins import WINDOW_MS, BidTicks
from nexmark.model import BASE_TIME_MS
from nexmark.queries import QUERIES
from nodes.profiling.sampling import flame_graph, folded
from nodes.sim.large_fleets.costs import KINDS, Costs, TurnCounts, fit

TRUE = Costs(turns=40.0, slots=0.5, runners=12.0, batches=100.0, events=1.5, deltas_in=45.0, deltas_out=60.0)


def drawn_turns(count: int, noise: float) -> list[tuple[TurnCounts, float]]:
    rng, turns = random.Random(5), []
    for _ in range(count):
        parts, deltas = rng.choice([4, 50, 300]), rng.randint(0, 30)
        done = TurnCounts(turns=1, slots=parts, runners=rng.randint(1, 5), batches=rng.randint(0, 1), deltas_in=deltas)
        done.events, done.deltas_out = done.batches * rng.randint(0, 100), rng.randint(0, 2)
        turns.append((done, TRUE.us(done) * rng.uniform(1 - noise, 1 + noise)))
    return turns


def test_costs_are_found_again_from_turns_that_they_made() -> None:
    found = fit(drawn_turns(2000, 0.1), TurnCounts(events=1.5))
    for name in KINDS:
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=0.15, abs=1.0), name
    assert found.events == 1.5, "what was measured otherwise stays"


def test_turns_in_which_the_machine_was_elsewhere_do_not_decide_what_is_dear() -> None:
    turns = drawn_turns(2000, 0.02)
    broken = [(done, us * 50 if number % 100 == 0 else us) for number, (done, us) in enumerate(turns)]
    found = fit(broken, TurnCounts(events=1.5))
    assert found.deltas_in / found.turns == pytest.approx(TRUE.deltas_in / TRUE.turns, rel=0.1)


def test_all_turns_together_cost_what_was_measured() -> None:
    turns = drawn_turns(500, 0.5)
    found = fit(turns)
    assert sum(found.us(done) for done, _ in turns) == pytest.approx(sum(us for _, us in turns))


def test_no_cost_is_negative_and_nothing_is_fitted_to_nothing() -> None:
    cheaper_with_more = [(TurnCounts(turns=1, deltas_in=n), 100.0 - n) for n in range(50)]
    assert min(fit(cheaper_with_more).row()) >= 0
    with pytest.raises(ValueError, match="no turns"):
        fit([])


def test_shares_tell_the_dearest_first() -> None:
    assert list(TRUE.shares(TurnCounts(turns=1, deltas_in=3))) == ["deltas_in", "turns"]


def climbed(throughputs: list[float]) -> int:
    """How many steps a ramp makes that brings these."""
    ramp = Ramp(1000.0)
    for number, throughput in enumerate(throughputs):
        if ramp.over:
            return number
        ramp.record(throughput)
    return len(throughputs)


def test_ramp_goes_on_while_throughput_grows_and_stops_after_two_steps_without() -> None:
    assert climbed([1e3, 2e3, 4e3, 8e3, 16e3]) == 5
    assert climbed([1e3, 2e3, 4e3, 4.1e3, 4.1e3, 9e3]) == 5, "five in a hundred more is no growth"
    assert climbed([1e3, 2e3, 1.5e3, 0.5e3, 9e3]) == 4, "nor is a drop"
    assert climbed([1e3, 2e3, 1.5e3, 4e3, 8e3]) == 5, "one poor step is forgiven"


def test_ramp_doubles_the_rate_and_keeps_the_best() -> None:
    ramp = Ramp(1000.0)
    ramp.record(900.0)
    ramp.record(700.0)
    assert (ramp.rate, ramp.best) == (4000.0, 900.0)


def step(sent: float, taken: float) -> dict[str, float]:
    return {"sent_per_s": sent, "events_per_s": taken}


def test_nodes_have_ended_a_ramp_only_if_more_has_arrived_than_they_took() -> None:
    ramp = Ramp(1000.0)
    grows = [step(1e3, 1e3), step(2e3, 2e3)]
    for one in grows:
        ramp.record(one["events_per_s"])
    assert ended_by(grows, ramp) == "events", "it could have gone on"
    for _ in range(2):
        ramp.record(2e3)
    assert ended_by([*grows, step(4e3, 2e3), step(8e3, 2e3)], ramp) == "nodes"
    assert ended_by([*grows, step(4e3, 2e3), step(2.1e3, 2e3)], ramp) == "producer"
    assert ended_by([*grows, step(2e3, 2e3), step(2e3, 2e3)], ramp) == "producer"


def test_stage_is_that_of_the_innermost_function_that_has_one() -> None:
    turn = ("nodes/streams/process.py:loop", "nodes/streams/driver.py:turn")
    assert stage_of((*turn, "nodes/log/embedded/log.py:read", "lmdb:get")) == "read"
    assert stage_of((*turn, "nodes/streams/driver.py:_output", "nodes/log/contract.py:send", "x:y")) == "send"
    assert stage_of((*turn, "nexmark/queries/columns.py:decode", "nodes/compiled/loading.py:call")) == "decode"
    assert stage_of((*turn, "nexmark/queries/highest.py:process_batch", "numpy:sort")) == "group and aggregate"
    assert (
        stage_of((*turn, "holon/program/scope.py:insert_many", "wcrdt/lattices/extremes.py:merge")) == "windowed CRDT"
    )
    assert stage_of((*turn, "nodes/machine/node.py:step")) == "node (turns, ownership, deltas)"
    assert stage_of(("runpy:run",)).startswith("other")


def test_stages_share_the_time_that_was_used() -> None:
    stacks = Counter(
        {("nodes/streams/driver.py:turn",): 1, ("nodes/streams/driver.py:turn", "wcrdt/replica/slots.py:apply"): 3}
    )
    found = by_stage(stacks, used_s=2.0, events=1_000_000)
    assert found == {"windowed CRDT": 1.5, "node (turns, ownership, deltas)": 0.5}


def test_flame_graph_is_well_formed_and_as_wide_as_shares() -> None:
    stacks = Counter({("a:f", "b:<g>"): 3, ("a:f",): 1, ("c:h",): 4})
    root = ElementTree.fromstring(flame_graph(stacks, "x & y"))
    widths = {}
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        title, box = group[0], group[1]
        widths[(title.text or "").split(",")[0]] = float(box.get("width", "0"))
    assert widths == {"a:f": 600.0, "b:<g>": 450.0, "c:h": 600.0}
    assert folded(stacks) == "a:f 1\na:f;b:<g> 3\nc:h 4\n"


def test_stand_ins_are_bids_at_their_ticks_time_and_the_highest_is_known() -> None:
    bids = BidTicks(partitions=7, tick_ms=50)
    for tick in (0, 19, 20):
        found = QUERIES["q7"].format.decode(bids.records(tick)).columns
        assert found["time_ms"].tolist() == [BASE_TIME_MS + tick * WINDOW_MS // 20] * 7
        end_ms = BASE_TIME_MS + (1 + tick // 20) * WINDOW_MS
        assert bids.highest[end_ms] >= found["bid.price"].max()
    assert list(bids.highest) == [BASE_TIME_MS + WINDOW_MS, BASE_TIME_MS + 2 * WINDOW_MS]


def test_endless_topic_repeats_events_at_later_times() -> None:
    source = Endless("t", partitions=4, records=3 * BATCH)
    first, later = source.chunk(1, 5, 100), source.chunk(1, 2 * BATCH + 5, 100)
    decode = QUERIES["q7"].format.decode
    before, after = decode(first.values).columns, decode(later.values).columns
    assert before["kind"].tolist() == after["kind"].tolist()
    assert set((after["time_ms"] - before["time_ms"]).tolist()) == {2 * BATCH * 4 // 10}
    assert before["time_ms"][0] == BASE_TIME_MS + (1 + 5 * 4) // 10
    assert len(source.chunk(1, 3 * BATCH - 1, 100)) == 1 and len(source.chunk(1, BATCH - 1, 100)) == 1


def test_flatness_compares_the_last_stretch_with_the_second() -> None:
    rows = [{"us_per_event": us} for us in (9.0, 1.0, 1.1, 1.5)]
    assert flat(rows) == 1.5 and flat(rows[:2]) is None


def test_held_bytes_counts_what_is_reached_once() -> None:
    block = bytes(10_000)
    assert 10_000 < held_bytes({"a": block, "b": [block, block]}) < 12_000


@pytest.mark.slow
def test_a_simulated_node_reads_the_broadcast_of_all_and_the_contributions_for_its_own_partitions() -> None:
    options = Namespace(
        rate=400, keys=50, partitions_per_node=1, seconds=1.0, warmup=0.3, start=3000, tick=100, seed=1, max_per_s=None
    )
    found = {nodes: shard_reads.measured(options, nodes) for nodes in (2, 4)}
    for nodes, row in found.items():
        assert row["events"] == nodes * 400 * 1.3
        # Each partition sends every 200 ms, and once more as a window ends.
        assert 5 * nodes <= row["watermarks_records_per_s"] <= 7 * nodes
        # Of each partition for its own one, before a checkpoint and as a window ends; not those for all.
        assert nodes <= row["contributions_records_per_s"] <= 2 * nodes
        assert 0 < row["contributions_kb_per_s"] <= row["contributions_kb_per_s_most"]
