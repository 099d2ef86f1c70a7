"""Costs of an event by the way its topic is written and reached: codecs, batches, TLS; each beside plain, in turn.

    python deploy/bench/logs/topics.py [--records N] [--rounds N] [--batch-bytes N] [--of WAY,...] [--json]

Microseconds of this process's CPU time for an event of the job `sensors` (columns, 1,000 keys), read from a broker of
its own and moved as a node moves it. A way is CODEC, tls:CODEC, or confluent:CODEC (the reader that is left then).
`times` is the median of the rounds' ratios to `none`; `without` the same less the codec's own time. `reading` is the
part of the log alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from confluent_kafka import Producer  # noqa: E402

from deploy.bench.ordinary import sensors  # noqa: E402
from nodes.compiled import loading as compiled  # noqa: E402
from nodes.local_kafka import broker as kafka_broker  # noqa: E402
from nodes.local_kafka.process import free_port  # noqa: E402
from nodes.log.kafka.log import KafkaLog  # noqa: E402
from nodes.profiling.records import TopicRecords  # noqa: E402
from nodes.profiling.task_runs import TaskRuns  # noqa: E402
from tests.integration.certificates import make_certificates  # noqa: E402

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WAYS = (*CODECS, "tls:none", "tls:lz4", "confluent:none", "confluent:lz4")
BATCH = 20_000
TIMEOUT_S = 120.0


class CodecClock:
    """Seconds of CPU time within the codecs' own functions."""

    def __init__(self) -> None:
        import cramjam

        self.cpu_s = 0.0
        for codec in (cramjam.gzip, cramjam.lz4, cramjam.zstd):
            self._clock(codec, "decompress_into")
        self._clock(cramjam.snappy, "decompress_raw_into")

    def _clock(self, codec: Any, name: str) -> None:
        setattr(codec, name, self._timed(getattr(codec, name)))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            began_s = time.thread_time()
            try:
                return function(*arguments)
            finally:
                self.cpu_s += time.thread_time() - began_s

        return timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch-bytes", type=int, default=1_000_000, help="of a batch before it is compressed")
    parser.add_argument("--of", default=",".join(WAYS), help="WAY,...")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ways = list(dict.fromkeys(["none", *options.of.split(",")]))
    assert compiled.ensure()
    clock = CodecClock()
    with tempfile.TemporaryDirectory(prefix="kafka-topics-") as folder:
        secured = _secured(Path(folder))
        with kafka_broker.passing(Path(folder) / "broker", properties=secured) as broker:
            for codec in {way.rpartition(":")[2] for way in ways}:
                _write(broker.bootstrap, codec, options.records, options.batch_bytes)
            taken: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
            for _, way in itertools.product(range(options.rounds + 1), ways):
                taken[way].append(_measured(broker.bootstrap, way, Path(folder), secured, options.records, clock))
    rows = _rows({way: its[1:] for way, its in taken.items()})  # the first ones are for warmth
    if options.json:
        print(json.dumps(rows))
        return
    for way, row in rows.items():
        print(f"{way:16}", *(f"{key} {value:>7}" for key, value in row.items()))


def _secured(folder: Path) -> dict[str, str]:
    make_certificates(folder)
    address = f"TLS://127.0.0.1:{free_port()}"
    return {
        "listeners": address,
        "advertised.listeners": address,
        "listener.security.protocol.map": "TLS:SSL",
        "listener.name.tls.ssl.keystore.type": "PEM",
        "listener.name.tls.ssl.keystore.location": str(folder / "broker.pem"),
    }


def _write(bootstrap: str, codec: str, records: int, batch_bytes: int) -> None:
    with KafkaLog(bootstrap) as log:
        log.create_topic(codec, 1)
    options = {"compression.type": codec, "linger.ms": 200, "batch.size": batch_bytes, "batch.num.messages": 100_000}
    writer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 2 * records, **options})
    made: Iterator[bytes] = sensors.records(random.Random(1))
    for value in itertools.islice(made, records):
        writer.produce(codec, value)
    assert writer.flush(TIMEOUT_S) == 0


def _measured(
    bootstrap: str, way: str, folder: Path, secured: dict[str, str], records: int, clock: CodecClock
) -> dict[str, float]:
    how, _, codec = way.rpartition(":")
    properties = {"holon.reader": "librdkafka" if how == "confluent" else "direct"}
    if how == "tls":
        bootstrap = secured["listeners"].rpartition("//")[2]
        properties |= {"security.protocol": "SSL", "ssl.ca.location": str(folder / "authority.pem")}
    with KafkaLog(bootstrap, properties) as log:
        assert log.use_columns()
        reading = TopicRecords(log, [codec], records)
        clock.cpu_s, began_s = 0.0, time.process_time()
        count = sum(len(run.payloads) for _, run in reading.runs(BATCH))
        read_s = time.process_time() - began_s
        clock.cpu_s, began_s = 0.0, time.process_time()
        TaskRuns(sensors.job, TopicRecords(log, [codec], records), BATCH).run()
        whole_s = time.process_time() - began_s
    assert count == records, (count, records)
    return {name: 1e6 * cpu_s / records for name, cpu_s in
            (("us", whole_s), ("reading", read_s), ("codec", clock.cpu_s))}  # fmt: skip


def _rows(taken: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    rows = {}
    for way, its in taken.items():
        row = {key: round(statistics.median(one[key] for one in its), 3) for key in its[0]}
        pairs = list(zip(its, taken["none"], strict=True))
        row["times"] = round(statistics.median(one["us"] / plain["us"] for one, plain in pairs), 2)
        row["without"] = round(statistics.median((one["us"] - one["codec"]) / plain["us"] for one, plain in pairs), 2)
        rows[way] = row
    return rows


if __name__ == "__main__":
    main()
