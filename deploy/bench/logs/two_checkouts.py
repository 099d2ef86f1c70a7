"""CPU time of one node on ordinary jobs in two checkouts, in turn: microseconds an event, medians, ratios of pairs.

    .venv/bin/python deploy/bench/logs/two_checkouts.py BEFORE AFTER [--jobs gps,iot,player] [--rounds 5]
                                                        [--events 3000000] [--compression lz4]

Both are folders with their own ``.venv``. A broker is started and each topic filled once, with records that this
checkout draws. Each run is a node process of low priority on a copy of the job; its CPU time counts from the first turn
to the last, without start and imports.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import tempfile
from importlib import import_module
from itertools import islice
from pathlib import Path

from nexmark.compare.jobs import reference_of, topic_of
from nodes.api import load_job
from nodes.checkpoints.opening import open_checkpoints
from nodes.local_kafka import broker as kafka_broker
from nodes.runtime.log_opening import open_job_log
from nodes.settings.settings import load_settings
from nodes.streams.jobs import declare_end, open_job
from nodes.streams.process import NodeProcess, node_config

BATCH, PARTITIONS = 20_000, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", metavar="CHECKOUT")
    parser.add_argument("--jobs", default="gps,iot,player")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--compression", default="lz4")
    parser.add_argument("--node", nargs=3, metavar=("BOOTSTRAP", "JOB", "RUN"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.node:
        bootstrap, name, run = options.node
        print(json.dumps(node(definitions(bootstrap), name, int(run), options.events)))
        return
    with tempfile.TemporaryDirectory(prefix="holon-pairs-") as folder:
        broker = kafka_broker.up(Path(folder))
        try:
            names = options.jobs.split(",")
            for name in names:
                fill(
                    [*definitions(broker.bootstrap), f"log.kafka.compression.type={options.compression}"], name, options
                )
            for name in names:
                compare(broker.bootstrap, name, options)
        finally:
            kafka_broker.down(Path(folder))


def definitions(bootstrap: str) -> list[str]:
    return ["log.kind=kafka", f"log.bootstrap={bootstrap}", "log.prefix=pairs-"]


def reference(name: str) -> str:
    return f"deploy.bench.ordinary.{name}:job"


def fill(defined: list[str], name: str, options: argparse.Namespace) -> None:
    """The topic of a job, with drawn records."""
    values = import_module(f"deploy.bench.ordinary.{name}").records(random.Random(7))
    topic = topic_of(reference(name))
    with open_job_log(load_settings(definitions=defined, environ={})) as log:
        log.create_topic(topic, PARTITIONS)
        for first in range(0, options.events, BATCH * PARTITIONS):
            some = list(islice(values, min(BATCH * PARTITIONS, options.events - first)))
            for partition in range(PARTITIONS):
                log.append(topic, partition, some[partition::PARTITIONS])


def compare(bootstrap: str, name: str, options: argparse.Namespace) -> None:
    """Print each pair of a job, and their medians."""
    found: list[list[float]] = [[] for _ in options.checkouts]
    for number in range(options.rounds):
        for which, checkout in enumerate(options.checkouts):
            run = str(number * len(options.checkouts) + which)
            command = [f"{checkout}/.venv/bin/python", __file__, "--events", str(options.events)]
            answer = subprocess.run(
                ["nice", "-n", "10", *command, "--node", bootstrap, name, run],
                env=os.environ | {"PYTHONPATH": checkout}, cwd=checkout, capture_output=True, text=True, check=True,
            ).stdout  # fmt: skip
            found[which].append(json.loads(answer)["us"])
        print(name, [each[-1] for each in found], f"load {os.getloadavg()[0]:.1f}", flush=True)
    medians = [round(statistics.median(each), 3) for each in found]
    ratios = [after / before for before, after in zip(found[0], found[-1], strict=True)]
    print(f"{name}: medians {medians}, ratio of pairs {statistics.median(ratios):.2f}", flush=True)


def node(defined: list[str], name: str, run: int, events: int) -> dict[str, float]:
    """One node on the whole topic."""
    with tempfile.TemporaryDirectory(prefix="holon-pairs-") as folder:
        settings = load_settings(definitions=[*defined, f"checkpoints.url={folder}"], environ={})
        with open_job_log(settings) as log:
            opened = open_job(log, load_job(reference_of(reference(name), run)))
            declare_end(log, opened)
            process = NodeProcess(opened, log, open_checkpoints(settings), node_config(settings, 0, 1), settings)
            before_s = used_s()
            process.loop()
            return {"us": round((used_s() - before_s) / events * 1e6, 4)}


def used_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
