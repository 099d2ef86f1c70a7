"""Cost of small answers to fetches: of a node that follows several partitions, of which few have news.

    python deploy/bench/logs/fetch_answers.py [--partitions N] [--rounds N] [--json]

Microseconds of CPU for a turn of the direct reader, without a socket: the answer is parsed and walked, and the next
request is made. Medians. With and without a session (KIP-227); plain and compressed batches of three records.
"""

from __future__ import annotations

import argparse
import json
import statistics
import struct
import sys
import time
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from nodes.compiled.loading import ensure, loops  # noqa: E402
from nodes.log.kafka.direct.connection import Answer, Wire, text  # noqa: E402
from nodes.log.kafka.direct.fetch_requests import Fetcher  # noqa: E402
from nodes.log.kafka.direct.fetched.batch_format import PARTITION  # noqa: E402
from nodes.log.kafka.direct.fetched.positions import FetchPosition  # noqa: E402
from tests.unit.kafka_batches import Row, batch  # noqa: E402
from tests.unit.nodes.log.kafka.direct.test_inflate import compressed  # noqa: E402

TOPIC, TURNS = "job.nexmark.broadcast", 400
CASES = {"no news": (0, ""), "one partition": (1, ""), "three partitions": (3, ""), "three, lz4": (3, "lz4")}


class _Socket(Wire):
    """Gives the same answer each time."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def flush(self) -> None:
        return None

    def send(self, api: int, version: int, *parts: Any) -> int:
        return 1

    def receive(self, room: Any) -> Answer:
        into = room(len(self._answer))[: len(self._answer)]
        into[:] = self._answer
        return Answer(1, into)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not ensure():
        sys.exit("the compiled loops are missing: pip install 'holon-streams[fast]'")
    found = {
        f"{name}, {'session' if session else 'no session'}": measured(
            options.partitions, *case, session, options.rounds
        )
        for name, case in CASES.items()
        for session in (True, False)
    }
    print(json.dumps(found) if options.json else "\n".join(f"{name:32} {us:7.1f} us" for name, us in found.items()))


def measured(partitions: int, with_news: int, codec: str, session: bool, rounds: int) -> float:
    """Microseconds for a turn."""
    records = batch([Row(n, 0, b"x" * 120) for n in range(3)], base=0, last=2)
    records = compressed(records, codec) if codec else records
    parts = []
    for partition in range(with_news if session else partitions):
        data = records if partition < with_news else b""
        parts += [PARTITION.pack(partition, 0, 3, 3, 0, -1), struct.pack(">ii", -1, len(data)), data]
    head = struct.pack(">ihii", 0, 0, int(session), 1) + text(TOPIC) + struct.pack(">i", len(parts) // 3)
    compiled = loops()
    assert compiled is not None
    fetcher = Fetcher(cast("Wire", _Socket(head + b"".join(parts))), compiled, {}, None, 20)
    for partition in range(partitions):
        fetcher.add(FetchPosition((TOPIC, partition), 0 if partition < with_news else 3, epoch=0, behind=False))
    news = list(fetcher.places.values())[:with_news]
    fetcher.take()
    costs = []
    for _ in range(rounds):
        began_s = time.process_time()
        for _ in range(TURNS):
            for place in news:
                place.offset = 0
            fetcher.take()
        costs.append((time.process_time() - began_s) / TURNS * 1e6)
    return statistics.median(costs)


if __name__ == "__main__":
    main()
