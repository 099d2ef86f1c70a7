"""Parts of `holon txn bench`: requests that were prepared on a topic, and figures from the log."""

from __future__ import annotations

import pytest

from nodes.errors import RunFailed
from nodes.log.memory import MemoryLog
from nodes.transactions.bench.figures import Replied, log_latencies_ms, spread
from nodes.transactions.bench.fleet import BenchFleet
from nodes.transactions.bench.prepared import Prepared, prepare, prepare_partition, prepared_requests
from nodes.transactions.topics import create_topics
from transactional.epochs.messages import Replies, Reply, to_bytes
from transactional.requests.requests import WireRequest, request_record
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import WorkloadShape
from transactional.workloads.ycsb_t import program

SHAPE = WorkloadShape(4, 0.9, seed=3)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_prepared_requests_are_those_of_the_workload(name: str) -> None:
    log, prepared = MemoryLog(), Prepared(name, SHAPE, 101, "prepared", 3)
    assert prepare(log, prepared) == 101
    assert [log.end_offset("prepared", partition) for partition in range(3)] == [33, 34, 34]
    assert prepared_requests(log, prepared) == WORKLOADS[name].requests(SHAPE, 0, 101)


def test_preparing_goes_on_where_it_stopped() -> None:
    log, prepared = MemoryLog(), Prepared("ycsb-t", SHAPE, 40, "prepared", 2)
    log.create_topic("prepared", 2)
    log.append("prepared", 1, prepared.records(20, 27))
    assert prepare_partition(log, prepared, 1) == 13
    assert prepare(log, prepared) == 20
    assert prepared_requests(log, prepared) == WORKLOADS["ycsb-t"].requests(SHAPE, 0, 40)


@pytest.mark.parametrize(
    "other", [Prepared("ycsb-t", SHAPE, 30, "prepared", 2), Prepared("ycsb-t", WorkloadShape(9), 40, "prepared", 2)]
)
def test_other_requests_on_the_topic_are_refused(other: Prepared) -> None:
    log = MemoryLog()
    prepare(log, Prepared("ycsb-t", SHAPE, 40, "prepared", 2))
    with pytest.raises(RunFailed, match="partition 0 holds other requests"):
        prepare(log, other)


def replied(epoch: int, first: int, *names: str) -> bytes:
    return to_bytes(Replies(epoch, first, [Reply(name, 0, 0, 0, 0, b"\xc0", None) for name in names]))


def test_latency_by_the_log_is_from_the_request_to_its_first_reply() -> None:
    now_ms = [1_000]
    log = MemoryLog(clock_ms=lambda: now_ms[0])
    topics = create_topics(log, program, 2)
    one, two, three = (WireRequest(name, "account", "a0", "read") for name in ("one", "two", "three"))
    log.append(topics.requests, 0, [request_record(one)])
    now_ms[0] = 1_003
    log.append(topics.requests, 1, [request_record([two, three])])
    now_ms[0] = 1_010
    log.append(topics.replies, 0, [replied(2, 0, "one", "three")])
    now_ms[0] = 1_020
    log.append(topics.replies, 0, [replied(2, 1, "three"), b"garbage", replied(3, 0, "two")])
    found = Replied(log, program)
    assert found.repeats == 1 and found.epochs == {"one": 2, "three": 2, "two": 3}
    assert sorted(log_latencies_ms(log, program, found, [one, two, three])) == [7.0, 10.0, 17.0]
    assert log_latencies_ms(log, program, found, [two]) == [17.0]


def test_spread_takes_the_nearest_rank() -> None:
    assert spread(list(range(100, 0, -1))) == {"avg": 50.5, "p50": 50, "p90": 90, "p99": 99, "max": 100}
    assert spread([7.0]) == {"avg": 7.0, "p50": 7.0, "p90": 7.0, "p99": 7.0, "max": 7.0}


def test_each_change_of_the_fleet_has_the_longest_time_without_a_reply_until_the_next_one() -> None:
    fleet = BenchFleet(())
    fleet.changed = [("add-node", 2, 10.0), ("remove-node", 0, 12.0)]
    answered = [9.0, 10.5, 10.6, 11.75, 12.25, 13.0, 15.0]
    first, second = fleet.silences(answered)
    assert first == {"change": "add-node", "node": 2, "longest_silence_ms": pytest.approx(1150)}
    assert second == {"change": "remove-node", "node": 0, "longest_silence_ms": pytest.approx(2000)}
