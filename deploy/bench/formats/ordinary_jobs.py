"""One node on ordinary JSON: global and keyed aggregates, by columns and record by record, on the embedded log.

    python deploy/bench/formats/ordinary_jobs.py [--records N] [--rounds N] [--job NAME] [--json]

Records of 130 bytes: a text key of 1,000, a float, an epoch time, a text that is not ASCII, an optional field, a nested
object. Windows of 10 s of event time. Events a CPU-second of the node's process after its imports, medians. Run it in
two checkouts in turn to compare these.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from deploy.bench.ordinary.sensors import Reading, records as readings  # noqa: E402, I001
from holon import WCRDT, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Tumbling, on_window  # noqa: E402
from holon import Window  # noqa: E402
from nodes.checkpoints.opening import open_checkpoints  # noqa: E402
from nodes.compiled import loading as compiled  # noqa: E402
from nodes.runtime.log_opening import open_job_log  # noqa: E402
from nodes.settings.settings import load_settings  # noqa: E402
from nodes.streams.jobs import declare_end, open_job  # noqa: E402
from nodes.streams.process import NodeProcess, node_config  # noqa: E402
from wcrdt import GCounter, MapOf, Max, Min  # noqa: E402

PARTITIONS, WINDOW_MS, CHUNK = 4, 10_000, 20_000


class Global(ProcessingFunction[Reading]):
    count, top = WCRDT(GCounter(), Tumbling(WINDOW_MS)), WCRDT(Max(), Tumbling(WINDOW_MS))

    def process_batch(self, batch: Batch[Reading], ctx: Context) -> None:
        self.count.insert_many(batch.ts_ms * 0 + 1, batch.ts_ms)
        self.top.insert_many(batch["value"], batch.ts_ms)

    @on_window(count, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit([window.start_ms, await self.count.window_value(window), await self.top.window_value(window)])


class Keyed(ProcessingFunction[Reading]):
    count = WCRDT(MapOf(GCounter()), Tumbling(WINDOW_MS))
    top = WCRDT(MapOf(Max()), Tumbling(WINDOW_MS))
    least = WCRDT(MapOf(Min()), Tumbling(WINDOW_MS))

    def process_batch(self, batch: Batch[Reading], ctx: Context) -> None:
        for state, column in (
            (self.count, batch.ts_ms * 0 + 1),
            (self.top, batch["value"]),
            (self.least, batch["value"]),
        ):
            state.insert_many((batch["sensor"], column), batch.ts_ms)

    @on_window(count, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        values = [await state.window_value(window) for state in (self.count, self.top, self.least)]
        ctx.emit([window.start_ms, *map(len, values)])


class GlobalByRecord(Global):
    def process(self, event: Reading, ctx: Context) -> None:
        self.count.insert(1, event.ts)
        self.top.insert(event.value, event.ts)

    process_batch = None  # type: ignore[assignment]


class AsyncByRecord(GlobalByRecord):
    async def process(self, event: Reading, ctx: Context) -> None:  # type: ignore[override]
        self.count.insert(1, event.ts)
        self.top.insert(event.value, event.ts)


class KeyedByRecord(ProcessingFunction[Reading]):
    count = WCRDT(MapOf(GCounter()), Tumbling(WINDOW_MS))
    top = WCRDT(MapOf(Max()), Tumbling(WINDOW_MS))

    def process(self, event: Reading, ctx: Context) -> None:
        self.count.insert((event.sensor, 1), event.ts)
        self.top.insert((event.sensor, event.value), event.ts)

    @on_window(count, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        values = [await state.window_value(window) for state in (self.count, self.top)]
        ctx.emit([window.start_ms, *map(len, values)])


JOBS: dict[str, tuple[Any, Any]] = {
    "global": (Global, JsonColumns(Reading)),
    "keyed": (Keyed, JsonColumns(Reading)),
    "global by record": (GlobalByRecord, Json(Reading)),
    "global by record, dead-letter": (GlobalByRecord, Json(Reading)),
    "global by record, async": (AsyncByRecord, Json(Reading)),
    "keyed by record": (KeyedByRecord, Json(Reading)),
    "keyed by record, dead-letter": (KeyedByRecord, Json(Reading)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--job", action="append", choices=list(JOBS), help="these alone")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=2, metavar=("JOB", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(node(*options.child)))
        return
    with tempfile.TemporaryDirectory(prefix="ordinary-jobs-") as name:
        fill(name, options.records)
        compiled.ensure()
        rows = [measured(job, name, options) for job in options.job or JOBS]
    for row in rows:
        print(json.dumps(row) if options.json else "  ".join(f"{key} {value}" for key, value in row.items()))


def fill(folder: str, records: int) -> None:
    drawn = readings(random.Random(1))
    with open_job_log(load_settings(definitions=[f"log.path={folder}/log"], environ={})) as log:
        log.create_topic("readings", PARTITIONS)
        for first in range(0, records, CHUNK):
            values = list(islice(drawn, min(CHUNK, records - first)))
            log.append("readings", first // CHUNK % PARTITIONS, values)


def measured(job: str, folder: str, options: Any) -> dict[str, Any]:
    """Each round in a process and with topics of its own."""
    found = []
    for _ in range(options.rounds):
        command = [sys.executable, __file__, "--child", job, folder]
        found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    rates = [options.records / one["cpu_s"] for one in found]
    return {"job": job, "records": options.records, "events_a_cpu_second": round(statistics.median(rates)),
            "from": round(min(rates)), "to": round(max(rates)), "load": round(os.getloadavg()[0], 1)}  # fmt: skip


def node(name: str, folder: str) -> dict[str, float]:
    """Process all with one node."""
    own = f"{name.replace(',', '').replace(' ', '-')}-{os.getpid()}"
    settings = load_settings(
        definitions=[f"log.path={folder}/log", f"checkpoints.url={folder}/saved-{own}"], environ={}
    )
    function, form = JOBS[name]
    at = "ts" if isinstance(form, JsonColumns) else (lambda event: event.ts)
    policy = "dead-letter" if name.endswith("dead-letter") else "fail"
    job = Job(own, Source("readings", form, timestamp=at), function, output=f"{own}-out", on_error=policy)
    with open_job_log(settings) as log:
        opened = open_job(log, job)
        declare_end(log, opened)
        process = NodeProcess(opened, log, open_checkpoints(settings), node_config(settings, 0, 1), settings)
        before, began_s = _used_s(), time.monotonic()
        process.loop()
        return {"cpu_s": _used_s() - before, "wall_s": time.monotonic() - began_s}


def _used_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
