"""Fill a run's input topic: all at once (Spark or plain), at a rate, or with records that are not as they should be."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from nexmark.generator import GeneratorConfig
from nexmark.loading import BATCH_RECORDS, Stream, load_partition
from nexmark.model import BASE_TIME_MS
from nexmark.queries import TOPIC
from nexmark.runs.plan import RunPlan, RecordFormat
from nexmark.times import format_time_ms
from nodes.api import Log, LogAddress, MissingDependency

PACE_S = 0.01
SPARK_FROM_EVENTS = 200_000
"""From here on Spark's start (some seconds) is worth it where no option names the generator."""


def stream_of(plan: RunPlan) -> Stream:
    """The generated events of a run."""
    return Stream(TOPIC, plan.events, plan.partitions, GeneratorConfig(seed=plan.seed), atom_rows_of(plan.format))


def atom_rows_of(format: RecordFormat) -> int:
    """``Stream.atom_rows``; raises ``MissingDependency`` where atoms cannot be made."""
    if format == "json":
        return 0
    try:
        from nexmark.generator.arrow_columns import ATOM_ROWS
    except ImportError as error:
        raise MissingDependency(f"--format arrow needs pyarrow: pip install 'holon-streams[arrow]' ({error})") from error
    return ATOM_ROWS


def uses_spark(plan: RunPlan, problem_of_spark: Callable[[], str | None], report: Callable[[str], None]) -> bool:
    """Which generator a run takes; reports why where Spark would have been the choice but is not there."""
    if plan.rate is not None or plan.dirty or plan.generator == "plain":
        return False
    if plan.generator == "auto" and plan.events < SPARK_FROM_EVENTS and plan.validator not in ("spark", "auto"):
        return False
    problem = problem_of_spark()
    if problem is None:
        return True
    if plan.generator == "spark":
        raise MissingDependency(problem)
    report(f"no Spark here, going on with the plain generator: {problem}")
    return False


def fill(log: Log, address: LogAddress, plan: RunPlan, *, spark: bool, progress: Callable[[int], None]) -> None:
    """Append all events before the run; ``progress`` gets how many records are there."""
    stream = stream_of(plan)
    log.create_topic(stream.topic, stream.partitions)
    if spark:
        from nexmark.spark.loader import load_with_spark

        load_with_spark(address, stream)
        progress(plan.events)
        return
    for partition in range(stream.partitions):
        if plan.dirty:
            _load_dirty(log, stream, partition, plan.dirty)
        else:
            load_partition(log, stream, partition)
        progress(sum(stream.events_in(p) for p in range(partition + 1)))


def _load_dirty(log: Log, stream: Stream, partition: int, dirty: int) -> None:
    """The partition's events with bad ones among them: evenly spread over its second half."""
    wanted = stream.records_in(partition)
    bad = list(_bad_atoms(dirty) if stream.atom_rows else _bad_records(dirty))
    first = wanted // 2
    step = max(1, (wanted - first) // (len(bad) + 1))
    offset = 0
    for count, payload in enumerate(bad, start=1):
        upto = min(first + count * step, wanted)
        _append(log, stream, partition, offset, upto)
        log.append(stream.topic, partition, [payload])
        offset = upto
    _append(log, stream, partition, offset, wanted)


def _append(log: Log, stream: Stream, partition: int, offset: int, upto: int) -> None:
    step = max(1, BATCH_RECORDS // (stream.atom_rows or 1))
    for start in range(offset, upto, step):
        stop = min(start + step, upto)
        log.append(stream.topic, partition, stream.encode(partition, start, stop))


def _bad_records(each: int) -> Iterator[bytes]:
    """Corrupt, late and future bids in turn."""
    corrupt = (
        b'{"event_type":2,"person":null,"auction":null,"bid":{"auction":1,',
        b"\xff\xfe not json",
        b"",
        b'{"event_type":9,"person":null,"auction":null,"bid":null}',
        b'{"event_type":2,"person":null,"auction":null,"bid":{"auction":"1","bidder":2,"price":3}}',
    )
    for number in range(each):
        yield corrupt[number % len(corrupt)]
        yield _bid(BASE_TIME_MS - 3_600_000)
        yield _bid(FUTURE_MS)


def _bad_atoms(each: int) -> Iterator[bytes]:
    """As ``_bad_records``: what is no atom, late and future bids."""
    from nexmark.generator import generate_slice
    from nexmark.generator.arrow_columns import encode_atom

    whole = encode_atom(generate_slice(GeneratorConfig(), 0, 50))
    corrupt = (whole[: len(whole) // 2], b"\xff\xfe no atom", b"", bytes(8) + whole[8:], next(_bad_records(1)))
    late, future = (
        encode_atom(generate_slice(GeneratorConfig(base_time_ms=base_ms), BID_NUMBER, BID_NUMBER + 1))
        for base_ms in (BASE_TIME_MS - 3_600_000, FUTURE_MS)
    )
    for number in range(each):
        yield from (corrupt[number % len(corrupt)], late, future)


BID_NUMBER = 4
"""The first bid: of 50 events the first is a person, the next three are auctions."""
FUTURE_MS = 4_070_908_800_000
"""2099-01-01: far ahead of any log timestamp."""


def _bid(time_ms: int) -> bytes:
    return (
        b'{"event_type":2,"person":null,"auction":null,"bid":{"auction":1000,"bidder":2000,"price":99999999999,'
        b'"channel":"x","url":"y","dateTime":"%b","extra":"z"}}' % format_time_ms(time_ms).encode()
    )


class PacedFeed:
    """A thread that appends the run's events at their rate; ``stop`` ends it early."""

    def __init__(self, log: Log, plan: RunPlan) -> None:
        assert plan.rate is not None
        self.log = log
        self.stream = stream_of(plan)
        self.rate = plan.rate
        self.started_s = 0.0
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(1, "nexmark-feed")
        self._work: Future[None] | None = None

    def start(self) -> None:
        self.started_s = time.monotonic()
        self._work = self._pool.submit(self._run)

    def check(self) -> None:
        """Raises what the thread ran into, if it did."""
        if self._work is not None and self._work.done():
            self._work.result()

    def stop(self) -> None:
        """Ends within a moment; raises what the thread ran into."""
        self._over.set()
        self._pool.shutdown()
        self.check()

    def _run(self) -> None:
        stream = self.stream
        sent = [0] * stream.partitions
        total = 0
        while total < stream.events and not self._over.wait(PACE_S):
            due = min(stream.events, int((time.monotonic() - self.started_s) * self.rate))
            for partition in range(stream.partitions):
                upto = len(range(partition, due, stream.partitions))
                while sent[partition] < upto:
                    stop = min(upto, sent[partition] + BATCH_RECORDS)
                    self.log.append(stream.topic, partition, stream.encode(partition, sent[partition], stop))
                    sent[partition] = stop
            total = sum(sent)
