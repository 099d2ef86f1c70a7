"""Sessions whose slices are columns, which those of so few keys as the simulation has are not elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from holon.dataflow.sessions import open_sessions
from holon.dataflow.sliced import shards
from nodes.sim.many import explain
from nodes.sim.run import simulate
from wcrdt.lattices import maps

SEEDS = range(1, 10)


@pytest.mark.long
def test_sessions_as_columns_are_those_of_plain_python_whatever_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in [(shards, "LEAST_KEYS"), (open_sessions, "LEAST_KEYS"), (maps, "LEAST_KEYS_ON_WIRE")]:
        monkeypatch.setattr(module, name, 1)
    seen: Counter[str] = Counter()
    fold = open_sessions.fold

    def counting(*given: Any) -> Any:
        found = fold(*given)
        seen.update(slices=1, closing=len(found[1]) > 0)
        return found

    monkeypatch.setattr(open_sessions, "fold", counting)
    for seed in SEEDS:
        verdict = simulate(seed, case="flow-sessions")
        assert verdict.ok, explain(verdict)
        seen.update(verdict.counts)
    assert seen["slices"] > 2_000 and seen["closing"] > 200 and seen["died"] > 5
