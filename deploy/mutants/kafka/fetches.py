"""Bugs in fetches from Kafka: sessions, paused and stalled partitions."""

from __future__ import annotations

from deploy.mutants.model import Mutant

STALLED = ("tests/unit/nodes/log/kafka/test_stalled_partitions.py",)
SESSIONS = ("tests/unit/nodes/log/kafka/direct/test_session.py", "tests/laws/test_fetch_sessions.py")

FETCHES = (
    Mutant(
        "a new session of fetches has the positions of the one before",
        "nodes/log/kafka/direct/fetched/session.py",
        "                place.sent_offset = -1\n",
        "                pass\n",
        tests=SESSIONS,
    ),
    Mutant(
        "a partition that the broker has forgotten is not named again where its position is the same",
        "nodes/log/kafka/direct/fetched/session.py",
        "for where in places.keys() - self.places.keys():",
        "for where in ():",
        tests=SESSIONS,
    ),
    Mutant(
        "a partition that is no longer read stays in the session of fetches",
        "nodes/log/kafka/direct/fetched/session.py",
        "if where not in places]",
        "if where in ()]",
        tests=SESSIONS,
    ),
    Mutant(
        "of a partition that is paused records are requested",
        "nodes/log/kafka/direct/fetch_requests.py",
        "if where not in self._paused}",
        "if where}",
        tests=SESSIONS,
    ),
    Mutant(
        "a partition goes on behind records that were dropped while it was paused",
        "nodes/log/kafka/direct/fetch_requests.py",
        "return place is not None and place.offset == offset",
        "return place is not None",
        tests=SESSIONS,
    ),
    Mutant(
        "behind records that inflate too far the rest of an answer is read",
        "nodes/log/kafka/direct/fetch_requests.py",
        "                if not self._read_batches(place, run.at, run.end, found):\n                    return\n",
        "                self._read_batches(place, run.at, run.end, found)\n",
        tests=("tests/unit/nodes/log/kafka/direct/test_inflate.py",),
    ),
    Mutant(
        "records of a paused partition that were on their way are dropped",
        "nodes/log/kafka/consumer.py",
        "if tail is not None and (tail.attached or tail.paused) else None",
        "if tail is not None and tail.attached else None",
        tests=("tests/unit/nodes/log/kafka/test_consumer.py",),
    ),
    Mutant(
        "one end beyond the position accuses a partition whose records are on their way",
        "nodes/log/kafka/stalled_partitions.py",
        "if one.beyond < ENDS_BEYOND:",
        "if not one.beyond:",
        tests=STALLED,
    ),
    Mutant(
        "a stalled partition is named and not read anew",
        "nodes/log/kafka/consumer.py",
        "                self._reader.restart(self._kafka(tail.where, tail.fetched))\n",
        "                pass\n",
        tests=STALLED,
    ),
    Mutant(
        "a partition that waits for a quota or for others is stalled",
        "nodes/log/kafka/stalled_partitions.py",
        "known.position == tail.fetched and not held:",
        "known.position == tail.fetched:",
        tests=STALLED,
    ),
    Mutant(
        "a pause of the process counts as silence of a partition",
        "nodes/log/kafka/stalled_partitions.py",
        "step_s if step_s < self._longest_s else self._longest_s",
        "step_s if step_s < 1e9 else self._longest_s",
        tests=STALLED,
    ),
    Mutant(
        "a stalled partition is left to the connection that has not helped",
        "nodes/log/kafka/direct/consumer.py",
        "own.fetcher is not None and own.restarted_at != partition.offset:",
        "own.fetcher is not None:",
        tests=("tests/unit/nodes/log/kafka/direct/test_stalled_reads.py",),
    ),
    Mutant(
        "a large answer on a slow line is given up and requested again",
        "nodes/log/kafka/direct/fetch_requests.py",
        "elif self.wire.arrived > self._arrived:",
        "elif False:",
        tests=("tests/unit/nodes/log/kafka/direct/test_fetch_requests.py",),
    ),
    Mutant(
        "a partition of which nothing arrives has no lag",
        "nodes/metrics/counters.py",
        "elif not self._log.stalls.is_behind(topic, partition):",
        "else:",
        tests=STALLED,
    ),
    Mutant(
        "an answer that comes in pieces counts as a slow line, so that a stalled partition is never found",
        "nodes/log/kafka/direct/fetch_requests.py",
        "if now_s - self._arriving_s >= SLOW_S:",
        "if True:",
        tests=("tests/unit/nodes/log/kafka/direct/test_fetch_requests.py",),
    ),
    Mutant(
        "a refused log-in takes the records with it that came at the same time",
        "nodes/log/kafka/consumer.py",
        "                failed = self._noted(one, one.error()) or failed\n                continue\n",
        "                failed = self._noted(one, one.error()) or failed\n                break\n",
        tests=("tests/unit/nodes/log/kafka/test_consumer.py",),
    ),
)
