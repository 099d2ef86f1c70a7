"""Autoscaling under a load that doubles and halves: `holon txn autoscale` on transfers at 1, 2, 4, 2, 1 times a rate.

    .venv/bin/python deploy/bench/transactions/autoscaling.py [--rate 1000] [--seconds 15] [--nodes 1:3]
        [--partitions 2:6] [--p99-ms 300] [--lag-s 2] [--cooldown-s 6] [--samples 3] [--accounts 2000] [--zipf 0]
        [--times 1,2,4,2,1] [--begin 8] [--out DIR] [--json]

Examples: a smaller one, `python deploy/bench/transactions/autoscaling.py --rate 200 --seconds 10`. Partitions that are
merged while requests come: `... --rate 100 --times 4,1,1 --begin 8 --partitions 2:8 --nodes 1:1`.

The autoscaler is the real command, on an embedded log; its nodes are processes. Requests come in an open loop: latency
counts from when a request is due. The table has for each second the requests that were due and those answered, p50 and
p99, nodes, those that own state partitions, and partitions. Then come the decisions with their figures, the moves of
keys (split or merge) with what they cost, and the longest silence while replies are due. Every balance is read in the
end. Exit 1 where one is wrong, a reply is missing, or the
command fails. Progress is on standard error. Writes autoscaling.json, .md and .svg. 90 s with the defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from deploy.bench.transactions.moves import moves, moves_shown, moves_table
from nexmark.bench.machine import machine
from nexmark.pictures import picture, write_files
from nodes.log import Log, open_log
from nodes.machine import messages as m
from nodes.machine.ownership.ownership import Ownership
from nodes.python_process import child_environment, module_command
from nodes.transactions.autoscaling.autoscaler import decisions_of
from nodes.transactions.autoscaling.deciding import Decision, direction
from nodes.transactions.bench.reply_times import Interval, ReplyTimes
from nodes.transactions.bench.run import send_and_wait
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.control_history import counted_heartbeats
from nodes.transactions.job_start import started
from nodes.transactions.metrics.node import BUSY_STAT
from nodes.transactions.topics import TransactionTopics, jobs_among
from transactional.workloads.contract import BenchWorkload, RequestHistory, WorkloadShape, unexpected
from transactional.workloads.partitioned import with_partitions
from transactional.workloads.ycsb_t import workload

TIMES = (1, 2, 4, 2, 1)
"""Of the rate, one after the other."""
SEQUENCERS = 4
BEGIN_S, LEAVE_S, PATIENCE_S = 60.0, 60.0, 60.0
GATHER_S = 0.004


class Second(NamedTuple):
    """Of the run: times from the first request that is due. Latencies are those of requests that were due in it.

    ``busy``: mean of the nodes, by the heartbeats of this second.
    """

    at_s: int
    due: int
    replies: int
    p50_ms: float
    p99_ms: float
    nodes: int
    owners: int
    partitions: int
    busy: float


class Standing(NamedTuple):
    """The job from then on, by the wall clock: nodes, those of them that own state partitions, and partitions."""

    at_ms: int
    nodes: int
    owners: int
    partitions: int


def due_times(rate: int, seconds: int, of_rate: Sequence[int] = TIMES) -> list[float]:
    """In seconds from the first one on, ascending."""
    found: list[float] = []
    for phase, times in enumerate(of_rate):
        count = rate * times * seconds
        found += [phase * seconds + seconds * k / count for k in range(count)]
    return found


class BusyShares:
    """As nodes report them in heartbeats, which stay on the log for a minute: (wall ms, share)."""

    def __init__(self, log: Log, topics: TransactionTopics) -> None:
        self.found: list[tuple[int, float]] = []
        self._log, self._topic = log, topics.heartbeats
        self._offset = log.end_offset(self._topic, 0)

    def read(self) -> None:
        """The heartbeats that have come since."""
        chunk = self._log.read(self._topic, 0, self._offset)
        self._offset = chunk.next_offset
        for at_ms, value in zip(chunk.timestamps_ms.tolist(), chunk.values, strict=True):
            shares = [each.stats.get(BUSY_STAT) for each in counted_heartbeats([value])]
            self.found += [(at_ms, share) for share in shares if share is not None]


def drive(client: TransactionClient, history: RequestHistory, due: Sequence[float], shares: BusyShares) -> float:
    """Send each when it is due, and wait for all replies, or ``PATIENCE_S`` without any. Gives the begin."""
    requests, sent, told_s = history.requests, 0, 0.0
    begin = last = time.monotonic()
    while len(history.answered) < len(requests):
        now = time.monotonic()
        until = int(np.searchsorted(due, now - begin, side="right"))
        if until > sent:
            history.sent.update((request.id, now) for request in requests[sent:until])
            client.send_all(requests[sent:until])
            sent = until
        client.receive(GATHER_S)
        now = time.monotonic()
        for name, outcome in client.take_all():
            history.answered[name] = last = now
            history.outcomes[name] = outcome
        if now - begin - told_s >= 5:
            told_s = now - begin
            shares.read()
            print(f"{told_s:5.0f} s: {len(history.answered)} replies of {sent}", file=sys.stderr, flush=True)
        if now - last > PATIENCE_S:
            break
    shares.read()
    history.due.update((request.id, begin + at) for request, at in zip(requests, due, strict=True))
    return begin


def standings(log: Log, topics: TransactionTopics, units: int) -> tuple[list[Standing], list[Decision]]:
    """The job at each record of the control topic, and all decisions."""
    fold, offset, found = Ownership(units, owners_save=True), 0, list[Standing]()
    while (chunk := log.read(topics.control, 0, offset)).next_offset > offset:
        offset = chunk.next_offset
        for at_ms, value in zip(chunk.timestamps_ms.tolist(), chunk.values, strict=True):
            fold.apply(m.decode_control(value))
            staying = [node for node in fold.members if not fold.is_stopping(node)]
            owned = {fold.owner(unit) for unit in range(SEQUENCERS, fold.partitions)}
            newest = fold.layouts.newest
            partitions = (units if newest is None else newest.units) - SEQUENCERS
            found.append(Standing(at_ms, len(staying), len(owned & set(staying)), partitions))
    return found, decisions_of(fold)


def seconds_of(
    due: Sequence[float],
    answered: Sequence[float],
    standings: Sequence[Standing],
    shares: Sequence[tuple[int, float]],
    begin_ms: int,
) -> list[Second]:
    """``due`` and ``answered`` in seconds from the begin, by request."""
    came, went = np.array(due), np.array(answered)
    found: list[Second] = []
    for at in range(int(np.ceil(max(came.max(), went.max())))):
        mine = (came >= at) & (came < at + 1)
        latencies = 1000 * (went[mine] - came[mine])
        p50, p99 = (float(each) for each in np.percentile(latencies, (50, 99))) if mine.any() else (0.0, 0.0)
        known = [each for each in standings if each.at_ms <= begin_ms + 1000 * (at + 1)]
        last = known[-1] if known else Standing(0, 0, 0, 0)
        replies = int(((went >= at) & (went < at + 1)).sum())
        busy = [share for at_ms, share in shares if (at_ms - begin_ms) // 1000 == at]
        there = last.nodes, last.owners, last.partitions
        found.append(Second(at, int(mine.sum()), replies, p50, p99, *there, sum(busy) / max(1, len(busy))))
    return found


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """One run. Raises ``RuntimeError`` where the command ends before it is told to."""
    first = options.begin or int(options.partitions.split(":")[0])
    mine, shape = with_partitions(workload, first), WorkloadShape(options.accounts, options.zipf)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        command = [*module_command("nodes.cli", "txn", "autoscale"), "--program", mine.reference, "--json"]
        for name in ("nodes", "partitions", "p99-ms", "lag-s", "cooldown-s", "samples"):
            command += [f"--{name}", str(getattr(options, name.replace("-", "_")))]
        command += ["--interval-s", "1", "--log-dir", f"{folder}/log"]
        command += ["-D", "node.truncate_internal_topics=false"]  # the figures are of the whole log
        scaler = subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True)
        try:
            found = _driven(mine, shape, options, f"{folder}/log", scaler)
            spent = psutil.Process(scaler.pid).cpu_times()
            scaler.send_signal(signal.SIGTERM)
            told, _ = scaler.communicate(timeout=LEAVE_S)
        finally:
            scaler.kill()
            scaler.wait()
    if scaler.returncode:
        raise RuntimeError(f"holon txn autoscale ended with {scaler.returncode}")
    problems = [each["problem"] for each in json.loads(told)["decisions"] if each["problem"]]
    return {
        **found,
        "problems": problems,
        "autoscaler_cpu_s": spent.user + spent.system,
        "load": round(load, 1),
        "machine": machine(),
    }


def _driven(
    mine: BenchWorkload, shape: WorkloadShape, options: argparse.Namespace, place: str, scaler: subprocess.Popen[str]
) -> dict[str, Any]:
    topics, deadline = TransactionTopics(mine.program.name), time.monotonic() + BEGIN_S
    while not Path(place, "log.json").is_file():
        _check_runs(scaler, deadline)
    with open_log(f"embedded:{place}") as log:
        log.prefer_latency()
        while topics.job not in jobs_among(log.topics()) or (begun := started(log, topics)) is None:
            _check_runs(scaler, deadline)
        client = TransactionClient(log, topics.job)
        whole = send_and_wait(client, mine.load(shape))
        due = due_times(options.rate, options.seconds, options.times)
        history = RequestHistory(mine.requests(shape, 0, len(due)))
        begin_ms = time.time_ns() // 1_000_000
        begin = drive(client, history, due, shares := BusyShares(log, topics))
        missing = len(history.requests) - len(history.answered)
        found, decisions = standings(log, topics, begun.partitions)
        moved = [each for each in moves(log, topics, begun.partitions, SEQUENCERS) if each.end_ms >= begin_ms]
        wrong = [f"{missing} requests had no reply"] if missing else []
        if not missing:
            for part in ("requests", "outcomes", "sent", "due", "answered"):
                both = getattr(whole, part)
                setattr(whole, part, both + history.requests if part == "requests" else both | getattr(history, part))
            wrong += unexpected(mine, whole)
            wrong += mine.check(shape, whole, lambda requests: send_and_wait(client, requests).outcomes)
    names = [request.id for request in history.requests if request.id in history.answered]
    came, went = [history.due[name] for name in names], [history.answered[name] for name in names]
    times = ReplyTimes(came, went)
    seconds = seconds_of([at - begin for at in came], [at - begin for at in went], found, shares.found, begin_ms)
    of_run = [each for each in decisions if each.at_ms >= begin_ms]
    return {
        "replies": len(names), "missing": missing, "violations": wrong[:20],
        "longest_silence_ms": times.downtime_ms(Interval(begin, max(went))),
        "before": [_shown(each, begin_ms) for each in decisions if each.at_ms < begin_ms],
        "decisions": [_shown(each, begin_ms) for each in of_run],
        "moves": moves_shown(moved, times, begin, begin_ms),
        "against_load": against_load(of_run, begin_ms, options.seconds, options.times),
        "unused_s": sum(each.owners < each.nodes for each in seconds),
        "seconds": [each._asdict() for each in seconds],
    }  # fmt: skip


def _check_runs(scaler: subprocess.Popen[str], deadline: float) -> None:
    if scaler.poll() is not None or time.monotonic() > deadline:
        raise RuntimeError("holon txn autoscale has not begun the job: see what it has written")
    time.sleep(0.05)


def against_load(decisions: Sequence[Decision], begin_ms: int, seconds: int, of_rate: Sequence[int] = TIMES) -> int:
    """How many add though the load has halved last, or take away though it has doubled last or has not changed yet.

    0 where the load never changes.
    """
    last = list(of_rate).index(max(of_rate))
    count = 0
    for each in decisions if len(set(of_rate)) > 1 else ():
        phase = min(int((each.at_ms - begin_ms) / 1000 / seconds), len(of_rate) - 1)
        count += (direction(each.action, each.sample) > 0) != (phase <= last)
    return count


def _shown(decision: Decision, begin_ms: int) -> dict[str, Any]:
    action, sample = decision.action, decision.sample
    wanted = {
        "nodes": f"nodes {sample.nodes} to {action.nodes}",
        "split": f"split of {action.partition} to {action.target}",
    }.get(action.kind, f"partitions {sample.partitions} to {action.partitions}")
    figures = {"busy": sample.busy, "p99_ms": sample.p99_ms, "lag_s": sample.lag_s, "skew": round(sample.skew, 2)}
    return {"at_s": round((decision.at_ms - begin_ms) / 1000, 1), "decided": wanted, "why": action.reason, **figures}


def markdown(found: dict[str, Any]) -> str:
    """Seconds, decisions, and what went wrong."""
    lines = ["| s | due | replies | p50, ms | p99, ms | nodes | that own | partitions | busy, % |", f"|{'---|' * 9}"]
    for each in found["seconds"]:
        p50, p99 = f"{each['p50_ms']:,.0f}", f"{each['p99_ms']:,.0f}"
        cells = [each["at_s"], each["due"], each["replies"], p50, p99, each["nodes"], each["owners"]]
        lines.append(f"| {' | '.join(map(str, cells))} | {each['partitions']} | {100 * each['busy']:.0f} |")
    lines += ["", "| s | decided | busy | p99, ms | lag, s | skew | why |", f"|{'---|' * 7}"]
    for each in [*found["before"], *found["decisions"]]:
        busy, p99 = ("-" if each[name] is None else f"{each[name]:.2f}" for name in ("busy", "p99_ms"))
        lines.append(
            f"| {each['at_s']} | {each['decided']} | {busy} | {p99} | {each['lag_s']:.1f} | {each['skew']} "
            f"| {each['why']} |"
        )
    lines += moves_table(found["moves"])
    lines += [
        "",
        f"{found['replies']} replies, {found['missing']} missing, {len(found['violations'])} violations; longest "
        f"silence {found['longest_silence_ms']:.0f} ms. {found['against_load']} decisions against the load; a node "
        f"without a state partition for {found['unused_s']} s. CPU of the autoscaler: "
        f"{found['autoscaler_cpu_s']:.1f} s. Load average before: {found['load']}.",
        *[f"Problem: {each}" for each in found["problems"]],
    ]
    return "\n".join(lines) + "\n"


def draw(path: Path, found: dict[str, Any]) -> None:
    """Requests and replies; p50 and p99; nodes and partitions; decisions as lines."""
    seconds = found["seconds"]
    panels = (("due", "replies"), ("p50_ms", "p99_ms"), ("nodes", "owners", "partitions"))
    with picture(path, len(panels), 1, (9, 7)) as (_, axes):
        for axis, names in zip(axes, panels, strict=True):
            for name in names:
                axis.plot([each["at_s"] for each in seconds], [each[name] for each in seconds], label=name)
            for each in found["decisions"]:
                axis.axvline(each["at_s"], color="gray", linewidth=0.6)
            axis.legend(fontsize=7)
        axes[1].set_yscale("log")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rate", type=int, default=1_000, help="requests a second at first; four times as many at most"
    )
    parser.add_argument("--seconds", type=int, default=15, help="of each rate")
    parser.add_argument(
        "--times", type=lambda text: [int(each) for each in text.split(",")], default=list(TIMES), help="of the rate"
    )
    parser.add_argument("--begin", type=int, default=0, help="partitions at first, where it is not the least")
    parser.add_argument("--nodes", default="1:3")
    parser.add_argument("--partitions", default="2:6", help="the job begins with the least")
    parser.add_argument("--p99-ms", type=float, default=300)
    parser.add_argument("--lag-s", type=float, default=2)
    parser.add_argument("--cooldown-s", type=float, default=6)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--accounts", type=int, default=2_000)
    parser.add_argument("--zipf", type=float, default=0.0)
    parser.add_argument("--out", type=Path, default=Path("runs/txn-autoscaling"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = measured(options)
    text = markdown(found)
    write_files(options.out, "autoscaling", found, text, lambda path: draw(path, found))
    print(json.dumps(found) if options.json else text)
    sys.exit(1 if found["violations"] else 0)


if __name__ == "__main__":
    main()
