"""Spark beside the log: generation, reading, and the oracle against the plain one. One session serves the module."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nexmark.loading import Stream
from nexmark.oracle.compare import RecordCounts, canonical
from nexmark.oracle.plain import expected_plain
from nexmark.oracle.plain_queries import QUERIES
from nexmark.oracle.spark import validate_spark
from nexmark.oracle.spark_queries import SPARK_QUERIES
from nexmark.spark.loader import load_with_spark, write_parquet
from nodes.log import open_log
from nodes.spark.session import java_problem, spark_session
from nodes.spark.source import read_topic
from tests.shares import share_of
from tests.unit.nexmark_records import ALIVE, DEAD, START_MS, auction, bid, person

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)

TOPIC = "events"
STREAM = Stream(TOPIC, events=5_000, partitions=3, config=GeneratorConfig(seed=11))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    assert java_problem() is None
    with spark_session() as session:
        yield session


@pytest.fixture(scope="module")
def generated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("generated"))
    assert load_with_spark(folder, STREAM, batch_records=500) == 5_000
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Late, early, future, border and broken records, in several partitions."""
    folder = str(tmp_path_factory.mktemp("hostile"))
    ordered = [
        bid(at=f"00:00:{second:02d}.{second * 37 % 1000:03d}", price=second * 7 % 11, auction=second % 5 * 123)
        for second in range(60)
    ]
    shuffled = [ordered[place * 7 % 60] for place in range(60)]
    sales = [auction(123 * n, f"00:00:{9 * n:02d}", f"00:00:{9 * n + 5:02d}", category=10 + n % 2) for n in range(5)]
    border = [bid(900, f"00:00:{at}", number) for number, at in enumerate(("09.999", "10.000", "20.000"))]
    border.append(bid(901, "00:00:20.000", 4))
    located = [
        bid(price, at, channel=channel, url=url)
        for price, at, channel, url in (
            (1_101_322, "07:59:59.999", "APPLE", "https://a/b/c"),
            (1_101_321, "08:00:00.000", "baidu", ""),
            (2_000_000, "18:59:59.999", "other", "https://a/b/c/d/e/f?channel_id=1"),
            (2_000_000, "19:00:00.000", "other", "https://a/b/c/d/e/f?x=1&channel_id=12&channel_id=13"),
            (2_000_000, "20:00:00.000", "other", "channel_id=&"),
            (99_999_999, "23:59:59.999", "Facebook", "//"),
        )
    ]
    newcomers = [person("01:00:01.000", 8), person("01:00:02.000", 9), auction(1, "01:00:03", "02:00:00", seller=9)]
    future = [bid(1, auction=246, date="9999-12-31"), bid(3), person("00:00:30.000"), bid(4)]
    ancient = [bid(5, date="0001-01-01"), bid(-(2**63), date="1969-12-31"), bid(2**63 - 1, date="1969-12-31")]
    ancient += [bid(2**63 - 1, date="1969-12-31") for _ in range(3)]  # a sum beyond 64 bits
    with open_log(folder) as log:
        log.create_topic(TOPIC, 6)
        log.append(TOPIC, 0, [*ordered, *DEAD.values()])
        log.append(TOPIC, 1, [*shuffled, *ALIVE.values()])
        log.append(TOPIC, 2, [*border, *sales, *ordered[::2], person("00:00:59.000"), *newcomers])
        log.append(TOPIC, 3, located)
        log.append(TOPIC, 4, [*future, *ordered[:20]])
        log.append(TOPIC, 5, [*ancient, *sales, *ordered])
    return folder


OPTIONS: list[dict[str, Any]] = [
    {},
    {"lateness_ms": 15_000, "out_of_orderness_ms": 1},
]


@pytest.mark.parametrize("query", share_of(sorted(SPARK_QUERIES), 3, __name__))
def test_both_oracles_agree_on_hostile_logs(spark: SparkSession, hostile: str, query: str) -> None:
    for options in OPTIONS if SPARK_QUERIES[query].windowed else OPTIONS[:1]:
        with open_log(hostile) as log:
            plain = expected_plain(query, log, TOPIC, **options)
        verdict = validate_spark(query, hostile, TOPIC, plain.rows, got_counts=plain.counts, **options)
        assert verdict.first == []
        assert (verdict.validated, verdict.differences, verdict.counts) == (True, 0, plain.counts)
        assert 25 < plain.counts.dead <= len(DEAD)  # some are wrong only in fields that not every query needs
        assert plain.rows
        if query == "q7" and not options:
            ends = [row["window_end"] - START_MS for row in plain.rows if 900 <= row["price"] <= 901]
            assert sorted(ends) == [10_000, 10_000, 20_000, 20_000, 30_000]  # bids on a border match both windows
        assert SPARK_QUERIES[query].windowed == (plain.counts.late > 0)


