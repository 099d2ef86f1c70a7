"""List append: transactions read and extend lists; the checker of histories judges what they saw.

Source: Jepsen's list-append workload. One transaction of twenty aborts after all its steps.
"""

from __future__ import annotations

from typing import Any

from transactional.context import Context
from transactional.errors import Aborted
from transactional.operators import Operator, Program
from transactional.requests.requests import WireRequest
from transactional.workloads.contract import BenchWorkload, RequestHistory, Send, WorkloadShape
from transactional.workloads.draws import Draws
from transactional.workloads.histories import Append, ListRead, Observed, Step, anomalies

MAX_STEPS = 4

register = Operator("register", partitions=4)


@register.register
async def read(ctx: Context) -> list[int]:
    """The list."""
    return ctx.get([])


@register.register
async def append(ctx: Context, value: int) -> None:
    """Extend the list."""
    ctx.put([*ctx.get([]), value])


@register.register
async def apply(ctx: Context, steps: list[list[Any]]) -> list[Any]:
    """``["r", key]``, ``["a", key, value]`` and ``["abort"]`` one after the other; gives what the reads showed."""
    seen: list[Any] = []
    for kind, *rest in steps:
        if kind == "abort":
            ctx.abort("drawn")
        elif kind == "r":
            seen.append(await ctx.call(register, rest[0], read))
        else:
            seen.append(await ctx.call(register, rest[0], append, [rest[1]]))
    return seen


program = Program("append", [register])


def requests(shape: WorkloadShape, first: int, count: int) -> list[WireRequest]:
    """One to four steps, half of them reads, on Zipf-distributed lists."""
    draws = Draws(shape.seed, first, count)
    lengths, aborts = draws.below(0, MAX_STEPS), draws.below(1, 20)
    keys = [draws.zipf(2 + n, shape.size, shape.zipf) for n in range(MAX_STEPS)]
    kinds = [draws.below(2 + MAX_STEPS + n, 2) for n in range(MAX_STEPS)]
    made = []
    for n in range(count):
        steps: list[list[Any]] = []
        for step in range(1 + lengths[n]):
            key = f"l{keys[step][n]}"
            steps.append(["r", key] if kinds[step][n] else ["a", key, (first + n) * MAX_STEPS + step])
        if not aborts[n]:
            steps.append(["abort"])
        made.append(WireRequest(f"{shape.seed}-{first + n}", "register", steps[0][1], "apply", [steps]))
    return made


def observed(history: RequestHistory) -> list[Observed]:
    """The history as the checker takes it."""
    made = []
    for request in history.requests:
        outcome = history.outcomes[request.id]
        committed = not isinstance(outcome, Aborted)
        steps: list[Step] = []
        for n, (kind, *rest) in enumerate(request.args[0]):
            if kind == "a":
                steps.append(Append(rest[0], rest[1]))
            elif kind == "r" and committed:
                steps.append(ListRead(rest[0], tuple(outcome[n])))
        made.append(
            Observed(request.id, tuple(steps), history.sent[request.id], history.answered[request.id], committed)
        )
    return made


def check(shape: WorkloadShape, history: RequestHistory, send: Send) -> list[str]:
    """Nothing that a serializable history in real time would not show; all lists are read at the end."""
    found = send([WireRequest(f"read-{n}", "register", f"l{n}", "read") for n in range(shape.size)])
    end = max(history.answered.values(), default=0.0)
    last = [
        Observed(name, (ListRead(f"l{name[5:]}", tuple(values)),), end + 1, end + 2) for name, values in found.items()
    ]
    return [f"{kind}: {what}" for kind, what in anomalies([*observed(history), *last])]


workload = BenchWorkload(
    name="append",
    program=program,
    reference="transactional.workloads.append:program",
    size=100,
    counts="lists",
    load=lambda shape: [],
    requests=requests,
    check=check,
    expected_aborts=("Abort",),
)
