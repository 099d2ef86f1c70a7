"""State of transactions: what checkpoints, spilling and compression cost, and what a checkpoint does to the p99.

    .venv/bin/python deploy/bench/transactions/state.py [--keys 1000000] [--rate 2000] [--seconds 20]
        [--only parts|nodes] [--rounds 1] [--bootstrap HOST:PORT]

``parts`` are CPU times within one process, which other work on the machine hardly changes. ``nodes`` runs transfers
between this many accounts on two nodes and the embedded log, with a checkpoint each second and without any, which is
comparable on a quiet machine only. A round takes some 75 s; with ``--bootstrap`` its log is on Kafka. Writes
txn-state.json and txn-state.md.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from deploy.bench.transactions.state_nodes import Steady, nodes
from nexmark.pictures import write_files
from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.transactions.checkpoints.chains import SEGMENT_BYTES, load_file, merge_files, save_file, states
from nodes.transactions.checkpoints.spill import Spills
from nodes.transactions.process import GC_THRESHOLDS, SWITCH_S
from transactional import Operator, Program
from transactional.epochs.appends import AppendCalls
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import Forward, Kind, Request, call_message, to_bytes
from transactional.epochs.pieces import RecordPieces, travelling
from transactional.state.partition import StatePartition
from transactional.state.restored import restored_state
from transactional.state.store import Store

T = TypeVar("T")
CHANGED = 5_000
SPILL_MB = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--bootstrap", help="a Kafka broker, HOST:PORT; else the log is an embedded one")
    parser.add_argument("--only", choices=["parts", "nodes"])
    parser.add_argument("--out", type=Path, default=Path("runs/txn-state"))
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*GC_THRESHOLDS)  # as nodes do
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"keys": options.keys, "load": os.getloadavg()[0]}
    if options.only != "nodes":
        with tempfile.TemporaryDirectory() as folder:
            found |= spilling(options.keys, folder) | checkpoints(options.keys, folder) | compression()
    if options.only != "parts":
        found |= nodes(Steady(options.keys, options.rate, options.seconds, options.rounds, options.bootstrap))
    rows = "".join(f"| {name} | {value:.4g} |\n" for name, value in found.items())
    for path in write_files(options.out, "txn-state", found, f"| figure | value |\n|---|---|\n{rows}"):
        print(path)
    print(rows, end="")


def cpu_ms(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return 1000 * (time.process_time() - began)


def rows(end: int, begin: int = 0) -> dict[tuple[str, str], bytes | None]:
    return {("account", f"account-{number}"): b"%020d" % number for number in range(begin, end)}


def partition_with(store: Callable[[], Any] = Store) -> StatePartition:
    program = Program("state", [Operator("account", partitions=1)])
    return StatePartition(Ledger(program, 1), 0, id_window=20_000, new_store=store)


def checkpoints(keys: int, folder: str) -> dict[str, float]:
    """All of a partition, then a few changes of it, in a chain; merged, and read again."""
    store, partition = ObjectCheckpoints(f"{folder}/checkpoints"), partition_with()
    partition.store.apply(rows(keys))
    found = {"whole snapshot, ms in the loop": cpu_ms(partition.want_snapshot)}
    chain = []
    draw = Random(1)
    for epoch in range(9):
        if epoch:
            picked = [draw.randrange(keys) for _ in range(CHANGED)]
            partition.store.apply({("account", f"account-{number}"): b"%020d" % epoch for number in picked})
            found["snapshot of 5,000 changes, ms in the loop"] = cpu_ms(partition.want_snapshot)
        made = partition.take_snapshot()
        assert made is not None
        kind = "5,000 changes" if epoch else "all"
        data, took_ms, waited_ms = beside(made[1].encoded)
        found |= {
            f"encoding {kind} in a thread, ms": took_ms,
            f"longest wait of the loop meanwhile, {kind}, ms": waited_ms,
        }
        chain.append(save_file(store, "state-txn", 0, (epoch, 0), chain, data))
    sizes = [part.size for part in chain]
    found |= {"bytes of all, MB": sizes[0] / 1e6, "bytes of 5,000 changes, MB": sizes[-1] / 1e6}
    merged: list[Any] = []

    def merge() -> None:
        merged.extend(merge_files(store, "state-txn", 0, chain, whole=True, segment_bytes=SEGMENT_BYTES))

    found["merging all, ms in another process"] = cpu_ms(merge)
    again = partition_with()
    newest = load_file(store, merged[-1].name)[1]
    state, took_ms, waited_ms = beside(partial(restored_state, newest, states(store, merged[:-1]), id_window=1_000))
    found |= {
        "taking over all in a thread, ms": took_ms,
        "longest wait of the loop meanwhile, taking over all, ms": waited_ms,
    }
    again.restore(state)
    assert again.store.copied() == partition.store.copied()
    return found


def beside(work: Callable[[], T]) -> tuple[T, float, float]:
    """Its result in another thread, its CPU time, and the longest pause of this thread meanwhile, ms."""
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(lambda: (began := time.thread_time(), work(), time.thread_time() - began)[1:])
        longest, last = 0.0, time.perf_counter()
        while not taken.done():
            time.sleep(0.0002)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        data, took_s = taken.result()
    return data, 1000 * took_s, 1000 * longest


def spilling(keys: int, folder: str) -> dict[str, float]:
    """State of several times the memory, written and read at random, beside a dict."""
    stores = {f"spilled beyond {SPILL_MB} MB": Spills(folder, SPILL_MB << 20).store(), "in memory": Store()}
    found: dict[str, float] = {}
    for name, store in stores.items():
        draw, before = Random(2), anonymous_mb()

        def load(store: Any = store) -> None:
            for at in range(0, keys, 400):
                store.apply(rows(at + 400, at))
                store.changed = {}

        picked = [("account", f"account-{draw.randrange(keys)}") for _ in range(100_000)]
        found[f"writing, {name}, us a key"] = 1000 * cpu_ms(load) / keys
        found[f"reading at random, {name}, us a key"] = cpu_ms(lambda s=store, p=picked: [s.read(k) for k in p]) / 100
        found[f"memory, {name}, MB more"] = anonymous_mb() - before
    return found


def anonymous_mb(process: int | str = "self") -> float:
    """Memory of a process that is not the system's cache of a file; its peak where the system does not report it."""
    try:
        text = Path(f"/proc/{process}/status").read_text(encoding="ascii")
        return int(text.split("RssAnon:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compression() -> dict[str, float]:
    """The messages of a cut of 100 transfers to a partition, as it is and compressed."""
    calls = [
        Request(Kind.RUN, f"bench-1-{n}", "account", f"{n * 37}", "transfer", b"\x92\xa51234\x05", 0, n, 0)
        for n in range(100)
    ]
    append = AppendCalls(0, to_bytes(Forward(0, 1, list(range(100)), calls)))
    (sent,) = travelling([append], 1024)
    piece = call_message(sent.value)
    repeats = 2_000
    return {
        "bytes of 100 forwarded calls": len(append.value),
        "compressed": len(sent.value),
        "compressing, us": 1000 * cpu_ms(lambda: [travelling([append], 1024) for _ in range(repeats)]) / repeats,
        "unpacking, us": 1000 * cpu_ms(lambda: [RecordPieces().take(piece) for _ in range(repeats)]) / repeats,  # type: ignore[arg-type]
    }


if __name__ == "__main__":
    main()