def test_both_oracles_guard_against_times_ahead_of_the_log(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path)
    with open_log(folder) as log:
        log.create_topic(TOPIC, 1)
        log.append(TOPIC, 0, [bid(1), bid(2, date="9000-01-01"), bid(3)])
        for guard in (None, 60_000):
            plain = expected_plain("q7max", log, TOPIC, max_future_skew_ms=guard)
            assert (
                plain.counts == (RecordCounts(3, 0, 0, 0) if guard is None else RecordCounts(2, 0, 0, 1))
                or guard is None
            )
            assert validate_spark(
                "q7max", folder, TOPIC, plain.rows, max_future_skew_ms=guard, got_counts=plain.counts
            ).validated


@pytest.mark.parametrize("query", share_of(["q2", "q4", "q7"], 3, __name__))
def test_both_oracles_agree_on_a_generated_stream(spark: SparkSession, generated: str, query: str) -> None:
    with open_log(generated) as log:
        plain = expected_plain(query, log, TOPIC)
    assert validate_spark(query, generated, TOPIC, plain.rows, got_counts=plain.counts).validated


def test_the_oracles_know_the_same_queries() -> None:
    assert list(QUERIES) == list(SPARK_QUERIES)


def test_a_wrong_result_is_found_and_shown(spark: SparkSession, generated: str, tmp_path: Path) -> None:
    with open_log(generated) as log:
        rows = expected_plain("q7max", log, TOPIC).rows
    wrong = [dict(rows[0], bids=rows[0]["bids"] + 1)]
    found = validate_spark("q7max", generated, TOPIC, wrong, got_counts=RecordCounts(1, 2, 3, 4))
    assert (found.validated, found.differences) == (False, 2 + 4)
    assert found.first[0] == "accepted: expected 4600, got 1"
    assert found.first[4:] == [f"missing: {canonical(rows[0])}", f"not expected: {canonical(wrong[0])}"]
    repeated = tmp_path / "rows.jsonl"
    repeated.write_text("".join(f"{json.dumps(row)}\n" for row in rows * 2))
    again = validate_spark("q7max", generated, TOPIC, repeated)
    assert (again.differences, again.first) == (1, [f"expected 1 times, got 2: {canonical(rows[0])}"])
    assert validate_spark("q7max", generated, TOPIC, []).first == [f"missing: {canonical(rows[0])}"]


def test_spark_loads_what_the_generator_makes(spark: SparkSession, generated: str) -> None:
    whole = encode_json(generate_slice(STREAM.config, 0, STREAM.events))
    with open_log(generated) as log:
        assert [log.read(TOPIC, number, 0).values for number in range(3)] == [whole[number::3] for number in range(3)]
    assert load_with_spark(generated, STREAM) == 0


def test_a_task_that_dies_halfway_is_run_again_without_repeats(spark: SparkSession, tmp_path: Path) -> None:
    from nexmark.loading import load_partition

    folder, died = str(tmp_path / "log"), str(tmp_path / "died")
    stream = Stream(TOPIC, 2_000, 2, GeneratorConfig(seed=1))
    with open_log(folder) as log:
        log.create_topic(TOPIC, 2)

    def run(partition: int) -> int:
        import os

        with open_log(folder) as opened:
            if partition == 1 and not os.path.exists(died):
                load_partition(opened, Stream(TOPIC, 900, 2, stream.config), 1, batch_records=100)
                os.mkdir(died)
                raise OSError("the disk went away for a moment")
            return load_partition(opened, stream, partition, batch_records=100)

    appended = spark.sparkContext.parallelize(range(2), 2).map(run).collect()
    assert appended == [1_000, 550]
    with open_log(folder) as log:
        assert log.read(TOPIC, 1, 0).values == encode_json(generate_slice(stream.config, 1, 2_000, 2))


