"""Workloads: their invariants hold in the plain loop, and each check sees what breaks them."""

from __future__ import annotations

import zlib
from collections import Counter
from copy import copy

import pytest

from nodes.errors import UnknownName
from nodes.transactions.process import load_program
from tests.unit.workload_runs import SerialRun
from transactional import Aborted
from transactional.describing import version_of
from transactional.requests.requests import WireRequest
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import RequestHistory, WorkloadShape
from transactional.workloads.next_version import all_unmarked, is_marked
from transactional.workloads.partitioned import next_reference, with_partitions

REQUESTS = 300
SIZES = {"ycsb-t": 20, "cycle": 10, "append": 5, "travel-busy": 4, "movies": 5, "cart": 5, "tpcc": 2, "tpcc-full": 1}

# A write that no reply tells of.
SECRET = {
    "ycsb-t": WireRequest("x", "account", "a0", "add", [1]),
    "ycsb-a": WireRequest("x", "record", "000000/0000000000", "update", [3, "other"]),
    "ycsb-b": WireRequest("x", "record", "000000/0000000000", "update", [3, "other"]),
    "ycsb-c": WireRequest("x", "record", "000000/0000000000", "update", [3, "other"]),
    "ycsb-d": WireRequest("x", "record", "000000/0000000001", "insert", [["other"]]),
    "ycsb-e": WireRequest("x", "record", "000000/0000000001", "insert", [["other"]]),
    "ycsb-f": WireRequest("x", "record", "000000/0000000000", "modify", [3, "other"]),
    "ycsb-m": WireRequest("x", "record", "000000/0000000000", "update", [3, "other"]),
    "movies": WireRequest("x", "movie_page", "m1", "add", ["nobody", 3]),
    "travel": WireRequest("x", "hotel", "h0", "book_room"),
    "travel-busy": WireRequest("x", "flight", "f3", "book_seat"),
    "cart": WireRequest("x", "goods", "g0", "sell", [1]),
    "cycle": WireRequest("x", "ring", "n0", "point", [0]),
    "append": WireRequest("x", "register", "l0", "append", [7_000_000]),
    "tpcc": WireRequest("x", "customer", "1/1/0001", "pay", [[1, 1], 1]),
    "tpcc-full": WireRequest("x", "oldest_open", "1/1", "deliver_oldest", [1]),
}


def shape_of(name: str, zipf: float = 0.9) -> WorkloadShape:
    return WorkloadShape(SIZES.get(name, 50), zipf, seed=3)


def ran(name: str, count: int = REQUESTS) -> SerialRun:
    run = SerialRun(WORKLOADS[name], shape_of(name))
    run.measure(count)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_invariants_hold_in_series(name: str) -> None:
    run = ran(name)
    assert run.wrong() == []
    kinds = {outcome.kind for outcome in run.history.outcomes.values() if isinstance(outcome, Aborted)}
    assert kinds <= set(run.workload.expected_aborts)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SECRET))
def test_a_write_that_no_reply_tells_of_is_found(name: str) -> None:
    run = ran(name)
    run.run(SECRET[name])
    assert run.wrong()


@pytest.mark.parametrize("name", ["chain", "chain-scattered"])
def test_one_more_in_an_entity_of_a_chain_is_found(name: str) -> None:
    run = SerialRun(WORKLOADS[name], WorkloadShape(5, 0.9, seed=3, depth=4, remote=0.5))
    run.measure(50)
    assert run.wrong() == []
    run.run(WireRequest("x", "link", run.history.requests[7].args[0][2], "take", [[]]))
    assert len(run.wrong()) == 1


def test_the_share_over_partitions_is_that_of_the_shape() -> None:
    (workload,) = (each for each in WORKLOADS.values() if each.name == "chain")
    requests = workload.requests(WorkloadShape(5, 0.0, seed=3, depth=3, remote=0.3), 0, 1_000)
    assert {len(request.args[0]) for request in requests} == {3}
    group = [{key.partition("/")[0] for key in (each.key, *each.args[0])} for each in requests]
    assert 250 < sum(len(each) > 1 for each in group) < 350


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(WORKLOADS) - {"cycle", "ycsb-c", "travel"}))
def test_an_acknowledged_write_that_is_lost_is_found(name: str) -> None:
    run = ran(name, 40)
    before = dict(run.serial.state)
    for request in run.workload.requests(run.shape, 40, 100):
        run.history.requests.append(request)
        run.history.sent[request.id] = run.clock
        run.history.outcomes[request.id] = run.run(request)
        run.history.answered[request.id] = run.clock - 0.5
        if run.serial.state != before and not isinstance(run.history.outcomes[request.id], Aborted):
            break
    else:
        raise AssertionError("no request has changed anything")
    run.serial.state = before
    assert run.wrong()


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_any_slice_of_the_requests_can_be_made_alone(name: str) -> None:
    requests = WORKLOADS[name].requests
    whole = requests(shape_of(name), 0, 120)
    assert requests(shape_of(name), 50, 40) == whole[50:90]
    assert len({request.id for request in whole}) == 120
    assert requests(WorkloadShape(SIZES.get(name, 50), 0.9, seed=4), 0, 120) != whole


