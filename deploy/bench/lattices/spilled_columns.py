"""Counts and sums of many int64 keys, inserted in batches of random keys: in memory, in mapped files, as rows of LMDB.

    .venv/bin/python -m deploy.bench.lattices.spilled_columns [--keys 2000000] [--batches 300] [--rows 20000]

Each way runs in a process of its own, and first inserts each key once. ``us``: CPU microseconds an element of the
batches behind that; ``anonymous_mb``: memory that only swap could take, above that of the start; ``files_mb``: what the
state has on the disk. LMDB is never synced, and reads and writes all rows of a batch by one call each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np

from nodes.streams.mapped_columns import MappedColumns
from wcrdt import ColumnsOf, GCounter, RecordOf, Sum
from wcrdt.column_memory import install_column_memory

WAYS = ("memory", "files", "lmdb")
Insert = Callable[[Any, Any], None]


def anonymous_mb() -> float:
    """Memory of this process that no file stands behind."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1e3
    raise OSError("no RssAnon in /proc/self/status")


def of_columns() -> tuple[Insert, Callable[[], tuple[int, int]]]:
    """A map, and what it has come to."""
    state = ColumnsOf(RecordOf(count=GCounter(), sum=Sum()))

    def insert(keys: Any, amounts: Any) -> None:
        state.insert_many((keys, (np.ones(len(keys), np.int64), amounts)))

    def totals() -> tuple[int, int]:
        _, values = state.value.columns()
        return int(values["count"].sum()), int(values["sum"].sum())

    return insert, totals


def of_lmdb(folder: str) -> tuple[Insert, Callable[[], tuple[int, int]]]:
    """The same as rows: eight bytes of the key, eight each of count and sum."""
    env = lmdb.open(folder, map_size=1 << 38, sync=False, metasync=False, lock=False, readahead=False, meminit=False)

    def insert(keys: Any, amounts: Any) -> None:
        names, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
        sums = np.bincount(places, amounts).astype(np.int64)
        packed = names.astype(">i8").tobytes()
        wanted = [packed[at : at + 8] for at in range(0, len(packed), 8)]
        with env.begin(write=True) as transaction, transaction.cursor() as cursor:
            known = dict(cursor.getmulti(wanted))
            if known:
                before = np.frombuffer(b"".join([known.get(name, bytes(16)) for name in wanted]), np.int64)
                counts, sums = counts + before[::2], sums + before[1::2]
            rows = np.stack([counts, sums], axis=1).astype(np.int64).tobytes()
            cursor.putmulti([(name, rows[16 * row : 16 * row + 16]) for row, name in enumerate(wanted)])

    def totals() -> tuple[int, int]:
        with env.begin() as transaction, transaction.cursor() as cursor:
            values = np.frombuffer(b"".join([bytes(value) for _, value in cursor]), np.int64)
        return int(values[::2].sum()), int(values[1::2].sum())

    return insert, totals


def measured(way: str, options: argparse.Namespace) -> dict[str, Any]:
    """One way, in this process."""
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        files = MappedColumns(folder, 1 << 20, print) if way == "files" else None
        install_column_memory(files)
        start_mb = anonymous_mb()
        insert, totals = of_lmdb(folder) if way == "lmdb" else of_columns()
        draw = np.random.default_rng(1)
        names = draw.permutation(options.keys) * 1_000_003
        for first in range(0, options.keys, options.rows):
            batch = names[first : first + options.rows]
            insert(batch, np.ones(len(batch), np.int64))
        used = 0.0
        for _ in range(options.batches):
            batch = names[draw.integers(0, options.keys, options.rows)]
            amounts = draw.integers(0, 1000, options.rows)
            began = time.process_time()
            insert(batch, amounts)
            used += time.process_time() - began
        grown_mb = anonymous_mb() - start_mb
        in_files = files.sizes()[1] if files is not None else 0
        if way == "lmdb":
            in_files = Path(folder, "data.mdb").stat().st_blocks * 512
        count, total = totals()
        assert count == options.keys + options.batches * options.rows, count
    return {
        "way": way, "keys": options.keys, "us": round(1e6 * used / options.batches / options.rows, 3),
        "anonymous_mb": round(grown_mb, 1), "files_mb": round(in_files / 1e6, 1), "sum": total,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", default=None, help="where files are written")
    parser.add_argument("--way", choices=WAYS, default=None, help="in this process; else each way in turn, in others")
    options = parser.parse_args()
    if options.way is not None:
        print(json.dumps(measured(options.way, options)))
        return
    sums = set[int]()
    for _ in range(options.rounds):
        for way in WAYS:
            done = subprocess.run(
                [sys.executable, "-m", "deploy.bench.lattices.spilled_columns", *sys.argv[1:], "--way", way],
                check=True,
                capture_output=True,
                text=True,
            )
            found = json.loads(done.stdout)
            sums.add(found["sum"])
            print(json.dumps(found), flush=True)
    assert len(sums) == 1, f"the ways differ: {sums}"


if __name__ == "__main__":
    main()
