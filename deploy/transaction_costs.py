"""The costs of a transfer: CPU time by function, messages and state, and the messages and bytes that it makes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from nodes.log import Log, open_log
from nodes.log.contract import FetchedRecords
from nodes.profiling.sampling import Sampler, Stack
from nodes.runtime.log_opening import open_job_log
from nodes.settings.settings import load_settings
from nodes.transactions.bench.figures import Replied, counts
from nodes.transactions.bench.prepared import each_chunk
from nodes.transactions.bench.run import send_and_wait
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.process import TransactionProcess
from nodes.transactions.topics import TransactionTopics, create_topics
from transactional.epochs.ledger import FIRST_EPOCH
from transactional.epochs.messages import (
    BadRecord,
    CallMessage,
    Calls,
    CommitMessage,
    EpochMessage,
    RecordPiece,
    RoundBarrier,
    call_message,
    commit_message,
    epoch_messages,
    to_bytes,
)
from transactional.workloads.contract import WorkloadShape
from transactional.workloads.ycsb_t import program, workload

SEQUENCERS = 4
STAGES: dict[str, tuple[str, ...]] = {
    "function": ("transactional/workloads", "transactional/execution", "transactional/context",
                 "transactional/operators", "transactional/entities"),
    "state": ("transactional/state/store", "transactional/state/snapshot", "transactional/state/snapshot_request",
              "transactional/state/spilling", "transactional/conflicts", "nodes/checkpoints",
              "nodes/transactions/checkpoints"),
    "messages": ("nodes/log/", "transactional/epochs/messages", "transactional/epochs/pieces",
                 "transactional/requests"),
    "epochs": ("transactional/", "nodes/transactions", "nodes/machine"),
}  # fmt: skip
"""By path; the first that fits, of the innermost function that belongs to one."""
PASSED_OVER = ("transactional/state/values", "deploy/")
"""These work for whoever calls them."""


def stage_of(stack: Stack) -> str:
    """The entry that a sample counts for."""
    for name in reversed(stack):
        if not name.startswith(PASSED_OVER):
            for stage, paths in STAGES.items():
                if name.startswith(paths):
                    return stage
    return "other"


def breakdown(transfers: int) -> dict[str, float]:
    """One node on an embedded log, a burst of transfers at Zipf 0.5; values are of one transfer."""
    shape = WorkloadShape(10_000, 0.5)
    with tempfile.TemporaryDirectory(prefix="holon-costs-") as folder:
        defined = [f"log.path={folder}/log", "node.truncate_internal_topics=false"]
        with open_log(f"embedded:{folder}/log") as log:
            create_topics(log, program, SEQUENCERS)
            context = multiprocessing.get_context("spawn")
            queue: Any = context.Queue()
            node = context.Process(target=_node, args=(defined, queue))
            node.start()
            client = TransactionClient(log, program.name)
            send_and_wait(client, workload.load(shape))
            assert node.pid is not None
            os.kill(node.pid, signal.SIGUSR1)  # from now on it is sampled
            assert queue.get() == "sampling"
            before = _sent(log)
            began_s = time.monotonic()
            send_and_wait(client, workload.requests(shape, 0, transfers))
            wall_s = time.monotonic() - began_s
            os.kill(node.pid, signal.SIGTERM)
            stages, used_s = queue.get()
            node.join()
            after = _sent(log)
            last = max(Replied(log, program).epochs.values())
            epochs = counts(log, program, SEQUENCERS, FIRST_EPOCH, last)
    total = max(1, sum(stages.values()))
    shares = {f"CPU, {name}, us": used_s * 1e6 / transfers * n / total for name, n in sorted(stages.items())}
    made = {name: (after[name] - before[name]) / transfers for name in sorted(after)}
    again = {"run again, share": epochs["reruns"] / transfers}
    return {**shares, "wall, us": wall_s * 1e6 / transfers, **made, **again}


def _node(defined: list[str], queue: Any) -> None:
    settings = load_settings(definitions=defined, environ={})
    sampler, started = Sampler(), list[float]()
    with open_job_log(settings) as log:
        process = TransactionProcess(program, log, settings, 0, SEQUENCERS)

        def begin(signum: int, frame: object) -> None:
            started.append(time.process_time())
            sampler.__enter__()
            queue.put("sampling")

        signal.signal(signal.SIGUSR1, begin)
        signal.signal(signal.SIGTERM, process.request_stop)
        process.loop()
        sampler.__exit__()
    stages: Counter[str] = Counter(dict.fromkeys(STAGES, 0))
    for stack, count in sampler.stacks.items():
        stages[stage_of(stack)] += count
    queue.put((dict(stages), time.process_time() - started[0]))


def _sent(log: Log) -> Counter[str]:
    """Calls and results between partitions, bytes of each topic, and what compression of large records saves."""
    found: Counter[str] = Counter()
    topics = TransactionTopics(program.name)
    for name in ("requests", "epochs", "calls", "commits", "replies"):

        def take(chunk: FetchedRecords, name: str = name) -> None:
            for value in chunk.values:
                found[f"bytes, {name}"] += len(value)
                found["bytes, all"] += len(value)
                count_in(found, name, value)

        topic = getattr(topics, name)
        for partition in range(log.partitions(topic)):
            each_chunk(log, topic, partition, take)
    return found


def _messages(name: str, value: bytes) -> Sequence[EpochMessage | CallMessage | CommitMessage]:
    if name == "epochs":
        return epoch_messages(value)
    decoder = {"calls": call_message, "commits": commit_message}.get(name)
    return [] if decoder is None else [decoder(value)]


def count_in(found: Counter[str], name: str, value: bytes) -> None:
    """Count the calls in a record, and what it would be if nothing were compressed."""
    try:
        messages = _messages(name, value)
    except BadRecord:
        messages = []
    if len(messages) > 1:
        for message in messages:
            count_in(found, name, to_bytes(message))
        return
    message = messages[0] if messages else None
    if isinstance(message, RecordPiece) and message.size is not None and message.count == 1:
        whole = zlib.decompress(message.data)
        began_s = time.process_time()
        zlib.compress(whole, 1)
        found["compression, us"] += round(1e6 * (time.process_time() - began_s))
        count_in(found, name, whole)
        return
    found["bytes, all, without compression"] += len(value)
    if isinstance(message, Calls):
        found["calls and results in messages"] += len(message.items)
    elif isinstance(message, RoundBarrier) and message.inline:  # it holds the records that it sends
        for _, data in message.sends:
            sent = call_message(data)
            found["calls and results in messages"] += len(sent.items) if isinstance(sent, Calls) else 0