def test_atoms_that_spark_has_written_are_read_alike_by_both_oracles(spark: SparkSession, tmp_path: Path) -> None:
    folder, stream = str(tmp_path / "log"), Stream(TOPIC, 3_000, 2, GeneratorConfig(seed=4), atom_rows=256)
    assert load_with_spark(folder, stream, batch_records=512) == 2 * 6
    with open_log(folder) as log:
        log.append(TOPIC, 1, [b"no atom", *stream.encode(1, 0, 1)])  # dead, and late where there are windows
        for query in ("q0", "q4"):
            expected = expected_plain(query, log, TOPIC, atoms=True)
            assert expected.counts.total == 3_000 + 1 + 256
            got = {"got_counts": expected.counts, "atoms": True}
            assert validate_spark(query, folder, TOPIC, expected.rows, **got).validated


@pytest.mark.long
def test_the_data_source_shows_every_record_with_its_place(spark: SparkSession, hostile: str) -> None:
    rows = read_topic(spark, hostile, TOPIC).orderBy("partition", "offset").collect()
    with open_log(hostile) as log:
        for number in range(6):
            chunk = log.read(TOPIC, number, 0)
            mine = [row for row in rows if row["partition"] == number]
            assert [bytes(row["value"]) for row in mine] == chunk.values
            assert [row["offset"] for row in mine] == chunk.offsets.tolist()
            assert [row["timestamp_ms"] for row in mine] == chunk.timestamps_ms.tolist()


def test_the_data_source_starts_at_what_is_retained(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path)
    with open_log(folder) as log:
        log.create_topic(TOPIC, 1)
        for _ in range(3):
            log.append(TOPIC, 0, [b"a", b"b"], headers=[b"h", b""], keys=[b"k", None])
        start = log.delete_before(TOPIC, 0, 2)
        assert start > 0
        rows = read_topic(spark, folder, TOPIC).collect()
        assert [row["offset"] for row in rows] == list(range(start, 6))
        assert [(row["key"], row["headers"]) for row in rows[-2:]] == [(b"k", b"h"), (None, b"")]


def test_the_data_source_names_the_options_that_are_missing(spark: SparkSession, hostile: str) -> None:
    from pyspark.errors import PySparkException

    read_topic(spark, hostile, TOPIC)
    with pytest.raises(PySparkException, match="needs the option topic"):
        spark.read.format("holonlog").option("log", hostile).load().collect()


def test_workers_import_the_installed_pyspark_and_leave_modules_out_of_the_search_for_garbage(
    spark: SparkSession,
) -> None:
    import pyspark

    def seen(_: int) -> tuple[str, int]:
        import gc

        import pyspark

        return str(pyspark.__file__), gc.get_freeze_count()

    found = spark.sparkContext.parallelize(range(2), 2).map(seen).collect()
    assert [where for where, _ in found] == [pyspark.__file__] * 2
    assert min(frozen for _, frozen in found) > 10_000


def test_parquet_holds_the_typed_events(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "parquet")
    write_parquet(path, 1_001, GeneratorConfig(seed=2), slices=3)
    found = spark.read.parquet(path)
    assert {row["event_type"]: row["count"] for row in found.groupBy("event_type").count().collect()} == {
        0: 21, 1: 60, 2: 920,
    }  # fmt: skip
    events = [json.loads(record) for record in encode_json(generate_slice(GeneratorConfig(seed=2), 0, 1_001))]
    stored = found.selectExpr("to_json(struct(*), map('timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSS')) AS text")
    texts = [json.loads(row["text"]) for row in stored.collect()]
    without_nulls = [{name: value for name, value in event.items() if value is not None} for event in events]
    assert sorted(map(canonical, texts)) == sorted(map(canonical, without_nulls))


def test_an_unknown_query_is_refused(hostile: str) -> None:
    with pytest.raises(ValueError, match="does not know 'q99'"):
        validate_spark("q99", hostile, TOPIC, [])


@pytest.mark.long
def test_spark_writes_nothing_to_our_output(tmp_path: Path) -> None:
    import os
    import subprocess

    script = (
        "from nexmark.spark.loader import *; from nexmark.loading import Stream; from nexmark.generator import *\n"
        f"load_with_spark({str(tmp_path / 'log')!r}, Stream('t', 100, 2, GeneratorConfig()))\n"
        "print('one line')"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("one line\n", "")


def test_a_missing_or_old_java_is_named_with_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "is 11; install one: apt-get install openjdk-17" in str(java_problem())
    java.unlink()
    assert "does not run" in str(java_problem())
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    assert "there is none; install one" in str(java_problem())
