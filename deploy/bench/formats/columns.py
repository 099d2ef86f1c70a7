"""The cost of reading Nexmark's records as columns: decoding alone, and a whole topic of Kafka or the embedded log.

    python deploy/bench/formats/columns.py [--bootstrap HOST:PORT] [--events N] [--json]

Events a CPU-second of this process (the broker's is its own), in Python and by the compiled loops, best of a few
runs each in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from deploy.bench.logs.brokers import given_or_started  # noqa: E402
from holon.columnar.encoding import encode_rows  # noqa: E402
from holon.columnar.loops import install, installed  # noqa: E402
from holon.columnar.payloads import BinaryColumn  # noqa: E402
from nexmark.generator import GeneratorConfig, encode_json, generate_slice  # noqa: E402
from nexmark.generator.arrow_columns import ATOM_ROWS, encode_atom  # noqa: E402
from nexmark.loading import Stream, load  # noqa: E402
from nexmark.queries import QUERIES, TOPIC  # noqa: E402
from nexmark.queries.atoms import NexmarkAtoms  # noqa: E402
from nodes.compiled import loading as compiled  # noqa: E402
from nodes.log import Log, TopicPartition, open_log  # noqa: E402

PARTITIONS = 4
BATCH = 20_000
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a broker that runs already")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not compiled.ensure():
        sys.exit("the extra fast is not installed: there is nothing to compare")
    rows = decoding()
    with tempfile.TemporaryDirectory(prefix="columns-bench-") as name:
        folder = Path(name)
        rows |= reading(f"embedded:{folder / 'log'}", options.events)
        rows |= reading_atoms(f"embedded:{folder / 'log'}", options.events)
        with given_or_started(options.bootstrap, folder / "kafka") as bootstrap:
            rows |= reading(f"kafka:{bootstrap}", options.events)
            rows |= reading_atoms(f"kafka:{bootstrap}", options.events)
    rows["load"] = round(os.getloadavg()[0], 1)
    if options.json:
        print(json.dumps(rows))
        return
    for what, value in rows.items():
        print(f"{what:48} {value:>14,}")


def decoding() -> dict[str, float]:
    """A batch in memory to columns, and columns to JSON."""
    records = encode_json(generate_slice(GeneratorConfig(seed=7), 0, BATCH))
    payloads = BinaryColumn.of(records)
    rows: dict[str, float] = {}
    for query in ("q0", "q7max"):
        columns = QUERIES[query].format
        plain, loops = in_turn(lambda columns=columns: columns.decode(records), lambda c=columns: c.decode(payloads))
        rows |= {f"decode {query}, msgspec": plain, f"decode {query}, compiled": loops}
    atom = BinaryColumn.of([encode_atom(generate_slice(GeneratorConfig(seed=7), 0, ATOM_ROWS))] * (BATCH // ATOM_ROWS))
    for query in ("q0", "q7max"):
        atoms = NexmarkAtoms(QUERIES[query].format)
        seconds = min(cpu_s_of(lambda atoms=atoms: atoms.decode(atom)) for _ in range(ROUNDS))
        rows[f"decode {query}, atoms"] = round(len(atom) * ATOM_ROWS / seconds)
    found = QUERIES["q0"].format.decode(payloads).columns
    fields = {name: found[f"bid.{name}"] for name in ("auction", "bidder", "price", "dateTime", "extra")}
    plain, loops = in_turn(lambda: encode_rows(fields, BATCH), lambda: encode_rows(fields, BATCH))
    return rows | {"encode q0, msgspec": plain, "encode q0, compiled": loops}


def cpu_s_of(work: Callable[[], object]) -> float:
    """Processor time."""
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def in_turn(plain: Callable[[], object], by_loops: Callable[[], object]) -> list[float]:
    """Rows a CPU-second of both, the best of some rounds."""
    loops, best = installed(), [float("inf")] * 2
    for _ in range(ROUNDS):
        for number, (have, work) in enumerate(((None, plain), (loops, by_loops))):
            install(have)
            began_s = time.process_time()
            work()
            best[number] = min(best[number], time.process_time() - began_s)
    install(loops)
    return [round(BATCH / seconds) for seconds in best]


def reading(address: str, events: int) -> dict[str, float]:
    """A topic from its start to its end: bytes only, and with the decoding of q7max."""
    prefix = f"columns-{uuid.uuid4().hex[:8]}-"
    loops, rows = installed(), {}
    with open_log(address, prefix=prefix) as log:
        load(log, Stream(TOPIC, events, PARTITIONS, GeneratorConfig(seed=7)))
    for _ in range(3):
        for how in ("plain", "compiled"):
            for decoded in (False, True):
                with open_log(address, prefix=prefix) as log:
                    install(loops if how == "compiled" else None)
                    if how == "compiled":
                        log.use_columns()
                    wall_s, cpu_s = time.monotonic(), time.process_time()
                    for values in chunks(log):
                        if decoded:
                            QUERIES["q7max"].format.decode(values)
                    cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - wall_s
                what = f"{address.split(':')[0]}, read{' and decode q7max' * decoded}, {how}"
                rows[what] = max(rows.get(what, 0), round(events / cpu_s))
                rows[f"{what}, wall"] = max(rows.get(f"{what}, wall", 0), round(events / wall_s))
    install(loops)
    return rows


def reading_atoms(address: str, events: int) -> dict[str, float]:
    """As ``reading`` of atoms, by the compiled loops."""
    prefix = f"atoms-{uuid.uuid4().hex[:8]}-"
    topic, kind, format = f"{TOPIC}-atoms", address.split(":")[0], NexmarkAtoms(QUERIES["q7max"].format)
    rows: dict[str, float] = {}
    with open_log(address, prefix=prefix) as log:
        load(log, Stream(topic, events, PARTITIONS, GeneratorConfig(seed=7), ATOM_ROWS))
    for decoded in (False, True) * 3:
        with open_log(address, prefix=prefix) as log:
            log.use_columns()
            cpu_s = cpu_s_of(
                lambda log=log, decoded=decoded: [decoded and format.decode(v) for v in chunks(log, topic)]
            )
        what = f"{kind}, read{' and decode q7max' * decoded}, atoms"
        rows[what] = max(rows.get(what, 0), round(events / cpu_s))
    return rows


def chunks(log: Log, topic: str = TOPIC) -> Iterator[Sequence[bytes]]:
    """All records of the topic, partition after partition in turn."""
    ends = [log.end_offset(topic, partition) for partition in range(PARTITIONS)]
    at = [0] * PARTITIONS
    while at != ends:
        log.wait({TopicPartition(topic, partition): offset for partition, offset in enumerate(at)}, 1.0)
        for partition in range(PARTITIONS):
            chunk = log.poll(topic, partition, at[partition], max_records=BATCH)
            at[partition] = chunk.next_offset
            if len(chunk):
                yield chunk.values


if __name__ == "__main__":
    main()
