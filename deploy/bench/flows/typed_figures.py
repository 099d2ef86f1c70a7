"""Events of dataclasses, TypedDicts and NamedTuples beside those of Structs: events a CPU-second by ``holon profile``.

    python deploy/bench/flows/typed_figures.py [--before CHECKOUT] [--only NAME] [--rounds 3] [--cpu 1]

Each round is a process on one core. With another checkout the rounds of both go in turn. The table has medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT), str(HERE)]

import typed_events  # noqa: E402

NAMES = [name for name, one in vars(typed_events).items() if isinstance(one, (typed_events.Flow, typed_events.Job))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout to compare with")
    parser.add_argument("--only", action="append", choices=NAMES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu", type=int, default=1)
    options = parser.parse_args()
    checkouts = [ROOT] if options.before is None else [options.before.resolve(), ROOT]
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only or NAMES:
            data = Path(folder, f"{name}.jsonl")
            typed_events.write(data, as_array=name == "flow_of_tuples")
            found: list[list[float]] = [[] for _ in checkouts]
            for _ in range(options.rounds):
                for mine, checkout in zip(found, checkouts, strict=True):
                    mine.append(profiled(checkout, name, data, options.cpu))
            medians = [statistics.median(mine) for mine in found]
            print(f"{name:20}", *(f"{1e6 / us:>11,.0f} {us:>7.3f} us" for us in medians),
                  f"{medians[0] / medians[-1]:>6.2f} times", flush=True)  # fmt: skip


def profiled(checkout: Path, name: str, data: Path, cpu: int) -> float:
    """Microseconds of CPU an event in one process."""
    command = ["-m", "nodes.cli", "profile", f"typed_events:{name}", "--data", str(data), "--seconds", "1", "--json"]
    found = subprocess.run(
        ["taskset", "-c", str(cpu), sys.executable, *command],
        check=True, capture_output=True, text=True, cwd=checkout,
        env={**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{HERE}"},
    )  # fmt: skip
    return float(json.loads(found.stdout)["us_per_event"])


if __name__ == "__main__":
    main()
