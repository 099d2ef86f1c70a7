"""Keyed state whose columns lie in files, under all faults: the same runs as in memory, step by step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from holon.dataflow.sessions import open_sessions
from nodes.sim.case import FIFTEENTH_SEED
from nodes.sim.drawing import draw
from nodes.sim.many import explain
from nodes.sim.process_wide.spilled_columns import SHARE, FullAtTimes
from nodes.sim.run import run
from wcrdt.lattices import maps

IN_MEMORY = 1 << 40
KINDS = "keyed", "sharded", "flow-sessions", "flow-between", "flow-sliding-sharded-late", "bury-windows-backlog"


def test_a_quarter_of_new_seeds_has_columns_in_files_beside_all_that_they_draw_else() -> None:
    drawn = [draw(seed, 10) for seed in range(FIFTEENTH_SEED, FIFTEENTH_SEED + 200)]
    spilled = [options for options in drawn if options.columns_in_memory is not None]
    assert abs(len(spilled) / len(drawn) - SHARE) < 0.08
    assert {options.columns_disk_full > 0 for options in spilled} == {True, False}
    assert any(options.replicas > 1 and options.save_ms for options in spilled)
    assert any(options.idle_timeout_ms for options in spilled) and any(options.load_ms for options in spilled)
    older = [draw(seed, 10) for seed in range(FIFTEENTH_SEED - 100, FIFTEENTH_SEED)]
    assert all(options.columns_in_memory is None for options in older)


@pytest.mark.long
def test_runs_with_columns_in_files_are_those_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    in_file = FullAtTimes.in_file

    def counting(columns: FullAtTimes, *given: Any) -> Any:
        found = in_file(columns, *given)
        seen["full" if found is None else "in files"] += 1
        return found

    monkeypatch.setattr(FullAtTimes, "in_file", counting)
    for number, kind in enumerate(KINDS):
        options = replace(draw(FIFTEENTH_SEED + number, 10, case=kind), columns_disk_full=0.1 * (number % 2))
        filed = run(replace(options, columns_in_memory=(0, 2_000)[number % 2]))
        assert filed.ok, explain(filed)
        before = seen.copy()
        held = run(replace(options, columns_in_memory=IN_MEMORY))
        assert seen == before, "all of them were in memory"
        assert held.digest == filed.digest
        seen.update(filed.counts)
    assert seen["in files"] > 1_000 and seen["full"] > 50 and seen["died"] > 5


def test_what_a_seed_sets_ends_with_its_run() -> None:
    before = maps.LEAST_KEYS, maps.LEAST_KEYS_ON_WIRE, open_sessions.LEAST_KEYS
    assert run(replace(draw(FIFTEENTH_SEED, 10, case="keyed", calm=True), columns_in_memory=0)).ok
    assert before == (maps.LEAST_KEYS, maps.LEAST_KEYS_ON_WIRE, open_sessions.LEAST_KEYS)
