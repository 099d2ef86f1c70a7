"""All workloads at once on real node processes, one of which is killed: every invariant holds."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from nodes.log import open_log
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.topics import create_topics
from tests.integration.processes import PLENTY_S
from tests.integration.txn_processes import SEQUENCERS, nodes
from tests.integration.txn_replay import Replay
from tests.integration.workload_mix import Mix, program
from transactional import Aborted
from transactional.requests.requests import WireRequest
from transactional.workloads.contract import RequestHistory, WorkloadShape

EACH = 60
SHAPES = {
    "ycsb-t": WorkloadShape(20, 0.9),
    "ycsb-e": WorkloadShape(60, 0.9),
    "movies": WorkloadShape(10, 0.9),
    "travel-busy": WorkloadShape(6, 0.9),
    "cart": WorkloadShape(6, 0.9),
    "cycle": WorkloadShape(15, 0.9),
    "append": WorkloadShape(8, 0.5),
    "tpcc-full": WorkloadShape(2),
}


def execute(
    client: TransactionClient, requests: Sequence[WireRequest], on_answers: Callable[[int], None] = lambda count: None
) -> RequestHistory:
    """All at once; tells how many are answered after each reading."""
    done = RequestHistory(list(requests))
    for request in requests:
        done.sent[request.id] = time.monotonic()
        client.send_request(request)
    end = time.monotonic() + 2 * PLENTY_S
    while len(done.answered) < len(requests):
        client.receive(0.1)
        now = time.monotonic()
        assert now < end, f"{len(requests) - len(done.answered)} requests had no reply"
        for name, outcome in client.take_all():
            done.outcomes[name], done.answered[name] = outcome, now
        on_answers(len(done.answered))
    return done


@pytest.mark.long
def test_all_workloads_keep_their_invariants_when_a_node_is_killed(tmp_path: Path) -> None:
    mix = Mix(SHAPES)
    with open_log(f"embedded:{tmp_path / 'log'}") as log:
        create_topics(log, program, SEQUENCERS)
        client = TransactionClient(log)
        with nodes(2, "tests.integration.workload_mix:program", "--log-dir", str(tmp_path / "log")) as processes:

            def run(requests: Sequence[WireRequest]) -> RequestHistory:
                return execute(client, requests)

            def kill(answered: int) -> None:
                if answered >= EACH:
                    processes[0].send_signal(signal.SIGKILL)

            mix.load(run)
            # In portions, so that the checks of real time and of stale reads have something to say.
            done = RequestHistory()
            requests = mix.requests(EACH)
            for first in range(0, len(requests), len(requests) // 4):
                part = execute(client, requests[first : first + len(requests) // 4], kill if first else lambda n: None)
                for name in ("requests", "outcomes", "sent", "answered"):
                    mine, more = getattr(done, name), getattr(part, name)
                    mine.extend(more) if isinstance(mine, list) else mine.update(more)
            assert processes[0].wait(PLENTY_S) == -signal.SIGKILL
            assert mix.wrong(done, run) == {}
            assert any(isinstance(outcome, Aborted) for outcome in done.outcomes.values())
            assert any(not isinstance(outcome, Aborted) for outcome in done.outcomes.values())
        assert Replay(log, program).check().replies > len(requests)
