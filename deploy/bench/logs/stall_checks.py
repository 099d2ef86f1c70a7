"""Cost of noticing stalled partitions of Kafka (``nodes/log/kafka/stalled_partitions.py``).

    python deploy/bench/logs/stall_checks.py [--json]

Microseconds of CPU, medians. A reader calls ``is_due`` each time that it has taken what has arrived. There are four
checks of all partitions without news in ``log.stall_timeout_ms``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from nodes.log.contract import TopicPartition  # noqa: E402
from nodes.log.kafka.columns import Tail  # noqa: E402
from nodes.log.kafka.stalled_partitions import STALL_TIMEOUT_S, StallWatch  # noqa: E402
from nodes.log.kafka.topics import EndsRequest  # noqa: E402

ROUNDS, CALLS = 9, 2_000
PARTITIONS = (14, 100, 1_000)


def no_ends(wheres: Iterable[TopicPartition]) -> EndsRequest:
    """The broker gives none."""
    return EndsRequest({})


def micros(call: Callable[[], object]) -> float:
    """CPU of one call, in µs."""
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(CALLS):
            call()
        found.append((time.process_time() - began) / CALLS * 1e6)
    return statistics.median(found)


def measured() -> dict[str, float]:
    """By what was called."""
    now_s = time.monotonic()
    watch = StallWatch(no_ends, STALL_TIMEOUT_S)
    found = {"is_due": micros(lambda: watch.is_due(now_s))}
    for count in PARTITIONS:
        tails = [Tail(TopicPartition("t", number), 0) for number in range(count)]
        found[f"check of {count} partitions"] = micros(lambda tails=tails: watch.check(now_s, tails, lambda tail: -1.0))
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    arguments = parser.parse_args()
    found = measured()
    if arguments.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:>24} {value:8.2f} µs")


if __name__ == "__main__":
    main()
