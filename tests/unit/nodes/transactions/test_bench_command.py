"""`holon txn bench` where Spark cannot run or does not know the workload, and what the scripts on top of it count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from deploy.bench.transactions.curves import added, points
from deploy.transaction_caching import messages
from deploy.transaction_costs import PASSED_OVER, STAGES, count_in, stage_of
from nodes.cli.main import run
from nodes.cli.txn import bench as txn_bench_command
from tests.integration.txn_replay import records
from tests.tidy.source import ROOT
from tests.unit.txn_stage import SEQUENCERS, Stage
from transactional.epochs.appends import AppendCalls
from transactional.epochs.messages import Calls, WireCall, WireResult, reply_message, to_bytes
from transactional.epochs.pieces import travelling
from transactional.workloads import cycle
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import WorkloadShape

NO_JAVA = "Spark needs Java 17 or newer, and there is none"


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("nodes.spark.session.spark_problem", lambda: NO_JAVA)
    txn_bench_command.problem_of_spark.cache_clear()
    yield
    txn_bench_command.problem_of_spark.cache_clear()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["ycsb-t", "--validate", "spark"], 3, NO_JAVA),
        (["cycle", "--generator", "spark"], 3, NO_JAVA),
        (["cycle", "--validate", "spark"], 2, "Spark judges ycsb-t, tpcc, tpcc-full, not cycle"),
        (["cycles"], 2, "cycle"),
    ],
)
def test_spark_by_name_is_demanded(
    options: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["txn", "bench", *options, "--transactions", "1"]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["ycsbt", "--transactions", "5"], "nearest: ycsb-t"),
        (["ycsb-t"], "give --transactions N for one burst, or --rate R and --seconds S"),
        (["ycsb-t", "--rate", "5"], "give --transactions N"),
        (["ycsb-t", "--transactions", "5", "--rate", "5", "--seconds", "2"], "give --transactions N"),
        (["ycsb-t", "--rate", "1", "--seconds", "0.5"], "0.5 transactions: a run has from 1 to"),
        (["ycsb-t", "--rate", "inf", "--seconds", "1"], "inf transactions"),
        (["ycsb-t", "--transactions", "5", "--zipf", "nan"], "--zipf"),
        (["ycsb-t", "--transactions", "5", "--size", "0"], "--size"),
        (["cycle", "--transactions", "5", "--size", "2"], "cycle needs at least 3 nodes of the ring"),
        (["chain", "--transactions", "5", "--depth", "91"], "--depth"),
        (["tpcc", "--transactions", "5", "--scale", "2"], "--scale"),
        (["ycsb-t", "--transactions", "5", "--kill", "2@0.5"], "nodes count from 0 to 1"),
        (["ycsb-t", "--transactions", "5", "--kill", "0"], "NODE@FRACTION"),
        (["ycsb-t", "--transactions", "5", "--nodes", "1", "--kill", "0@0.5"], "leaves none to answer"),
        (["ycsb-t", "--transactions", "5", "--add-node", "1.5"], "--add-node"),
        (["ycsb-t", "--transactions", "5", "--repartition", "account"], "wants OPERATOR:M@FRACTION or all:M@FRACTION"),
        (["ycsb-t", "--transactions", "5", "--repartition", "account:6@1.5"], "fractions go from 0 to 1"),
        (["ycsb-t", "--transactions", "5", "--repartition", "acount:6@0.5"], "nearest: account"),
        (["ycsb-t", "--transactions", "5", "--repartition", "account:0@0.5"], "0 partitions for 1024 buckets"),
        (["ycsb-t", "--transactions", "5", "--repartition", "all:2000@0.5"], "2000 partitions for 1024 buckets"),
        (["ycsb-t", "--transactions", "5", "--repartition", "account:4@0.5"], "account: 4 partitions already"),
        (
            ["ycsb-t", "--transactions", "5", "--repartition", "all:6@0.5", "--repartition", "account:6@0.7"],
            "--repartition account:6@0.7: account: 6 partitions already",
        ),
        (["ycsb-t", "--transactions", "5", "--mode", "never"], "'never' is not one of 'online', 'stop'"),
        (["ycsb-t", "--transactions", "5", "--upgrade", "0.5", "--upgrade", "0.7"], "it is given once"),
        (["ycsb-t", "--transactions", "5", "--log", "kafkaa"], "'kafkaa' is not one of"),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_it_begins(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["txn", "bench", *options]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_every_workload_makes_requests_at_its_smallest_size() -> None:
    for workload in WORKLOADS.values():
        shape = WorkloadShape(workload.smallest, zipf=0.9)
        assert workload.load(shape) is not None and len(workload.requests(shape, 0, 20)) == 20, workload.name


@pytest.mark.parametrize("name", ["", "node", "run", "call", "serve", "bench", "replay"])
def test_help_of_every_command_shows_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["txn", *filter(None, [name]), "--help"]) == 0
    assert "Example: holon txn" in capsys.readouterr().out


def test_auto_goes_on_without_spark_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert not txn_bench_command.spark_judges("ycsb-t", "auto") and not txn_bench_command.spark_does(
        "auto", "generator"
    )
    said = capsys.readouterr().err
    assert said.count(NO_JAVA) == 2 and "going on with the plain check" in said and "the plain generator" in said


@pytest.mark.parametrize("quick", [True, False])
def test_curves_have_several_points_each_of_workloads_that_there_are(quick: bool) -> None:
    found = list(points(quick))
    assert {arguments[0] for _, _, arguments in found} <= set(WORKLOADS)
    assert len(set(map(str, found))) == len(found)
    assert all(count > 1 for count in Counter(curve for curve, _, _ in found).values())


def test_calls_are_counted_in_compressed_records_too() -> None:
    calls = [WireCall(n, 0, (), (0,), "account", f"a{n}", "add", b"\x91\x01", 0) for n in range(500)]
    whole = to_bytes(Calls(0, 2, 1, list(calls)))
    (sent,) = travelling([AppendCalls(1, whole)])
    found: Counter[str] = Counter()
    count_in(found, "calls", sent.value)
    assert found["calls and results in messages"] == 500
    assert found["bytes, all, without compression"] == len(whole) > 2 * len(sent.value)


def test_messages_of_what_is_run_again_and_of_its_reruns_are_counted() -> None:
    stage = Stage(cycle.program)
    stage.start("one")
    stage.turn(100)
    shape = WorkloadShape(6, 0.5)
    for requests in (cycle.workload.load(shape), cycle.workload.requests(shape, 0, 30)):
        stage.client.send_all(requests)
        while not all(each.id in stage.client.answered for each in requests):
            assert stage.client.receive(0.1) >= 0 and stage.now_ms < 100_000
    stage.turn(50)
    found = messages(stage.log, cycle.program, SEQUENCERS)
    assert found["run again, share"] > 0.3 and found["messages of a rerun here"] == 0
    assert (
        found["messages that a rerun without cache would send"]
        > 2
        < found["bytes of read-set snapshots for a rerun here"]
    )
    last = records(stage.log, stage.topics.replies, 0)
    tid = reply_message(last[max(last)]).replies[-1].tid
    late = Calls(0, reply_message(last[max(last)]).epoch, 90, [WireResult(tid, (), (), b"\xc0", None)])
    stage.log.append(stage.topics.calls, 1, [to_bytes(late)])  # as a rerun that sends something would
    assert messages(stage.log, cycle.program, SEQUENCERS)["messages of a rerun here"] > 0


def test_curves_that_are_measured_again_replace_old_ones_and_stand_in_their_order() -> None:
    kept = {"rows": [{"curve": "depth", "x": 1}, {"curve": "zipf", "x": 0.5}], "breakdown": {"a": 1}, "log": "kafka"}
    both = added(kept, {"rows": [{"curve": "rate", "x": 7}, {"curve": "zipf", "x": 0.9}], "log": "kafka"}, quick=False)
    assert [(row["curve"], row["x"]) for row in both["rows"]] == [("rate", 7), ("zipf", 0.9), ("depth", 1)]
    assert both["breakdown"] == {"a": 1}


def test_a_sample_counts_for_the_innermost_part_that_it_is_in() -> None:
    node = ("nodes/transactions/driver:turn", "transactional/state/partition:run")
    calling = "transactional/execution/execution:start", "transactional/workloads/ycsb_t:transfer"
    assert stage_of((*node, *calling)) == "function"
    encoding = "transactional/epochs/messages:to_bytes", "transactional/state/values:encode"
    assert stage_of((*node, *encoding)) == "messages"
    assert stage_of((*node, "transactional/state/store:apply")) == "state"
    assert stage_of(node) == "epochs" and stage_of(("runpy:run",)) == "other"


def test_the_parts_of_a_transfer_name_files_that_there_are() -> None:
    paths = [path for stage in STAGES.values() for path in stage]
    assert [path for path in (*paths, *PASSED_OVER) if not list(ROOT.glob(f"{path}*"))] == []
