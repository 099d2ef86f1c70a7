"""Keyed state: inserts a CPU-second, bytes a key in memory, and bytes of deltas and of the whole, by key and aggregate.

    python deploy/bench/lattices/keyed.py [--rows N] [--batch N] [--keys N ...] [--json]

One ``MapOf`` of each aggregate takes ``--rows`` rows in batches, as a partition's window does. The delta of a batch is
joined with those before it. After every tenth batch the deltas become bytes, are read at a peer, and joined there.
Keys of text are columns of ``Texts``, numbered by the compiled loop. Bytes a key: what tracemalloc counts after the
last batch, without the memory of other languages' libraries. ``own`` are the bytes of a key and of its numbers alone.
Sets have members in place of numbers, the best ones scores and items. Bags and quantiles have members (buckets) and
counts, sketches have hashes. Run it in two checkouts in turn to compare them.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))

import wcrdt
from holon.columnar.payloads import Texts
from nodes.compiled import loading as compiled
from wcrdt import Average, Bag, GCounter, GSet, MapOf, Max, MaxBy, Quantiles, RecordOf, Sum, ThetaSketch, TopK

DELTA_BATCHES = 10
INT_BYTES = 8
ITEMS = 1_000
"""So many different members and items there are; of ``distinct`` a million."""
SKETCH_BITS = 10
"""A sketch keeps ``2**SKETCH_BITS`` hashes of 8 bytes at most."""


def inner_of(name: str) -> tuple[Any, int | None]:
    """The aggregate, and how many numbers a key has; None for as many as its value has."""
    return {
        "count": (GCounter(), 1),
        "sum": (Sum(), 1),
        "sum of floats": (Sum(), 1),
        "max": (Max(), 1),
        "average of floats": (Average(), 2),
        "max by": (MaxBy(), 2),
        "record": (RecordOf(count=GCounter(), top=Max(), sum=Sum()), 3),
        "set": (GSet(), None),
        "set of texts": (GSet(), None),
        "distinct": (getattr(wcrdt, "CountDistinct", GSet)(), None),
        "distinct sketched": (ThetaSketch(SKETCH_BITS), None),
        "bag": (Bag(), None),
        "bag of texts": (Bag(), None),
        "quantiles": (Quantiles(), None),
        "top 10": (TopK(10), None),
        "top 10 texts": (TopK(10), None),
    }[name]


AGGREGATES = (
    "count",
    "sum",
    "sum of floats",
    "max",
    "average of floats",
    "max by",
    "record",
    "set",
    "set of texts",
    "distinct",
    "distinct sketched",
    "bag",
    "bag of texts",
    "quantiles",
    "top 10",
    "top 10 texts",
)


def columns(name: str, kind: str, keys: int, rows: int, batch: int) -> list[tuple[Any, Any]]:
    draw = np.random.default_rng(3)
    names = Texts.of([f"sensor-{number}" for number in range(keys)]) if kind == "text" else None
    items = Texts.of([f"item-{number}" for number in range(ITEMS)]) if name.endswith("texts") else None
    found = []
    for _ in range(max(1, rows // batch)):
        numbers = draw.integers(0, keys, batch)
        prices = draw.integers(1, 50_000, batch)
        part: Any = prices
        if "float" in name:
            part = prices / 100
        elif name == "record":
            part = (np.ones(batch, np.int64), prices, prices)
        elif name == "max by":
            part = (prices, draw.integers(0, 10**6, batch))
        elif name.startswith("distinct"):
            part = draw.integers(0, 10**6, batch)
        elif name in ("set", "set of texts", "bag", "bag of texts", "top 10", "top 10 texts"):
            numbered = draw.integers(0, ITEMS, batch)
            part = numbered if items is None else Texts.of(items.take(numbered).tolist())
            if name.startswith("top"):
                part = (prices, part)
        elif name == "count":
            part = np.ones(batch, np.int64)
        # A batch has a buffer of its own, as one of decoded records has.
        key = numbers if names is None else Texts.of(names.take(numbers).tolist())
        found.append((key, part))
    return found


def measured(name: str, kind: str, keys: int, rows: int, batch: int) -> dict[str, Any]:
    inner, numbers = inner_of(name)
    batches = columns(name, kind, keys, rows, batch)
    state, peer, pending = MapOf(inner), MapOf(inner), MapOf(inner)
    insert_s = delta_s = 0.0
    delta_bytes = deltas = 0
    for number, column in enumerate(batches, 1):
        began_s = time.process_time()
        delta = state.insert_many(column, actor=2)
        insert_s += time.process_time() - began_s
        began_s = time.process_time()
        pending.merge(delta)
        if number % DELTA_BATCHES == 0 or number == len(batches):
            data = msgspec.msgpack.encode(pending.to_wire())
            peer.merge(peer.from_wire(msgspec.msgpack.decode(data)))
            delta_bytes, deltas, pending = delta_bytes + len(data), deltas + 1, MapOf(inner)
        delta_s += time.process_time() - began_s
    assert peer == state
    written = state.copy()
    began_s = time.process_time()
    whole = msgspec.msgpack.encode(written.to_wire())
    whole_s = time.process_time() - began_s
    began_s = time.process_time()
    value = state.value
    value_s = time.process_time() - began_s
    key_bytes = INT_BYTES if kind == "int" else sum(map(len, value)) / len(value)
    count, memory = len(value), memory_of(name, kind, keys, rows, batch)
    taken = len(batches) * batch
    return {
        "aggregate": name, "keys": kind, "distinct": count,
        "inserts_a_cpu_second": round(taken / insert_s), "with_deltas": round(taken / (insert_s + delta_s)),
        "bytes_a_key": round(memory / count, 1), "own": round(key_bytes + own_of(name, numbers, value), 1),
        "delta_bytes_a_row": round(delta_bytes / taken, 2), "whole_bytes_a_key": round(len(whole) / count, 1),
        "whole_ns_a_key": round(whole_s / count * 1e9), "value_ns_a_key": round(value_s / count * 1e9),
    }  # fmt: skip


def own_of(name: str, numbers: int | None, value: dict[Any, Any]) -> float:
    """Bytes of what a key's value is made of."""
    if numbers is not None:
        return INT_BYTES * numbers
    if name == "distinct":  # only how many there are is known
        return INT_BYTES * sum(n if type(n) is int else len(n) for n in value.values()) / len(value)
    if name == "distinct sketched":
        return INT_BYTES * sum(min(n, 1 << SKETCH_BITS) for n in value.values()) / len(value)
    if name == "quantiles":
        return 2 * INT_BYTES * sum(len(each.buckets) for each in value.values()) / len(value)
    if name.startswith("bag"):
        counted = [part for bag in value.values() for pair in bag.items() for part in pair]
        return sum(len(part) if type(part) is str else INT_BYTES for part in counted) / len(value)
    parts = [part for members in value.values() for part in members]
    flat = [part for pair in parts for part in pair] if name.startswith("top") else parts
    return sum(len(part) if type(part) is str else INT_BYTES for part in flat) / len(value)


def memory_of(name: str, kind: str, keys: int, rows: int, batch: int) -> int:
    batches = columns(name, kind, keys, rows, batch)
    gc.collect()
    tracemalloc.start()
    state = MapOf(inner_of(name)[0])
    for column in batches:
        state.insert_many(column, actor=2)
        if isinstance(column[0], Texts):
            column[0]._list = None
    gc.collect()
    found = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(state)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batch", type=int, default=20_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 1_000_000])
    parser.add_argument("--only", nargs="+", default=AGGREGATES, choices=AGGREGATES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    compiled.ensure()
    for keys in options.keys:
        for kind in ("int", "text"):
            for name in options.only:
                row = measured(name, kind, keys, options.rows, options.batch)
                print(json.dumps(row) if options.json else "  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
