"""Draws of newer seeds; older ones keep theirs."""

from __future__ import annotations

import random

import pytest

from nodes.sim.case import (
    EIGHTEENTH_SEED,
    FIFTH_SEED,
    FIRST_SEED,
    FOURTH_SEED,
    NINTH_SEED,
    SECOND_SEED,
    SEVENTH_SEED,
    SIXTH_SEED,
    TENTH_SEED,
    THIRD_SEED,
    TWELFTH_SEED,
)
from nodes.sim.drawing import draw
from nodes.sim.faults.mixed_fleets import WAITING_BYTES, waiting_bytes
from nodes.sim.jobs import CASES
from nodes.sim.many import fresh_base_seed
from nodes.sim.options import Faults, Options
from nodes.sim.store import LateSaver

NEW = [draw(seed, 10) for seed in range(FIRST_SEED, FIRST_SEED + 300)]


def share(count: int) -> float:
    return count / len(NEW)


def test_seeds_that_reports_name_keep_what_they_drew() -> None:
    one = draw(1034933449674, 10)
    assert (one.case, one.truncation, one.truncation_ms, one.merged_checkpoint_interval_ms) == (
        "count",
        "broadcast",
        1169,
        40,
    )
    assert (one.replicas, one.standby_after_ms, one.safety_ms, one.faults) == (1, 1, 1500, Faults(restart=0.2))
    other = draw(585485513686, 10, replicas=2)
    assert (other.case, other.load_ms, other.safety_ms, other.same_names) == ("query1", 0, 3000, True)
    assert (other.faults.delta_lost, other.faults.restart, other.faults.stop_all) == (0.2, 0.03, 0.0005)
    older = [draw(seed, 10) for seed in range(FIRST_SEED - 300, FIRST_SEED)]
    assert not any(o.save_ms or o.faults.pressure or o.faults.kill_promoted or o.faults.kill_one for o in older)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", [FIRST_SEED, SECOND_SEED, THIRD_SEED, FOURTH_SEED, FIFTH_SEED, SIXTH_SEED, SEVENTH_SEED, TWELFTH_SEED]
)
def test_jobs_that_older_seeds_did_not_know_are_drawn_by_new_ones(first: int) -> None:
    newer = {name for name, case in CASES.items() if case.since == first}
    assert newer and newer <= {draw(seed).case for seed in range(first, first + 600)}
    assert not newer & {draw(seed).case for seed in range(first - 400, first)}


def test_new_base_seeds_are_drawn_with_stress_and_all_jobs() -> None:
    assert all(EIGHTEENTH_SEED <= fresh_base_seed() < 2 * EIGHTEENTH_SEED for _ in range(20))


@pytest.mark.slow
def test_new_seeds_meet_dead_records_at_the_end_of_partitions_that_the_others_wait_for() -> None:
    def waits(options: Options) -> bool:
        little = 0 < options.max_watermark_drift_ms <= 100
        return little and options.poison > 0 and options.faults.kill_one > 0 and options.partitions > 1

    sharded = [options for seed in range(NINTH_SEED, NINTH_SEED + 900) if "sharded" in (options := draw(seed)).case]
    assert len(sharded) > 60 and sum(map(waits, sharded)) > 0.1 * len(sharded)
    older = [draw(seed) for seed in range(NINTH_SEED - 400, NINTH_SEED)]
    assert not any(options.poison > 0.05 for options in older)


@pytest.mark.slow
def test_nodes_of_new_fleets_let_contributions_wait_for_different_bytes_and_meet_full_disks() -> None:
    new = [draw(seed) for seed in range(TENTH_SEED, TENTH_SEED + 60)]
    mixed = [options for options in new if options.waiting_bytes]
    assert 0.5 * len(new) < len(mixed) < 0.85 * len(new)
    assert all({waiting_bytes(options, 0), waiting_bytes(options, 1)} < set(WAITING_BYTES) for options in mixed)
    older = [draw(seed) for seed in range(TENTH_SEED - 60, TENTH_SEED)]
    assert not any(options.waiting_bytes or options.faults.full for options in older)
    assert any(options.faults.full and options.replicas > 1 for options in new)
    assert {waiting_bytes(draw(TENTH_SEED - 60), number) for number in range(9)} < set(WAITING_BYTES)


