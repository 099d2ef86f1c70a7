"""CPU and bytes of checkpoints of keyed state of which a share changes between two of them: whole ones, and parts.

    python deploy/bench/lattices/checkpoints.py [--keys N] [--share F] [--deltas N] [--checkpoints N] [--only NAME]

One partition has ``--keys`` keys in one window. Between two checkpoints ``--share`` of them get an insert, in
``--deltas`` batches, after each of which a delta leaves. A checkpoint is snapshot, bytes, and a file in a folder, with
all copies; ``collect_ms`` is what the deltas cost more for the parts. ``times`` is the CPU of parts, with that, by that
of whole ones; the mean of parts has the whole ones that are due among them. ``restore_ms``: to read and join the files
of the last one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling
from holon.columnar.payloads import Texts
from holon.testing import JobTestDriver
from holon.tracks.parts import snapshot_of
from nodes.checkpoints.file_names import CheckpointKey
from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.compiled import loading as compiled
from nodes.machine.checkpoints.parts import CheckpointParts
from nodes.machine.config import PartsConfig
from nodes.streams.io.partition_checkpoints import load_with_parts
from wcrdt import GCounter, GSet, MapOf, Sum, Window

WINDOW = Window(0, 10**9)
AGGREGATES = {"count": GCounter(), "sum": Sum(), "set": GSet()}
WHOLE_ALONE = PartsConfig(above_bytes=1 << 60)


class Partition:
    """One partition, with its inserts, deltas and checkpoints, and the CPU of each."""

    def __init__(self, name: str, kind: str, options: argparse.Namespace, config: PartsConfig, folder: Path) -> None:
        class Keyed(ProcessingFunction[dict[str, Any]]):
            state = WCRDT(MapOf(AGGREGATES[name]), Tumbling(WINDOW.end_ms))

            def process(self, event: dict[str, Any], ctx: Context) -> None:
                pass

        source: Source[dict[str, Any]] = Source("in", Json(dict[str, Any]), timestamp=lambda event: event["ts"])
        self.driver = JobTestDriver(Job("keyed", source, Keyed, output="out"))
        (self.task,) = self.driver.tasks
        self.options = options
        self.draw = np.random.default_rng(7)
        self.names = Texts.of([f"sensor-{number}" for number in range(options.keys)]) if kind == "text" else None
        self.parts = CheckpointParts(config)
        self.store = ObjectCheckpoints(folder)
        self.name = ""
        self.insert(np.arange(options.keys))
        self.task.take_delta()

    def insert(self, keys: Any) -> None:
        column = keys if self.names is None else Texts.of(self.names.take(keys).tolist())
        track = self.task.scope.record
        track.insert_many("state", WINDOW, (column, self.draw.integers(1, 50_000, len(keys))), 2)
        track.position = (track.position[0] + len(keys), 0)

    def deltas(self) -> float:
        """Work between two checkpoints; the CPU of its deltas (s)."""
        changed = self.draw.choice(self.options.keys, int(self.options.keys * self.options.share), replace=False)
        spent_s = 0.0
        for keys in np.array_split(changed, self.options.deltas):
            self.insert(keys)
            began_s = time.process_time()
            self.task.take_delta()
            spent_s += time.process_time() - began_s
        return spent_s

    def checkpoint(self) -> tuple[float, int]:
        """Its CPU (s) and bytes, of all copies."""
        began_s = time.process_time()
        begun = self.parts.begin(self.task)
        data = self.parts.encoded(begun, begun.snapshot)
        key = CheckpointKey("keyed", 0, 0, begun.snapshot.record.slot.to, begun.snapshot.window.position)
        self.name = self.store.save(key, data, begun.copies)
        self.parts.stored(begun, self.name, self.task)
        spent_s = time.process_time() - began_s
        self.store.prune("keyed", 0, 0, [self.name], begun.rests_on)
        return spent_s, len(data) * begun.copies

    def restored_s(self) -> float:
        fresh = self.driver.new_task(0, 1)
        began_s = time.process_time()
        fresh.restore(snapshot_of(*load_with_parts(self.store, "keyed", self.name)))
        spent_s = time.process_time() - began_s
        assert fresh.snapshot().to_bytes() == self.task.snapshot().to_bytes()
        return spent_s


def measured(name: str, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, tuple[float, float, float, float]] = {}
    for mode, config, count in (("whole", WHOLE_ALONE, 10), ("parts", PartsConfig(), options.checkpoints)):
        with tempfile.TemporaryDirectory() as folder:
            partition = Partition(name, kind, options, config, Path(folder))
            for _ in range(2):  # the second one of a large state is what parts rest on
                partition.checkpoint()
                partition.deltas()
            rows = [(partition.deltas(), *partition.checkpoint()) for _ in range(count)]
            delta_s, spent_s, size = (mean(column) for column in zip(*rows, strict=True))
            found[mode] = delta_s, spent_s, size, partition.restored_s()
    whole, parts = found["whole"], found["parts"]
    collect_s = parts[0] - whole[0]
    return {
        "aggregate": name, "keys": kind, "whole_ms": round(whole[1] * 1e3, 1), "parts_ms": round(parts[1] * 1e3, 2),
        "collect_ms": round(collect_s * 1e3, 2), "times": round((parts[1] + max(0.0, collect_s)) / whole[1], 3),
        "whole_mb": round(whole[2] / 1e6, 2), "parts_mb": round(parts[2] / 1e6, 2),
        "restore_ms": [round(whole[3] * 1e3), round(parts[3] * 1e3)],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--deltas", type=int, default=20)
    parser.add_argument("--checkpoints", type=int, default=128)
    parser.add_argument("--only", nargs="+", default=list(AGGREGATES), choices=list(AGGREGATES))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    compiled.ensure()
    for kind in ("int", "text"):
        for name in options.only:
            row = measured(name, kind, options)
            print(json.dumps(row) if options.json else "  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
