"""Measures a workload on node processes, and checks its invariants afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

from nodes.checkpoints.store import CheckpointStore
from nodes.errors import RunFailed
from nodes.log import Log
from nodes.transactions.bench.elastic import (
    ElasticChanges,
    Repartition,
    Upgrade,
    Upgraded,
    elastic_figures,
    of_wrong_version,
)
from nodes.transactions.bench.figures import Replied, counts, log_latencies_ms, spread
from nodes.transactions.bench.first_checkpoints import begin_with
from nodes.transactions.bench.fleet import BenchFleet, Change, bench_fleet
from nodes.transactions.bench.reply_times import ReplyTimes
from nodes.transactions.bench.saved_state import newest_checkpoints, wait_for_checkpoints
from nodes.transactions.clients.client import BadReply, TransactionClient
from nodes.transactions.settled import wait_until_settled
from nodes.transactions.topics import create_topics
from transactional.errors import Aborted
from transactional.requests.requests import WireRequest
from transactional.workloads.contract import BenchWorkload, RequestHistory, WorkloadShape, unexpected
from transactional.workloads.next_version import all_unmarked

ANSWER_S = 120.0
FIRST_STATE_S = 900.0
"""Nodes load what they begin with before they answer: a gigabyte, perhaps on a busy machine."""
NO_NUMBER = 1 << 40
"""Of a request that is not among those that are measured."""
GATHER_S = 0.004
"""At a rate, what has become due within so long is sent together, as clients of Kafka linger; see ``_send_paced``."""
VIOLATIONS_SHOWN = 20
AnyChange: TypeAlias = Change | Repartition | Upgrade


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """``rate`` None: one burst. ``changes`` of fleet, partitions and program, in the order in which they happen.

    For ``warmup_s`` seconds the same is done before, and is in no figure: a new broker compiles itself meanwhile.
    ``options`` of the command line name the log for the nodes. ``saved``: the run ends only when checkpoints hold
    all that the requests have made. ``loaded``: the state is there already, and its invariants are not checked.
    """

    workload: BenchWorkload
    shape: WorkloadShape
    transactions: int
    rate: float | None
    nodes: int
    sequencers: int
    changes: tuple[AnyChange, ...] = ()
    options: tuple[str, ...] = ()
    saved: bool = False
    warmup_s: float = 0.0
    loaded: bool = False


@dataclass(frozen=True, slots=True)
class BenchRun:
    """``checkpoints``: their names by state partition, where they were waited for."""

    figures: dict[str, object]
    checkpoints: dict[int, str]


def run_bench(
    log: Log,
    plan: BenchPlan,
    requests: Sequence[WireRequest] | None = None,
    open_log: Callable[[], Log] | None = None,
    store: CheckpointStore | None = None,
) -> BenchRun:
    """Load, measure, check; figures as ``docs/cli.md`` describes them. It begins when all nodes have joined.

    ``requests`` None: they are made here. ``open_log`` gives the same log once more, for changes that need it.
    ``store``: for workloads whose nodes begin with a state. Raises ``RunFailed`` if replies stay out, or a change was
    refused.
    """
    workload, program = plan.workload, plan.workload.program
    log.prefer_latency()
    first = None if plan.loaded else workload.first_state
    if first is not None:
        assert store is not None, f"{workload.name} begins with checkpoints"
        begin_with(log, store, program, plan.sequencers, first.keys(plan.shape), first.value)
    topics = create_topics(log, program, plan.sequencers)
    client = TransactionClient(log, program.name)
    elastic = ElasticChanges(topics, open_log, plan.options)
    if requests is None:
        requests = workload.requests(plan.shape, 0, plan.transactions)
    with bench_fleet(workload.reference, plan.sequencers, plan.options, plan.nodes, ANSWER_S) as fleet:
        wait_until_settled(log, topics, (plan.sequencers, program.partitions), plan.nodes, ANSWER_S)
        one = [] if first is None else workload.requests(plan.shape, NO_NUMBER, 1)
        first_answer = _send_paced(client, one, None, patience_s=FIRST_STATE_S)
        loaded = send_and_wait(client, workload.load(plan.shape) if first is None and not plan.loaded else [])
        if any(isinstance(outcome, Aborted) for outcome in loaded.outcomes.values()):
            raise RunFailed(f"{workload.name} was loaded in vain: {unexpected(workload, loaded)}; is its log new?")
        whole = _warmed(client, plan)
        warmed = len(whole.requests)
        _add(whole, first_answer)
        cpu = fleet.cpu_s()

        def apply(change: AnyChange) -> None:
            fleet.apply(change) if isinstance(change, Change) else elastic.start(change)

        history = _send_paced(client, requests, plan.rate, plan.changes, apply)
        cpu_s = fleet.cpu_s() - cpu
        ended = elastic.ended()
        _add(whole, history)
        replied = Replied(log, program)

        def send(requests: Sequence[WireRequest]) -> dict[str, Any]:
            return all_unmarked(send_and_wait(client, requests).outcomes)

        wrong = unexpected(workload, whole)
        for each in ended:
            if isinstance(each, Upgraded):
                wrong += of_wrong_version(whole, replied.epochs, each.outcome["since_epoch"])
        if not plan.loaded:
            wrong += workload.check(plan.shape, replace(whole, outcomes=all_unmarked(whole.outcomes)), send)
        epochs = [replied.epochs[request.id] for request in requests]
        if plan.saved:
            last = max(replied.epochs[request.id] for request in whole.requests)
            wait_for_checkpoints(log, program, plan.sequencers, last, ANSWER_S)
    checkpoints = newest_checkpoints(log, program, plan.sequencers) if plan.saved else {}
    by_log = spread(log_latencies_ms(log, program, replied, requests))
    figures = {**_figures(plan, fleet, history, cpu_s), "warmup_s": plan.warmup_s, "warmup_transactions": warmed}
    figures |= {"log_latency_ms": by_log, **counts(log, program, plan.sequencers, min(epochs), max(epochs))}
    figures |= {"repeats_dropped": Replied(log, program).repeats, **elastic_figures(ended, _reply_times(history))}
    return BenchRun({**figures, "invariants": not wrong, "violations": wrong[:VIOLATIONS_SHOWN]}, checkpoints)


def _warmed(client: TransactionClient, plan: BenchPlan) -> RequestHistory:
    """Requests with the numbers after those that are measured, at the same rate, or in bursts of as many."""
    whole, first = RequestHistory(), plan.transactions
    if plan.rate is not None:
        count = round(plan.rate * plan.warmup_s)
        return _send_paced(client, plan.workload.requests(plan.shape, first, count), plan.rate) if count else whole
    spent_s = 0.0
    while spent_s < plan.warmup_s:
        burst = plan.workload.requests(plan.shape, first, plan.transactions)
        began = time.monotonic()
        _add(whole, send_and_wait(client, burst))
        spent_s += time.monotonic() - began
        first += plan.transactions
    return whole


def _reply_times(history: RequestHistory) -> ReplyTimes:
    due = history.due or history.sent
    return ReplyTimes(list(due.values()), [history.answered[name] for name in due])


def _add(whole: RequestHistory, part: RequestHistory) -> None:
    whole.requests += part.requests
    whole.outcomes |= part.outcomes
    whole.sent |= part.sent
    whole.due |= part.due
    whole.answered |= part.answered


def send_and_wait(client: TransactionClient, requests: Sequence[WireRequest]) -> RequestHistory:
    """All at once. Raises ``RunFailed`` if replies stay out."""
    return _send_paced(client, requests, None)


def _send_paced(
    client: TransactionClient,
    requests: Sequence[WireRequest],
    rate: float | None,
    changes: Sequence[AnyChange] = (),
    apply: Callable[[AnyChange], None] = lambda _: None,
    patience_s: float = ANSWER_S,
) -> RequestHistory:
    """Send all, at ``rate`` a second or at once, and wait for all replies."""
    history, waiting, pending = RequestHistory(list(requests)), list(changes), 0
    start = last = send_at = time.monotonic()
    while len(history.answered) < len(requests):
        now = time.monotonic()
        due = len(requests) if rate is None else min(len(requests), int((now - start) * rate))
        if due > pending and now >= send_at:
            send_at = now + GATHER_S
            history.sent.update((request.id, now) for request in requests[pending:due])
            if rate is not None:
                history.due.update((requests[k].id, start + k / rate) for k in range(pending, due))
            client.send_all(requests[pending:due])
            pending = due
        client.receive(0.001 if pending < len(requests) else 0.05)
        now = time.monotonic()
        for name, outcome in client.take_all():
            if isinstance(outcome, BadReply):
                raise outcome
            history.answered[name] = last = now
            history.outcomes[name] = outcome
        while waiting and len(history.answered) >= waiting[0].share * len(requests):
            apply(waiting.pop(0))
        if now - last > patience_s:
            raise RunFailed(f"{len(requests) - len(history.answered)} requests had no reply for {patience_s:g} s")
    return history


def _figures(plan: BenchPlan, fleet: BenchFleet, history: RequestHistory, cpu_s: float) -> dict[str, object]:
    count = len(history.answered)
    times = sorted(history.answered.values())
    gaps = [later - sooner for sooner, later in pairwise(times)]
    return {
        "workload": plan.workload.name,
        **asdict(plan.shape),
        "nodes": plan.nodes,
        "rate": plan.rate,
        "killed": [number for kind, number, _ in fleet.changed if kind == "kill"],
        "changes": fleet.silences(times),
        "transactions": count,
        "transactions_per_s": round(count / (times[-1] - min(history.sent.values()))),
        "user_aborted": sum(isinstance(outcome, Aborted) for outcome in history.outcomes.values()),
        "latency_ms": spread(
            [1000 * (history.answered[name] - since) for name, since in (history.due or history.sent).items()]
        ),
        "longest_silence_ms": 1000 * max(gaps, default=0.0),
        "cpu_us_per_transaction": 1e6 * cpu_s / count,
    }
