"""A job of `holon bench` by Quix Streams; the job's own code is a file beside the job's module.

Run by the environment of ``requirements.txt``, never by Holon's. States are in memory, not in Quix's store on disk:
each record goes through one function, and offsets are committed each second. That is the quickest that Quix does.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from quixstreams import Application

READER = {"fetch.queue.backoff.ms": 5, "queued.min.messages": 200000, "fetch.message.max.bytes": 4194304}
CHECKPOINTS_S = 1.0
QUIET_S = 20.0
"""Without a record for so long, records are missing."""


def module_of(path: Path) -> ModuleType:
    """The job's code."""
    spec = importlib.util.spec_from_file_location(f"peer_{path.stem}", path)
    assert spec is not None and spec.loader is not None, f"{path} is a file of Python"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--job", type=Path, required=True, help="the file of the job's code")
    parser.add_argument("--folder", type=Path, required=True, help="for Quix's own state")
    options = parser.parse_args()
    job = module_of(options.job)
    found: dict[tuple[int, Any], Any] = {}
    began_s = 0.0

    def add(payload: bytes) -> None:
        nonlocal began_s
        if not began_s:
            began_s = time.time()
            print(f"began {began_s}", flush=True)
        job.folded((payload,), found)

    app = Application(
        broker_address=options.bootstrap, consumer_group=f"quix-{time.time_ns()}", auto_offset_reset="earliest",
        state_dir=options.folder, commit_interval=CHECKPOINTS_S, consumer_extra_config=READER, loglevel="WARNING",
        auto_create_topics=False,
    )  # fmt: skip
    topic = app.topic(options.topic, value_deserializer="bytes", key_deserializer="bytes")
    app.dataframe(topic).update(add)
    app.run(count=events_of(options), timeout=QUIET_S)
    ended_s = time.time()
    for (start, key), state in found.items():
        print("row " + json.dumps(job.row(start, key, state), ensure_ascii=False))
    print(f"ended {ended_s}", flush=True)
    sys.stdin.read()  # until its CPU time has been read


def events_of(options: argparse.Namespace) -> int:
    """How many records the topic has."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({"bootstrap.servers": options.bootstrap, "group.id": "quix-count"})
    deadline_s = time.monotonic() + QUIET_S
    try:
        parts = [TopicPartition(options.topic, number) for number in range(options.partitions)]
        while True:
            try:
                return sum(high - low for low, high in (consumer.get_watermark_offsets(part) for part in parts))
            except KafkaException:  # a topic that is new has no leader yet
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.1)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