def test_an_abort_that_the_rules_do_not_explain_is_a_violation() -> None:
    run = ran("ycsb-t")
    run.history.outcomes[run.history.requests[0].id] = Aborted("KeyError", ("x",))
    assert any("KeyError" in each for each in run.wrong())


def test_a_stale_read_is_found() -> None:
    run = SerialRun(WORKLOADS["ycsb-a"], WorkloadShape(1, 0.0, seed=3))
    run.measure(REQUESTS)
    reads = [r for r in run.history.requests if r.function == "read"]
    assert run.history.outcomes[reads[-1].id][0] > 0
    run.history.outcomes[reads[-1].id] = run.history.outcomes[reads[0].id]
    assert any("was acknowledged" in each for each in run.wrong())


def test_a_million_records_are_loaded_as_state_that_equals_what_inserts_make() -> None:
    workload = WORKLOADS["ycsb-m"]
    run = SerialRun(workload, WorkloadShape(250))
    first = workload.first_state
    assert workload.size == 1_000_000 and first is not None
    assert {key: first.value(key) for key in first.keys(run.shape)} == run.serial.state


def test_ycsb_m_reads_one_record_of_85_requests_of_100_and_updates_one_in_the_others() -> None:
    functions = Counter(each.function for each in WORKLOADS["ycsb-m"].requests(WorkloadShape(100, seed=5), 0, 4_000))
    assert set(functions) == {"read", "update"} and functions["update"] == pytest.approx(600, abs=60)


def test_a_workload_on_other_partitions_is_the_same_code_and_is_found_by_its_name() -> None:
    workload = with_partitions(WORKLOADS["ycsb-t"], 16)
    found = load_program(workload.reference)
    assert workload.program.partitions == found.partitions == found.operators["account"].partitions == 16
    assert WORKLOADS["ycsb-t"].program.operators["account"].partitions == 4, "the workload's own stays as it is"
    assert version_of(found).code == version_of(WORKLOADS["ycsb-t"].program).code


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(WORKLOADS) - {"tpcc"}))  # its program is that of tpcc-full
def test_the_next_version_marks_each_reply_and_does_the_same(name: str) -> None:
    first = SerialRun(WORKLOADS[name], shape_of(name))
    second = copy(first)
    second.history, second.serial = RequestHistory(), copy(first.serial)
    second.serial.program, second.serial.state = load_program(next_reference(first.workload)), dict(first.serial.state)
    first.measure(60)
    second.measure(60)
    assert not any(map(is_marked, first.history.outcomes.values()))
    assert all(is_marked(each) for each in second.history.outcomes.values() if not isinstance(each, Aborted))
    assert all_unmarked(second.history.outcomes) == first.history.outcomes and second.serial.state == first.serial.state
    programs = first.serial.program, second.serial.program
    assert version_of(programs[0]).code != version_of(programs[1]).code
    places = [{name: (each.partitions, each.colocate) for name, each in made.operators.items()} for made in programs]
    assert places[0] == places[1], "an upgrade moves no keys"


def test_the_next_version_of_a_workload_on_other_partitions_is_on_as_many() -> None:
    found = load_program(next_reference(with_partitions(WORKLOADS["ycsb-m"], 16)))
    assert found.partitions == found.operators["record"].partitions == 16


@pytest.mark.parametrize(
    "name", ["ycsb-t", "ycsb-t/0", "ycsb-t/x", "cart/next/0", "cart/next", "ycsb-t/last/16", "no/16", "/16"]
)
def test_a_name_that_means_no_program_is_refused(name: str) -> None:
    with pytest.raises(UnknownName):
        load_program(f"transactional.workloads.partitioned:{name}")


def test_records_of_ycsb_m_are_as_large_as_others_and_compression_leaves_most_of_them() -> None:
    first = WORKLOADS["ycsb-m"].first_state
    assert first is not None
    data = b"".join(first.value(key) for key in first.keys(WorkloadShape(100)))
    assert 100_000 < len(data) < 110_000 and len(zlib.compress(data)) > 70_000
