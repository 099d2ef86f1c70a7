"""Broker traffic before anything is measured: its virtual machine compiles what it does, and takes cores for that.

The same for all engines and of none: two processes read the filled topic again and again. One requests the sizes of
Kafka's Java clients, one Holon's. Small batches go to a topic beside it and are read there.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import time
from collections.abc import Iterator, MutableSequence
from pathlib import Path

import msgspec

from holon.columnar.payloads import size_of
from nexmark.queries import TOPIC
from nodes.api import Log, LogAddress, RunFailed, open_log, use_columns

SCRATCH = "warm-up"
JAVA = {"fetch.max.bytes": str(50 << 20), "max.partition.fetch.bytes": str(1 << 20), "fetch.min.bytes": "1",
        "holon.reader": "librdkafka"}  # fmt: skip
OWN = {"holon.reader": "direct"}
READERS = (JAVA, OWN)
GRACE_S = 60.0
POLL_INTERVAL_S = 0.2
_SMALL = b"x" * 200
_BATCH_EVERY_S = 0.005
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Warmth(msgspec.Struct):
    """Its outcome. ``compiler_cores``: of the broker's compiler in the first and in the last second, None if that
    cannot be seen (a broker that was there before, or another system than Linux)."""

    seconds: float
    read_mb: float
    compiler_cores: tuple[float, float] | None


def warm_broker(address: LogAddress, partitions: int, seconds: float, broker_pid: int | None = None) -> Warmth:
    """Keep the broker busy for so long. Raises ``RunFailed`` if a reader fails."""
    with open_log(address) as log:
        log.create_topic(SCRATCH, partitions)
    context = multiprocessing.get_context("spawn")
    read = context.Array("d", len(READERS))
    # Java's and ours: all other settings hold for both.
    addresses = [dataclasses.replace(address, kafka={**address.kafka, **more}) for more in READERS]
    processes = [
        context.Process(target=_read, args=(one, seconds, number, read), daemon=True)
        for number, one in enumerate(addresses)
    ]
    began_s, used = time.monotonic(), [(time.monotonic(), compiler_s(broker_pid))]
    for process in processes:
        process.start()
    while any(process.is_alive() for process in processes):
        time.sleep(POLL_INTERVAL_S)
        used.append((time.monotonic(), compiler_s(broker_pid)))
        if used[-1][0] - began_s > seconds + GRACE_S:
            for process in processes:
                process.kill()
    if any(process.exitcode != 0 for process in processes):
        raise RunFailed(
            "the broker could not be warmed up: a reader has failed, see above; --broker-warmup 0 goes without"
        )
    return Warmth(round(used[-1][0] - began_s, 1), round(sum(read[:]) / 1e6, 3), first_and_last(used))


def first_and_last(used: list[tuple[float, float | None]], seconds: float = 1.0) -> tuple[float, float] | None:
    """Cores of about the first and the last second, from times and what had been used then."""
    known = [(at, so_far) for at, so_far in used if so_far is not None]
    if len(known) < 2:
        return None
    (start, none), (end, everything) = known[0], known[-1]
    early = next(one for one in known[1:] if one[0] >= min(start + seconds, end))
    late = next(one for one in reversed(known[:-1]) if one[0] <= max(end - seconds, start))
    pairs = ((early[1] - none, early[0] - start), (everything - late[1], end - late[0]))
    first, last = (round(cpu_s / max(passed_s, 1e-3), 2) for cpu_s, passed_s in pairs)
    return first, last


def compiler_s(pid: int | None) -> float | None:
    """CPU-seconds of the threads in which a Java process compiles."""
    if pid is None:
        return None
    found = None
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        try:
            name, _, rest = (thread / "stat").read_text().rpartition(")")
        except OSError:
            continue  # it has ended meanwhile
        if "CompilerThre" in name:
            fields = rest.split()
            found = (found or 0.0) + (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def _read(address: LogAddress, seconds: float, number: int, read: MutableSequence[float]) -> None:
    """One reader, which also writes: in a process of its own."""
    end_s = time.monotonic() + seconds
    sent_s = 0.0
    while time.monotonic() < end_s:  # a pass over the topic
        with open_log(address) as log:
            use_columns(log)
            partitions = log.partitions(TOPIC)
            positions = {part: log.end_offset(SCRATCH, part) for part in range(partitions)}
            for size in _pass(log, partitions):
                read[number] += size
                now_s = time.monotonic()
                if now_s - sent_s > _BATCH_EVERY_S:
                    sent_s = now_s
                    _small_traffic(log, positions)
                if now_s >= end_s:
                    break
            log.poll_acks(wait=True)


def _pass(log: Log, partitions: int) -> Iterator[int]:
    """Reads the input once, a piece of each partition in turn; gives bytes."""
    places = {part: (log.start_offset(TOPIC, part), log.end_offset(TOPIC, part)) for part in range(partitions)}
    while places:
        for part, (offset, end) in list(places.items()):
            chunk = log.read(TOPIC, part, offset)
            places[part] = chunk.next_offset, end
            if chunk.next_offset >= end:
                del places[part]
            yield size_of(chunk.values)


def _small_traffic(log: Log, positions: dict[int, int]) -> None:
    """A small batch to each partition beside the input, and what has arrived there."""
    for part in positions:
        log.send(SCRATCH, part, [_SMALL])
        positions[part] = log.poll(SCRATCH, part, positions[part]).next_offset
    log.poll_acks()
