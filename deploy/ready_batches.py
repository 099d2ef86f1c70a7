"""Record batches of Kafka that are made beforehand and only copied when they are sent: producing costs little."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nodes.compiled import loading as compiled
from nodes.log.kafka.direct.connection import Lost, Wire, leaders
from nodes.log.kafka.direct.leaders import addresses
from nodes.log.kafka.direct.produce_requests import PartitionName, send_batches, taken
from nodes.log.kafka.direct.record_batch import BatchWriter, Producer, UnsentRecords
from nodes.log.kafka.record_columns import RecordColumns

RECORDS = 1000
"""Of one partition that go out together: a third of a MB."""
IN_FLIGHT = 4
"""Requests that are not answered yet; more wait."""
_BATCH_BYTES = 1 << 20
_NOBODY = Producer(-1, -1)  # no idempotent one: what is sent twice would be counted, and nothing is sent twice
_WAIT_S = 30.0


class BatchRefused(Exception):
    """The broker does not take a batch, or cannot be reached."""


def prepare(folder: Path, events: int, partitions: int, seed: int = 7) -> int:
    """Make the batches of the generator's first events, in whole rounds, on all cores; how many rounds there are.

    A round is a batch of each partition: event n is record n // P of partition n mod P.
    """
    rounds = events // (RECORDS * partitions)
    if not rounds:
        raise SystemExit(f"not events enough: one batch of each partition has {RECORDS * partitions:,}")
    compiled.ensure()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        pool.starmap(_prepare_one, [(folder, rounds, partitions, part, seed) for part in range(partitions)])
    return rounds


def _prepare_one(folder: Path, rounds: int, partitions: int, partition: int, seed: int) -> None:
    loops = compiled.loops() if compiled.ensure() else None
    if loops is None:
        raise SystemExit("batches are written by compiled loops: pip install 'holon-streams[fast]'")
    writer, config = BatchWriter(loops, _BATCH_BYTES, compressed=False), GeneratorConfig(seed=seed)
    ends, at, span = [0], 0, RECORDS * partitions
    with open(_data(folder, partition), "wb") as file:
        for number in range(rounds):
            values = encode_json(
                generate_slice(config, partition + number * span, partition + (number + 1) * span, partitions)
            )
            pieces = deque([UnsentRecords(RecordColumns(values, None, None), lambda end: None, 0.0)])
            batch = writer.write(pieces, _NOBODY, -1, time.time_ns() // 1_000_000)
            assert batch.count == RECORDS and not pieces, f"{batch.count} of {RECORDS} records fit into a batch"
            at += file.write(batch.data)
            ends.append(at)
    np.save(_index(folder, partition), np.array(ends, np.int64))


@dataclass(frozen=True, slots=True)
class SentStep:
    """The records that one step has sent."""

    rounds: int
    cpu_s: float


class ReadyProducer:
    """Sends rounds to a topic (in the broker's words), all of whose partitions one broker leads. For one thread."""

    def __init__(self, folder: Path, bootstrap: str, name: str, partitions: int) -> None:
        self.partitions, self.next_round = partitions, 0
        self._name = name
        self._files = [open(_data(folder, part), "rb") for part in range(partitions)]  # noqa: SIM115  # closed in close
        self._maps = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in self._files]
        self._views = [memoryview(one) for one in self._maps]
        self._ends = [np.load(_index(folder, part)).tolist() for part in range(partitions)]
        self.rounds = len(self._ends[0]) - 1
        self._wire = _connected(bootstrap, name, partitions)
        self._requests: deque[int] = deque()

    def run(self, rate: float, seconds: float) -> SentStep:
        """Send at this rate (events a second) for so long, or as fast as the broker takes it, or until all is sent."""
        span, first = RECORDS * self.partitions, self.next_round
        began_s, used_s = time.monotonic(), time.thread_time()
        while self.next_round < self.rounds:
            due_s = began_s + (self.next_round - first) * span / rate
            if max(due_s, time.monotonic()) >= began_s + seconds:
                break
            time.sleep(max(0.0, due_s - time.monotonic()))
            self._send(self.next_round)
            self.next_round += 1
        while self._requests:
            self._receive()
        return SentStep(self.next_round - first, time.thread_time() - used_s)

    def close(self) -> None:
        """Let go of files and connection."""
        self._wire.close()
        for view, one, file in zip(self._views, self._maps, self._files, strict=True):
            view.release()
            one.close()
            file.close()

    def _send(self, number: int) -> None:
        if len(self._requests) >= IN_FLIGHT:
            self._receive()
        batches: list[Any] = [
            ((self._name, part), view[ends[number] : ends[number + 1]])
            for part, (view, ends) in enumerate(zip(self._views, self._ends, strict=True))
        ]
        request_number = send_batches(self._wire, batches, int(_WAIT_S * 1000))
        if isinstance(request_number, Lost):
            raise BatchRefused(f"round {number}: {request_number.why}")
        self._requests.append(request_number)

    def _receive(self) -> None:
        number = self._requests.popleft()
        answer = self._wire.receive(lambda size: memoryview(bytearray(size)))
        if answer is None or isinstance(answer, Lost) or answer.number != number:
            raise BatchRefused(f"no answer to request {number}: {answer}")
        found = taken(answer.data)
        if isinstance(found, Lost):
            raise BatchRefused(found.why)
        errors: dict[PartitionName, int] = {
            place: response.error for place, response in found.items() if response.error
        }
        if errors or len(found) != self.partitions:
            raise BatchRefused(f"request {number}: errors of partitions {errors}")


def _connected(bootstrap: str, name: str, partitions: int) -> Wire:
    """A connection to the leader; waits until the topic has one."""
    deadline_s, why = time.monotonic() + _WAIT_S, ""
    while time.monotonic() < deadline_s:
        wire = Wire.connect(*addresses(bootstrap)[0], "ready-batches", _WAIT_S)
        if isinstance(wire, Lost):
            why = wire.why
        else:
            found = leaders(wire, name)
            led = {} if isinstance(found, Lost) else found
            where = {(leader.host, leader.port) for leader in led.values() if leader.error == 0}
            if len(led) == partitions and len(where) == 1 and all(leader.error == 0 for leader in led.values()):
                wire.close()
                wire = Wire.connect(*where.pop(), "ready-batches", _WAIT_S)
                if not isinstance(wire, Lost):
                    return wire
            else:
                wire.close()
            why = f"{len(where)} brokers lead {len(led)} of {partitions} partitions; this needs one"
        time.sleep(0.05)
    raise BatchRefused(f"topic {name}: {why}")


def _data(folder: Path, partition: int) -> Path:
    return folder / f"{partition}.batches"


def _index(folder: Path, partition: int) -> Path:
    return folder / f"{partition}.npy"
