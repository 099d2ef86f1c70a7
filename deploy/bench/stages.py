"""Where an event's cost goes: CPU time by stage beside what each stage costs at least here, memory, a flame graph.

    .venv/bin/python deploy/bench/stages.py [--queries q0,q4,q7,q7max] [--jobs MODULE:JOB,...] [--events 4000000]
                                            [--log embedded|kafka] [--compression none] [--out runs/stages]

``--jobs`` are measured in place of queries: those of modules that also have ``records(draw)``, as the ordinary jobs.

One node process with all that it does in production. Its main thread is sampled at every tick of CPU time (some
milliseconds, by the kernel; nodes/profiling/sampling.py). Each sample counts for the stage of the innermost function
that belongs to one. The least that a stage can cost is what its work alone costs in a tight loop on the same records.
On Kafka a broker is started on the same machine, and its CPU time is a row of its own. About 20 s a query. Writes
stages.json, stages.md, and for each query QUERY.svg (flame graph) and QUERY.folded.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import resource
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np

from holon.columnar.encoding import encode_rows
from holon.columnar.payloads import BinaryColumn
from holon.job import Job
from nexmark.bench.machine import machine
from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nexmark.loading import Stream, load
from nexmark.pictures import write_files
from nexmark.processor_time import cpu_s
from nexmark.queries import TOPIC, nexmark_job
from nodes.api import load_job
from nodes.checkpoints.opening import open_checkpoints
from nodes.compiled import loading as compiled
from nodes.local_kafka import broker as kafka_broker
from nodes.log import TopicPartition
from nodes.metrics.process_memory import private_bytes
from nodes.profiling.sampling import Sampler, Stack, flame_graph, folded
from nodes.runtime.log_opening import open_job_log
from nodes.settings.settings import load_settings
from nodes.streams.jobs import declare_end, open_job
from nodes.streams.process import NodeProcess, node_config

BATCH, ROUNDS = 20_000, 5
SENDS = ("send", "append", "produce")
STAGES: dict[str, tuple[str, ...]] = {
    "decode": ("holon/columnar/structs", "holon/formats/json_columns", "holon/columnar/projection",
               "holon/columnar/kernel", "holon/columnar/layout", "holon/columnar/vectors",
               "nexmark/queries/columns", "nexmark/queries/parsing", "nexmark/times"),
    "encode": ("holon/columnar/encoding", "holon/outputs/"),
    "windowed CRDT": ("wcrdt/", "holon/program/scope", "holon/program/states", "holon/program/handles",
                      "holon/program/gathered_handles"),
    "group and aggregate": ("nexmark/queries/",),
    "admit (where, watermarks, counts)": ("holon/time/", "holon/tracks/record_track", "holon/formats/"),
    "checkpoints": ("nodes/checkpoints/", "holon/tracks/snapshot"),
    "node (turns, ownership, deltas)": ("nodes/", "holon/"),
}  # fmt: skip
"""By path; the first that fits. Calls within the log distinguish its stages."""
PASSED_OVER = ("nodes/compiled", "holon/columnar/payloads", "deploy/")
"""These count for their caller."""


def stage_of(stack: Stack) -> str:
    """The stage that a sample counts for."""
    for name in reversed(stack):
        path, _, function = name.partition(":")
        if path.startswith(PASSED_OVER):
            continue
        if path.startswith("nodes/log/"):
            inside = [frame.partition(":")[2] for frame in stack]
            return "send" if any(called.lstrip("_").startswith(SENDS) for called in inside) else "read"
        for stage, paths in STAGES.items():
            if path.startswith(paths):
                return "encode" if function == "emit_columns" else stage
    return "other (start, imports, interpreter)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", default="q0,q4,q7,q7max")
    parser.add_argument("--jobs", help="MODULE:JOB,... in place of queries")
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--log", choices=("embedded", "kafka"), default="embedded")
    parser.add_argument("--compression", default="none", help="Of the input's topic on Kafka.")
    parser.add_argument("--out", type=Path, default=Path("runs/stages"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="holon-stages-") as name:
        folder = Path(name)
        broker = kafka_broker.up(folder / "kafka") if options.log == "kafka" else None
        try:
            defined = (["log.kind=kafka", f"log.bootstrap={broker.bootstrap}", f"log.prefix=s{uuid.uuid4().hex[:6]}-"]
                       if broker else [f"log.path={folder / 'log'}"])  # fmt: skip
            defined.append(f"checkpoints.url={folder / 'checkpoints'}")
            rows = measured(options, defined, None if broker is None else broker.pid)
        finally:
            if broker is not None:
                kafka_broker.down(folder / "kafka")
    write_files(options.out, "stages", {"rows": rows, "machine": machine()}, markdown(rows))
    print(markdown(rows))


def measured(options: Any, defined: list[str], broker: int | None) -> list[dict[str, Any]]:
    """Fill the topics, sample each query or job, and measure what its stages cost at least."""
    codec = [f"log.kafka.compression.type={options.compression}"] if broker else []
    with open_job_log(load_settings(definitions=[*defined, *codec], environ={})) as log:
        for name in options.jobs.split(",") if options.jobs else ():
            fill(log, name, options)
        if not options.jobs:
            load(log, Stream(TOPIC, options.events, options.partitions, GeneratorConfig(seed=7)))
    rows = []
    for query in (options.jobs or options.queries).split(","):
        queue = multiprocessing.get_context("spawn").Queue()
        broker_s = cpu_s(broker) or 0.0 if broker else 0.0
        process = multiprocessing.get_context("spawn").Process(target=run, args=(defined, query, queue))
        process.start()
        while True:
            try:
                found = queue.get(timeout=1.0)
                break
            except Empty:
                if not process.is_alive():
                    raise SystemExit(f"{query}: the node ended with code {process.exitcode}") from None
        process.join()
        stacks: Counter[Stack] = Counter({tuple(stack): count for stack, count in found.pop("stacks")})
        title = f"{query}, {options.events:,} events, {options.log} log"
        file = query.replace(":", ".")
        (options.out / f"{file}.svg").write_text(flame_graph(stacks, title), encoding="utf-8")
        (options.out / f"{file}.folded").write_text(folded(stacks), encoding="utf-8")
        stages = by_stage(stacks, found["cpu_s"], options.events)
        if broker:
            stages["broker"] = round(((cpu_s(broker) or 0.0) - broker_s) / options.events * 1e6, 3)
        rows.append({"query": query, "log": options.log, "events": options.events, **found, "stages": stages,
                     "least": least(query, defined, options), "load": round(os.getloadavg()[0], 1)})  # fmt: skip
    return rows


def fill(log: Any, name: str, options: Any) -> None:
    """The topic of a job, with drawn records."""
    job, values = named(name), drawn(name)
    topic = job.sources[0].topic
    log.create_topic(topic, options.partitions)
    for first in range(0, options.events, BATCH * options.partitions):
        some = list(islice(values, min(BATCH * options.partitions, options.events - first)))
        for partition in range(options.partitions):
            log.append(topic, partition, some[partition :: options.partitions])


def named(name: str) -> Job:
    """A query of Nexmark, or ``MODULE:JOB``."""
    return load_job(name) if ":" in name else nexmark_job(name)


def drawn(name: str) -> Iterator[bytes]:
    """The records of the module that ``MODULE:JOB`` names, without an end."""
    return import_module(name.partition(":")[0]).records(random.Random(7))


def by_stage(stacks: Counter[Stack], used_s: float, events: int) -> dict[str, float]:
    """Microseconds an event: the samples' shares of the CPU time that was used."""
    total: Counter[str] = Counter()
    for stack, count in stacks.items():
        total[stage_of(stack)] += count
    samples = max(1, sum(total.values()))
    return {stage: round(count / samples * used_s / events * 1e6, 3) for stage, count in total.most_common()}


