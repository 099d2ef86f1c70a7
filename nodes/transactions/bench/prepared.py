"""Requests of a workload on a topic of their own, before they are sent: made by Spark, or by this process.

Partition ``p`` of ``P`` holds requests ``count * p // P`` to ``count * (p + 1) // P``, one a record, as clients write
them. So a task makes its slice alone, and a reader of partition after partition has them in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from nodes.errors import RunFailed
from nodes.log import Log, LogAddress, open_log
from nodes.log.contract import FetchedRecords
from transactional.requests.requests import WireRequest, request_record
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import WorkloadShape

BATCH = 5_000
_decoder = msgspec.json.Decoder(WireRequest)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The first ``count`` requests of a workload, as they are on ``topic``."""

    workload: str
    shape: WorkloadShape
    count: int
    topic: str
    partitions: int = 4

    def slice(self, partition: int) -> tuple[int, int]:
        """Numbers of the requests in a partition, the second one exclusive."""
        return self.count * partition // self.partitions, self.count * (partition + 1) // self.partitions

    def records(self, first: int, stop: int) -> list[bytes]:
        """Requests from one number to another."""
        return [request_record(each) for each in WORKLOADS[self.workload].requests(self.shape, first, stop - first)]


def prepare_partition(log: Log, prepared: Prepared, partition: int) -> int:
    """Append what is missing of a partition; how many records that were. No other process may append to it meanwhile.

    Raises ``RunFailed`` if what is there is not of these requests.
    """
    first, stop = prepared.slice(partition)
    end = log.end_offset(prepared.topic, partition)
    if end > stop - first or (end and _last(log, prepared, partition, end) != prepared.records(first, first + end)[-1]):
        raise RunFailed(f"topic {prepared.topic}, partition {partition} holds other requests: take a new log")
    for begin in range(first + end, stop, BATCH):
        log.append(prepared.topic, partition, prepared.records(begin, min(begin + BATCH, stop)))
    return stop - first - end


def prepare(log: Log, prepared: Prepared) -> int:
    """All partitions, in this process; how many records were appended."""
    log.create_topic(prepared.topic, prepared.partitions)
    return sum(prepare_partition(log, prepared, partition) for partition in range(prepared.partitions))


def prepare_with_spark(address: LogAddress, prepared: Prepared) -> int:
    """As ``prepare``, one Spark task a partition; a task that is run again goes on where the first one stopped."""
    from nodes.spark.session import spark_session

    with open_log(address) as log:
        log.create_topic(prepared.topic, prepared.partitions)

    def run(partition: int) -> int:
        with open_log(address) as log:
            return prepare_partition(log, prepared, partition)

    with spark_session() as spark:
        context = spark.sparkContext
        return sum(context.parallelize(range(prepared.partitions), prepared.partitions).map(run).collect())


def prepared_requests(log: Log, prepared: Prepared) -> list[WireRequest]:
    """The requests on the topic, in the order of the numbers."""
    found: list[WireRequest] = []
    for partition in range(prepared.partitions):
        each_chunk(log, prepared.topic, partition, lambda chunk: found.extend(map(_decoder.decode, chunk.values)))
    return found


def each_chunk(log: Log, topic: str, partition: int, take: Callable[[FetchedRecords], None]) -> None:
    """Hand over all that is in a partition now."""
    offset, end = log.start_offset(topic, partition), log.end_offset(topic, partition)
    while offset < end:
        chunk = log.read(topic, partition, offset)
        take(chunk)
        offset = max(chunk.next_offset, offset + 1)


def _last(log: Log, prepared: Prepared, partition: int, end: int) -> bytes:
    return log.read(prepared.topic, partition, end - 1).values[0]
