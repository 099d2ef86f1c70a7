"""Engines side by side: what is compared, and what the figures mean."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nexmark.bench.compare_answers import agreement, digest
from nexmark.bench.jobs import NOWHERE, bench_job, q7
from nexmark.bench.meter import Measure
from nexmark.bench.plan import PYTHON_PEERS, PYTHON_QUERIES, QUERIES, ComparisonPlan, Variant, cores_of, listed
from nexmark.bench.python_home import python_home, version_of
from nexmark.bench.report import markdown
from nexmark.bench.result import BenchResult, EngineRun, other_load, over_memory, ratios_of, ratios_over, rows_of
from nexmark.bench.warmup import Warmth, compiler_s, first_and_last
from nexmark.flink.cluster import filled
from nexmark.flink.home import PEER, check_hashes
from nexmark.flink.profiles import PROFILES, profile_of
from nexmark.flink.sql import TableTopics, latency_statements, queries, statements
from nexmark.queries.atoms import NexmarkAtoms
from nodes.api import MissingDependency, SettingsError, UnknownName, Unreachable

HERE = TableTopics("127.0.0.1:9092", "x.nexmark", "x.results")


def rows(*found: object) -> list[bytes]:
    return [json.dumps(row).encode() for row in found]


def test_answers_agree_however_times_and_decimals_are_written() -> None:
    mine = rows({"id": 1, "starttime": 1_735_689_600_000}, {"id": 2, "starttime": 1_735_689_600_120})
    theirs = rows({"starttime": "2025-01-01 00:00:00.12", "id": 2}, {"starttime": "2025-01-01 00:00:00", "id": 1})
    assert agreement("q8", {"holon": mine, "flink": theirs}).differences == 0
    prices = {"holon": rows({"price": "908.000"}), "flink": [b'{"price": 9.08E+2}']}
    assert agreement("q1", prices).differences == 0
    assert agreement("q2", {"holon": rows({"price": "908.000"}), "flink": [b'{"price": 908}']}).differences == 2


def test_a_missing_a_changed_and_a_repeated_row_are_differences() -> None:
    whole = rows({"a": 1}, {"a": 2})
    for other, differences in (
        (rows({"a": 1}), 1),
        (rows({"a": 1}, {"a": 3}), 2),
        (rows({"a": 1}, {"a": 2}, {"a": 2}), 1),
    ):
        found = agreement("q2", {"holon": whole, "flink": other})
        assert (found.differences, found.rows) == (differences, {"holon": 2, "flink": len(other)})
        assert found.first and found.first[0].startswith("holon against flink")


def test_many_rows_are_compared_by_a_digest_of_the_multiset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nexmark.bench.compare_answers.FEW", 0)
    mine = rows({"a": 1}, {"a": 2}, {"a": 2})
    assert agreement("q0", {"holon": mine, "flink": mine[::-1]}).differences == 0
    assert agreement("q0", {"holon": mine, "flink": rows({"a": 1}, {"a": 1}, {"a": 2})}).differences == 1
    assert digest("q0", mine) != digest("q0", mine[:2])


def run(variant: Variant, engine: str, seconds: float, **more: float) -> EngineRun:
    cost = {"cpu_s": 1.0, "peak_process_mb": 100.0, "peak_all_mb": 200.0, "others_s": 0.1} | more
    return EngineRun(variant, engine, Measure(seconds, **cost))


PLAN = ComparisonPlan(queries=("q7",), events=1000, pairs=3, memory_mb=150)
Q7 = Variant("q7")
RUNS = [run(Q7, "holon", s) for s in (1.0, 2.0, 4.0)] + [
    run(Q7, "flink", s, cpu_s=4.0, peak_process_mb=400.0) for s in (10.0, 10.0, 40.0)
]


def test_rows_have_the_spread_of_the_runs_and_ratios_are_of_medians() -> None:
    holon, flink = rows_of(PLAN, RUNS)
    assert (holon.events_per_s.min, holon.events_per_s.median, holon.events_per_s.max) == (250, 500, 1000)
    assert (flink.events_per_cpu_s, flink.checkpoints_s, holon.checkpoints_s) == (250, None, 1.0)
    ratio = ratios_of([holon, flink])["q7"]
    assert (ratio.events_per_s, ratio.events_per_cpu_s, ratio.pairs_median, ratio.memory) == (5.0, 4.0, 10.0, 0.25)
    assert ratios_of([holon]) == {}
    assert ratios_over(("holon", "flink", "pathway"), [holon, flink]) == {"flink": {"q7": ratio}}
    assert other_load(RUNS) == 0.01
    assert over_memory(PLAN, [holon, flink]) == [
        "holon took 200 MB for q7, of 150 MB",
        "flink took 200 MB for q7, of 150 MB",
    ]


def test_a_peer_whose_packages_or_folder_are_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingDependency, match="source tree"):
        python_home("bytewax", tmp_path, tmp_path)
    for name, _, _ in PYTHON_PEERS.values():
        pinned = (PEER.parent / name / "requirements.txt").read_text()
        assert version_of(pinned, name) in (PEER.parent / name / "requirements.in").read_text()
        assert f"{name}==" in pinned and "--hash=sha256:" in pinned
        assert all((PEER.parent / name / f"{query}.py").is_file() for query in PYTHON_QUERIES)


def result(**more: object) -> BenchResult:
    found = rows_of(PLAN, RUNS)
    plain = BenchResult(
        rows=found, ratios=ratios_of(found), agree=True, other_load_cores=0.1, quiet=True, events=1000, partitions=4,
        nodes=2, pairs=3, cores=[0], memory_mb=150, answers=[], missing_peers={}, over_memory=[],
        settings={"flink": {"a.b": "c"}}, machine={"cores": "2"}, ratios_over=ratios_over(("flink",), found),
    )  # fmt: skip
    for name, value in more.items():
        setattr(plain, name, value)
    return plain


def test_the_report_says_what_a_reader_has_to_know() -> None:
    said = markdown(result())
    assert "| q7 | holon | none | 1 | 250 | 500 | 1,000 |" in said and "| q7 | 5.00 | 10.00 | 4.00 | 0.25 |" in said
    assert "a.b: c" in said and "too busy" not in said
    assert "was not warmed up" in said
    said = markdown(result(broker_warmup=Warmth(20.0, 9000.0, (0.8, 0.05))))
    assert "9,000 MB were read from the broker in 20 s" in said and "0.8 cores at the beginning and 0.05" in said
    assert "compiler" not in markdown(result(broker_warmup=Warmth(20.0, 9000.0, None)))
    said = markdown(result(quiet=False, agree=False, missing_peers={"flink": "no Java\nat all"}))
    assert "too busy to measure" in said and "Answers DIFFER" in said and "flink was left out: no Java" in said


def test_what_compiling_takes_is_told_of_the_first_and_the_last_second() -> None:
    used = [(tenth / 10, min(tenth, 20) / 25) for tenth in range(101)]
    assert first_and_last([(at, so_far) for at, so_far in used]) == (0.4, 0.0)
    assert first_and_last([(0.0, None), (1.0, None)]) is None
    assert first_and_last([(0.0, 1.0), (0.5, 1.25)]) == (0.5, 0.5), "shorter than two seconds"
    assert compiler_s(None) is None and compiler_s(os.getpid()) is None, "no virtual machine of Java"


def test_variants_follow_from_the_queries() -> None:
    assert [variant.key for variant in ComparisonPlan(queries=("q0", "q8")).variants] == [
        "q0",
        "q8",
        "q0:kafka",
        "q0:checkpoints",
    ]
    assert [variant.key for variant in ComparisonPlan(engines=("holon",), queries=("q0",)).variants] == [
        "q0",
        "q0:kafka",
    ]
    assert listed("q0, q1,,q0") == ("q0", "q1") and cores_of("1,0") == (0, 1) and cores_of(None) == ()


def test_what_cannot_be_compared_is_refused_before_anything_starts() -> None:
    with pytest.raises(UnknownName, match="q77"):
        ComparisonPlan(queries=("q77",))
    with pytest.raises(UnknownName, match="flonk"):
        ComparisonPlan(engines=("flonk",))
    with pytest.raises(UnknownName, match="Zed"):
        ComparisonPlan(collector="Zed")
    for wrong in ({"pairs": 0}, {"events": 0}, {"queries": ()}, {"broker_warmup_s": -1}):
        with pytest.raises(SettingsError):
            ComparisonPlan(**wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="--engines holon"):
        ComparisonPlan(format="arrow")
    with pytest.raises(UnknownName, match="xml"):
        ComparisonPlan(engines=("holon",), format="xml")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="0,1"):
        cores_of("all")


@pytest.mark.parametrize("query", QUERIES)
def test_both_engines_have_every_query(query: str) -> None:
    assert query in queries(PEER)
    job = bench_job(query, 3, "none")
    assert (job.output is None) == (query in NOWHERE) and job.name == f"{query}-bench-3"
    assert bench_job(query, 3).outputs["main"].topic == f"{query}-bench-3"
    nowhere, kafka = (statements(PEER, query, place) for place in (TableTopics(HERE.bootstrap, HERE.events), HERE))
    for found in (nowhere, kafka):
        assert found[-1].startswith("INSERT INTO results") and not any("${" in part or "--" in part for part in found)
        assert "'x.nexmark'" in found[0] and "'latest-offset'" in found[0]
    assert "blackhole" in "".join(nowhere) and "'x.results'" in "".join(kafka)
    assert ("upsert-kafka" in "".join(kafka)) == (query == "q4")


def test_official_q4_runs_against_official_q4() -> None:
    assert bench_job("q4", 1).process.__name__ == "OfficialAverages"  # type: ignore[union-attr]
    assert q7(run=2, nowhere=1).name == "q7-bench-2"


def test_a_run_over_atoms_has_a_job_that_reads_them() -> None:
    assert isinstance(q7(run=2, atoms=1).source.format, NexmarkAtoms)
    assert not isinstance(q7(run=2).source.format, NexmarkAtoms)
    assert ComparisonPlan(engines=("holon",), queries=("q7max",), format="arrow").format == "arrow"
    assert "events in Arrow record batches" in markdown(result(format="arrow")) and "Arrow" not in markdown(result())


def test_jars_that_are_not_those_that_were_asked_for_are_refused(tmp_path: Path) -> None:
    (tmp_path / "sums").write_text(f"{'0' * 64}  a.jar\n")
    with pytest.raises(Unreachable, match="not there"):
        check_hashes(tmp_path / "sums", tmp_path)
    (tmp_path / "a.jar").write_bytes(b"other")
    with pytest.raises(Unreachable, match="is not the file"):
        check_hashes(tmp_path / "sums", tmp_path)


def test_every_setting_of_the_peer_is_filled_in_and_can_be_replaced() -> None:
    values = {"CORES": 2, "MEMORY_MB": 4096, "RPC_PORT": 1, "REST_PORT": 2, "FOLDER": "/x"}
    found = filled((PEER / "config.yaml").read_text(), values, PROFILES["tuned"])
    assert found["taskmanager.memory.process.size"] == "4096m" and found["parallelism.default"] == "2"
    assert found["execution.checkpointing.dir"] == "file:///x/checkpoints" and "$" not in "".join(found.values())
    assert found["table.exec.mini-batch.enabled"] == "false" and found["heartbeat.timeout"] == "2500 ms"
    assert found["pipeline.object-reuse"] == "true"


def test_profiles_of_the_peer_are_known_by_name() -> None:
    assert profile_of("paper:spare").title == "paper:spare" and not profile_of("paper").spare
    assert profile_of("paper").settings["heartbeat.timeout"] == "6 s"
    (window,) = [part for part in latency_statements(PEER, "q7max", HERE, 100) if part.startswith("INSERT")]
    assert "INTERVAL '0.100' SECOND" in window
    assert "INTERVAL '2.500' SECOND" in latency_statements(PEER, "q7max", HERE, 2500)[-1]