@pytest.mark.slow
def test_three_of_ten_new_seeds_draw_a_job_that_came_with_sessions_or_later() -> None:
    drawn = [draw(seed).case for seed in range(SEVENTH_SEED, SEVENTH_SEED + 500)]
    newer = [case for case in drawn if CASES[case].since >= THIRD_SEED and not CASES[case].backlog]
    assert 0.25 < len(newer) / len(drawn) < 0.4
    assert "flow-sliding-sharded" in newer and "flow-counts" in newer


def test_copies_slow_stores_kills_of_new_owners_and_pressure_are_frequent_and_meet() -> None:
    copies = [o for o in NEW if o.replicas > 1]
    assert share(len(copies)) > 0.6
    assert share(len([o for o in NEW if o.save_ms])) > 0.3
    assert share(len([o for o in NEW if o.faults.kill_promoted])) > 0.3
    assert share(len([o for o in NEW if o.faults.pressure])) > 0.1
    assert share(len([o for o in copies if o.save_ms and o.faults.kill_promoted])) > 0.1
    assert any(o.save_ms and o.faults.kill_promoted and o.faults.pressure for o in copies)


def test_what_demands_how_soon_things_happen_has_no_stress_beside_it() -> None:
    alone = [o for o in NEW if o.isolation or o.truncation]
    assert alone and not any(o.save_ms or o.faults.pressure or o.faults.kill_promoted for o in alone)


def test_a_late_saver_does_one_save_after_the_other_while_time_passes() -> None:
    now_ms, done = [0], list[int]()

    def work(number: int) -> int:
        done.append(number)
        return number

    saver = LateSaver[int](lambda: now_ms[0], 100, random.Random(1))
    assert saver.save(lambda: work(1)) is None and saver.save(lambda: work(2)) is None
    assert saver.busy and saver.finished() == [] and done == []
    now_ms[0] = 200
    assert saver.finished() == [1]
    now_ms[0] = 400
    assert saver.finished() == [2] and not saver.busy


def test_of_what_a_killed_node_was_saving_the_first_may_be_in_the_store() -> None:
    found = set[tuple[int, ...]]()
    for seed in range(20):
        done = list[int]()
        saver = LateSaver[int](lambda: 0, 100, random.Random(seed))
        saver.save(lambda done=done: done.append(1))
        saver.save(lambda done=done: done.append(2))
        saver.killed()
        assert not saver.busy
        found.add(tuple(done))
    assert found == {(), (1,)}


@pytest.mark.slow
def test_checkpoints_in_parts_are_drawn_by_new_seeds_and_meet_all_else() -> None:
    new = [draw(FIFTH_SEED + seed) for seed in range(600)]
    parts = [options for options in new if options.most_parts]
    assert 0.7 * len(new) < len(parts) < 0.95 * len(new)
    assert {options.most_parts for options in parts} == {1, 3, 7, 63}
    for meets in (
        [o for o in parts if o.replicas > 1],
        [o for o in parts if o.save_ms and o.load_ms],
        [o for o in parts if o.faults.checkpoint_damaged and o.trims],
        [o for o in parts if o.faults.join and o.merged_checkpoint_interval_ms],
        [o for o in parts if o.code_changes],
        [o for o in parts if o.continued],
        [o for o in parts if o.truncation],
    ):
        assert len(meets) >= 3
    older = [draw(seed) for seed in range(FIFTH_SEED - 200, FIFTH_SEED)]
    assert not any(options.most_parts for options in older)
