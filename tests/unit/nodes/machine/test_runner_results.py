"""When results of a partition may leave: where punctuation may void work, once their own delta was read back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nodes.machine.runner import Runner


def test_results_wait_until_the_delta_of_their_prefix_was_read_back() -> None:
    emitted: list[dict[str, int]] = [{}, {"out": 1}]
    confirmed = SimpleNamespace(position=(0, 0))
    task = SimpleNamespace(scope=SimpleNamespace(record=SimpleNamespace(position=(5, 0))), take_outputs=emitted.pop)
    runner: Any = SimpleNamespace(
        task=task,
        idle_allowed=True,
        partition=0,
        replica=SimpleNamespace(slots=[SimpleNamespace(record=confirmed)]),
        _held=[],
    )
    assert Runner.final_outputs(runner) == []
    confirmed.position = (5, 0)
    (final,) = Runner.final_outputs(runner)
    assert final.position == (5, 0) and final.taken == {"out": 1}