def run(defined: list[str], query: str, queue: Any) -> None:
    """One node on the whole topic, sampled."""
    settings = load_settings(definitions=defined, environ={})
    with open_job_log(settings) as log:
        opened = open_job(log, named(query))
        declare_end(log, opened)
        process = NodeProcess(opened, log, open_checkpoints(settings), node_config(settings, 0, 1), settings)
        before, began_s, peak = _used_s(), time.monotonic(), 0
        with Sampler() as sampler:
            process.loop()
        peak = private_bytes(os.getpid())
        queue.put({
            "cpu_s": _used_s() - before, "wall_s": time.monotonic() - began_s, "own_mb": round(peak / 1e6, 1),
            "stacks": [(list(stack), count) for stack, count in sampler.stacks.items()],
        })  # fmt: skip


def _used_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def least(query: str, defined: list[str], options: Any) -> dict[str, float]:
    """Microseconds an event of each stage's work alone, the best of some rounds."""
    compiled.ensure()
    job = named(query)
    if ":" in query:
        records = list(islice(drawn(query), BATCH))
    else:
        records = encode_json(generate_slice(GeneratorConfig(seed=7), 0, BATCH))
    payloads, form = BinaryColumn.of(records), job.sources[0].format
    found = {
        "read": _reading(defined, job.sources[0].topic, options),
        "decode": _best(lambda: form.decode(payloads), BATCH),
        "copy of the bytes": _best(lambda: payloads.buffer.copy(), BATCH),
    }
    if ":" in query:
        return {name: round(us, 3) for name, us in found.items()}
    decoded = form.decode(payloads).columns
    times = decoded["time_ms"]
    prices = decoded.get("bid.price", times)
    found["group and aggregate"] = _best(lambda: (np.maximum.reduce(prices), times // 10_000), BATCH)
    if query == "q0":
        fields = {name: decoded[f"bid.{name}"] for name in ("auction", "bidder", "price", "dateTime", "extra")}
        found["encode"] = _best(lambda: encode_rows(fields, BATCH), BATCH)
    return {name: round(us, 3) for name, us in found.items()}


def _best(work: Callable[[], object], count: int) -> float:
    """Microseconds of CPU time for each of ``count``."""
    best = float("inf")
    for _ in range(ROUNDS):
        began_s = time.process_time()
        work()
        best = min(best, time.process_time() - began_s)
    return best / count * 1e6


def _reading(defined: list[str], topic: str, options: Any) -> float:
    """All records of the topic to columns of bytes, and nothing else."""
    partitions = options.partitions
    with open_job_log(load_settings(definitions=defined, environ={})) as log:
        log.use_columns()
        ends = [log.end_offset(topic, partition) for partition in range(partitions)]
        at, began_s = [0] * partitions, time.process_time()
        while at != ends:
            log.wait({TopicPartition(topic, partition): offset for partition, offset in enumerate(at)}, 1.0)
            for partition in range(partitions):
                chunk = log.poll(topic, partition, at[partition], max_records=BATCH)
                at[partition] = chunk.next_offset
        return (time.process_time() - began_s) / options.events * 1e6


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table of docs/performance.md."""
    lines: list[str] = []
    for row in rows:
        whole = sum(us for stage, us in row["stages"].items() if stage != "broker")
        lines += [
            f"**{row['query']}**, {row['log']} log, {row['events']:,} events: {whole:.3f} µs of the node's CPU each "
            f"({1 / max(whole, 1e-6):.2f} M events a CPU-second), {row['own_mb']} MB own memory at the end; "
            f"load {row['load']}.",
            "",
            "| stage | µs an event | share | its work alone, µs | times that |",
            "|---|---|---|---|---|",
        ]
        for stage, us in row["stages"].items():
            bound = row["least"].get(stage)
            beside = f"{bound:.3f} | {us / bound:.1f}" if bound else "- | -"
            share = "-" if stage == "broker" else f"{us / max(whole, 1e-9):.0%}"
            lines.append(f"| {stage} | {us:.3f} | {share} | {beside} |")
        lines += [f"| (copy of the records' bytes) | - | - | {row['least']['copy of the bytes']:.3f} | - |", ""]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
