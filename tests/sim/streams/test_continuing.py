"""Jobs that go on behind the end of their input, and jobs whose code changes, under all faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count

import pytest

from nodes.sim.case import FIRST_SEED
from nodes.sim.drawing import draw
from nodes.sim.expected import expect
from nodes.sim.many import explain
from nodes.sim.options import Options
from nodes.sim.run import simulate
from tests.sim import counts

SEEDS = 40
CONTINUED = ("continued", "continue-refused", "fed-behind-the-end")
NEAR = FIRST_SEED + 114
"""The rarest kind of ``CONTINUED`` is met twice within thirty seeds here, and within a hundred and forty before."""
CHANGED = ("code-accepted", "code-refused", "foreign-refused", "left-for-code")


@pytest.mark.long
@pytest.mark.parametrize(
    ("drawn", "wanted", "first"),
    [
        (lambda options: options.continued, CONTINUED, counts.drawn(NEAR, FIRST_SEED)),
        (lambda options: options.code_changes, CHANGED, FIRST_SEED),
    ],
    ids=["continued", "other code"],
)
def test_what_a_job_meets_between_its_starts_changes_no_result(
    drawn: Callable[[Options], float], wanted: tuple[str, ...], first: int
) -> None:
    happened, tried = Counter[str](), 0
    for seed in count(first):
        if drawn(draw(seed, max_nodes=10)):
            verdict = simulate(seed, max_nodes=10)
            assert verdict.ok, explain(verdict)
            happened.update(verdict.counts)
            tried += 1
            if all(happened[kind] >= 2 for kind in wanted):
                return
            assert tried < SEEDS, f"{SEEDS} seeds met {dict(happened)}"


def test_a_fifth_of_the_new_seeds_draws_each_and_old_ones_draw_what_they_drew() -> None:
    for base, least, most in ((0, 0, 0), (FIRST_SEED, 20, 70)):
        drawn = [draw(seed) for seed in range(base, base + 200)]
        assert least <= sum(options.continued > 0 for options in drawn) <= most
        assert least <= sum(options.code_changes > 0 for options in drawn) <= most


def test_the_plain_pass_answers_no_window_again_behind_an_end() -> None:
    options = draw(FIRST_SEED, case="count")
    size = options.window_ms
    records = [b'{"ts":%d,"id":%d,"key":0,"amount":0}' % (ts, number) for number, ts in enumerate((1, size, 1, size))]
    given = [[(0, payload) for payload in records], [(0, records[0])]]
    ended = expect(options, given, [[2, 0]])
    assert sorted(ended.late) == [(0, 2), (0, 3), (1, 0)] and len(ended.results) == 2
    assert len(expect(options, given).late) < 3
