"""The cost of Nexmark's queries as flows beside the same as processing functions.

    python deploy/bench/flows/queries.py [--queries q0,q5] [--events N] [--pairs N] [--format json|arrow] [--json]

Microseconds of CPU an event of the whole job, without a log and a fleet (as `holon profile` measures). Medians of runs
in turn, and of the ratios to the processing function of the same round. Some flows have none beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from holon.columnar.payloads import BinaryColumn  # noqa: E402
from holon.formats.input_run import Input  # noqa: E402
from nexmark.flows import FLOWS, nexmark_flow  # noqa: E402
from nexmark.generator import GeneratorConfig  # noqa: E402
from nexmark.generator.arrow_columns import ATOM_ROWS  # noqa: E402
from nexmark.loading import Stream  # noqa: E402
from nexmark.queries import QUERIES, TOPIC, nexmark_job  # noqa: E402
from nodes.compiled.loading import ensure  # noqa: E402
from nodes.profiling.profile import profiled  # noqa: E402

BATCH = 5_000
LEAST_S = 0.5


class Generated:
    """The records of a stream, as they are profiled on."""

    partitions: tuple[int, ...] = (1,)

    def __init__(self, stream: Stream) -> None:
        self._values = BinaryColumn.of(stream.encode(0, 0, stream.records_in(0)))

    def runs(self, batch: int) -> Iterator[tuple[int, Input]]:
        """All records, at most ``batch`` at a time."""
        for start in range(0, len(self._values), batch):
            values = self._values[start : start + batch]
            offsets = np.arange(start, start + len(values))
            yield 0, Input(offsets, np.zeros(len(values), np.int64), values, start + len(values))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", default=",".join(FLOWS))
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--format", choices=["json", "arrow"], default="json")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ensure()
    rows = ATOM_ROWS if arguments.format == "arrow" else 0
    records = Generated(Stream(TOPIC, arguments.events, 1, GeneratorConfig(), atom_rows=rows))
    found = []
    for query in arguments.queries.split(","):
        jobs = {"flow": nexmark_flow(query, atoms=rows).job}
        if query in QUERIES:
            jobs["procedural"] = nexmark_job(query, atoms=rows)
        costs: dict[str, list[float]] = {form: [] for form in jobs}
        for _ in range(arguments.pairs):
            for form, job in jobs.items():
                costs[form].append(profiled(job, records, 1 if rows else BATCH, LEAST_S)[0].us_per_event)
        times = [flow / hand for flow, hand in zip(costs["flow"], costs.get("procedural", []), strict=False)]
        row = {f"{form}_us": round(statistics.median(each), 3) for form, each in costs.items()}
        found.append({"query": query, **row, "times": round(statistics.median(times), 2) if times else None})
        if not arguments.json:
            print(" ".join(f"{name} {value}" for name, value in found[-1].items()), flush=True)
    if arguments.json:
        print(json.dumps({"events": arguments.events, "format": arguments.format, "rows": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
