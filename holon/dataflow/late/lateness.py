"""How long the windows of each step take rows. A job has one lateness; a window that has more is held longer.

Rows of windows that are held longer come later than others, too. So windows behind them wait as long.
"""

from __future__ import annotations

from collections.abc import Sequence

from holon.dataflow.aggregations import Aggregation, Results
from holon.dataflow.steps import Step, United


def share_lateness(steps: Sequence[Step], flow_ms: int) -> int:
    """Tell each step with windows how much longer than others they stay open; gives the job's lateness (ms).

    ``flow_ms``: of steps that say nothing. Raises ``FlowError`` for windows that nothing is late for.
    """
    windowed = [step for step in steps if isinstance(step, Aggregation)]
    lateness = {step.number: _own_ms(step, flow_ms) for step in windowed if step.stage == 0}
    least_ms = min(lateness.values(), default=flow_ms)
    for step in windowed:  # those above come first
        if step.stage > 0 and step.lateness_ms is not None:
            raise step.error(
                "lateness is for windows of records: rows of windows come in the order of their times, and none is late"
            )
        held_ms = lateness[step.number] - least_ms if step.stage == 0 else _held_longer_ms(step.above)
        step.extra_lateness_ms = held_ms
    return least_ms


def _own_ms(step: Aggregation, flow_ms: int) -> int:
    return flow_ms if step.lateness_ms is None else step.lateness_ms


def _held_longer_ms(step: Step | None) -> int:
    """How much longer the windows are held that rows of a step come from."""
    if isinstance(step, Results):
        return 0 if step.of is None else step.of.extra_lateness_ms
    beside = step.others if isinstance(step, United) else ()
    return 0 if step is None else max(map(_held_longer_ms, (step.above, *beside)))
