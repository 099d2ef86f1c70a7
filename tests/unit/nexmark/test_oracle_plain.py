"""The plain oracle on small logs whose answers can be worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from nexmark.generator import GeneratorConfig
from nexmark.loading import Stream, load
from nexmark.oracle.compare import ExpectedResults, RecordCounts
from nexmark.oracle.plain import expected_plain
from nexmark.oracle.plain_queries import QUERIES
from nodes.log.memory import MemoryLog
from tests.unit.nexmark_records import ALIVE, DEAD, GOOD, START_MS, auction, bid, person

TOPIC = "events"


def ask(query: str, *partitions: list[bytes], now_ms: int = 0, **options: Any) -> ExpectedResults:
    log = MemoryLog(lambda: now_ms)
    log.create_topic(TOPIC, len(partitions))
    for number, values in enumerate(partitions):
        log.append(TOPIC, number, values)
    found = expected_plain(query, log, TOPIC, **options)
    assert found.counts.total == sum(map(len, partitions))
    return found


FIRST_END, SECOND_END = START_MS + 10_000, START_MS + 20_000


def test_q0_passes_bids_through() -> None:
    found = ask("q0", [bid(5, auction=3), person()], [auction(1, "00:00:01", "00:00:02")])
    assert found.rows == [{"auction": 3, "bidder": 7, "price": 5, "dateTime": "2025-01-01 00:00:01.000", "extra": "x"}]
    assert found.counts == RecordCounts(accepted=1, filtered=2, late=0, dead=0)


@pytest.mark.parametrize(
    ("price", "euro"),
    [(1000, "908.000"), (1, "0.908"), (-1, "-0.908"), (0, "0.000"), (2**63 - 1, "8374821809464136432.756")],
)
def test_q1_multiplies_exactly(price: int, euro: str) -> None:
    (row,) = ask("q1", [bid(price)]).rows
    assert row["price"] == euro


def test_q2_keeps_every_123rd_auction() -> None:
    found = ask("q2", [bid(5, auction=246), bid(6, auction=247), bid(7, auction=0)])
    assert found.rows == [{"auction": 246, "price": 5}, {"auction": 0, "price": 7}]
    assert found.counts == RecordCounts(2, 1, 0, 0)


def test_q4_averages_the_best_bids_of_the_auctions_of_a_window() -> None:
    found = ask(
        "q4",
        [
            auction(1, "00:00:01", "00:00:03"),
            auction(2, "00:00:01", "00:00:30"),
            auction(3, "00:00:01", "00:00:03", category=11),
            bid(10, "00:00:00.999", 1),  # before the auction opens
            bid(20, "00:00:01.000", 1),  # both borders belong to it
            bid(31, "00:00:03.000", 1),
            bid(90, "00:00:03.001", 1),
            bid(50, "00:00:02.000", 2),
            bid(8, "00:00:02.000", 3),
            bid(70, "00:00:12.000", 2),  # the next window does not know the auction
        ],
    )
    assert sorted(found.rows, key=lambda row: row["category"]) == [
        {"window_end": FIRST_END, "category": 10, "avg": 40},  # (31 + 50) // 2
        {"window_end": FIRST_END, "category": 11, "avg": 8},
    ]


def test_q4official_joins_across_windows_and_truncates_towards_zero() -> None:
    records = [
        auction(1, "00:00:01", "00:00:30"),
        auction(2, "00:00:01", "00:00:30"),
        bid(-4, "00:00:02.000", 2),
        bid(-3, "00:00:12.000", 1),
    ]
    assert ask("q4official", records).rows == [{"category": 10, "avg": -3}]
    assert ask("q4", records).rows == [{"window_end": FIRST_END, "category": 10, "avg": -4}]


def test_q7_keeps_ties_across_partitions() -> None:
    found = ask("q7", [bid(9, auction=1), bid(8)], [bid(9, auction=2), bid(7, "00:00:11.000", 3)])
    assert [(row["auction"], row["price"], row["window_end"]) for row in found.rows] == [
        (1, 9, FIRST_END),
        (2, 9, FIRST_END),
        (3, 7, SECOND_END),
    ]


def test_q7_matches_a_bid_on_the_border_with_both_windows() -> None:
    found = ask("q7", [bid(9, "00:00:09.999", 1), bid(9, "00:00:10.000", 2), bid(5, "00:00:10.000", 3)])
    assert sorted((row["auction"], row["window_end"]) for row in found.rows) == [
        (1, FIRST_END),
        (2, FIRST_END),
        (2, SECOND_END),
    ]


def test_q7_border_bids_do_not_raise_the_maximum_of_the_window_before() -> None:
    found = ask("q7", [bid(5, "00:00:09.999", 1), bid(9, "00:00:10.000", 2)])
    assert sorted((row["auction"], row["window_end"]) for row in found.rows) == [(1, FIRST_END), (2, SECOND_END)]


def test_q7max_gives_maximum_and_count() -> None:
    found = ask("q7max", [bid(9), bid(8)], [bid(3), bid(4, "00:00:10.000")])
    assert found.rows == [
        {"window_end": FIRST_END, "max_price": 9, "bids": 3},
        {"window_end": SECOND_END, "max_price": 4, "bids": 1},
    ]


def test_q5_keeps_the_auctions_with_the_most_bids_of_each_sliding_window() -> None:
    found = ask("q5", [bid(auction=1, at="00:00:01.000"), bid(auction=2, at="00:00:09.000")], [bid(auction=2)])
    by_end: dict[int, list[tuple[int, int]]] = {}
    for row in found.rows:
        by_end.setdefault((row["window_end"] - START_MS) // 1000, []).append((row["auction"], row["num"]))
    assert {end: sorted(rows) for end, rows in by_end.items()} == {
        2: [(1, 1), (2, 1)], 4: [(1, 1), (2, 1)], 6: [(1, 1), (2, 1)], 8: [(1, 1), (2, 1)],
        10: [(2, 2)], 12: [(2, 1)], 14: [(2, 1)], 16: [(2, 1)], 18: [(2, 1)],
    }  # fmt: skip


def test_q5_counts_a_straggler_in_the_windows_that_are_still_open() -> None:
    """11 s closes the windows that end at 10 s and before: of those of 3 s, the one that ends at 12 s is open."""
    found = ask("q5", [bid(auction=1, at="00:00:11.000"), bid(auction=2, at="00:00:03.000"), bid(auction=2)])
    assert found.counts == RecordCounts(accepted=2, filtered=0, late=1, dead=0)
    ends = {row["auction"]: [] for row in found.rows}
    for row in found.rows:
        ends[row["auction"]].append((row["window_end"] - START_MS) // 1000)
    assert {number: sorted(found) for number, found in ends.items()} == {1: [12, 14, 16, 18, 20], 2: [12]}


def test_q8_joins_persons_and_sellers_of_the_same_window() -> None:
    def sale(seller: int, at: str) -> bytes:
        return auction(1, at, "00:01:00", seller=seller)

    found = ask(
        "q8",
        [person("00:00:01.000", 1), person("00:00:02.000", 2), bid(), sale(2, "00:00:12.000")],
        [sale(1, "00:00:09.999"), sale(1, "00:00:03.000"), person("00:00:13.000", 3), sale(9, "00:00:14.000")],
        [person("00:00:05.000", 1), person("00:00:05.000", 1, "eve")],
    )
    assert sorted(row["name"] for row in found.rows) == ["ann", "eve"]
    assert {(row["id"], row["starttime"]) for row in found.rows} == {(1, START_MS)}


def test_query1_has_a_row_for_every_partition_of_every_window_with_bids() -> None:
    found = ask("query1", [bid(), bid()], [], [bid(), bid(at="00:00:25.000"), person("00:00:15.000")])
    third_end = START_MS + 30_000
    assert [(row["partition"], row["window"], row["local"], row["global"]) for row in found.rows] == [
        (0, FIRST_END, 2, 3),
        (1, FIRST_END, 0, 3),
        (2, FIRST_END, 1, 3),
        (0, third_end, 0, 1),
        (1, third_end, 0, 1),
        (2, third_end, 1, 1),
    ]


def test_a_record_is_late_once_the_watermark_of_its_partition_has_reached_the_end_of_its_window() -> None:
    #  time: 1 s ... 10 s | late for [0, 10): watermark 10 s
    assert ask("q7max", [bid(at="00:00:09.999"), bid(at="00:00:01.000")]).counts.late == 0
    assert ask("q7max", [bid(at="00:00:10.000"), bid(at="00:00:01.000")]).counts.late == 1
    assert ask("q7max", [bid(at="00:00:10.000")], [bid(at="00:00:01.000")]).counts.late == 0


def test_lateness_and_disorder_allow_more_time_and_then_end() -> None:
    for options in ({"out_of_orderness_ms": 4000}, {"lateness_ms": 4000}):
        assert ask("q7max", [bid(at="00:00:13.999"), bid()], **options).counts.late == 0
        assert ask("q7max", [bid(at="00:00:14.000"), bid()], **options).counts.late == 1


def test_filtered_and_late_records_move_the_watermark_and_dead_ones_do_not() -> None:
    assert ask("q7max", [person("00:00:10.000"), bid()]).counts == RecordCounts(0, 1, 1, 0)
    dead = bid(at="00:00:10.000").replace(b'"price": 100', b'"price": 1.5')
    assert ask("q7max", [dead, bid()]).counts == RecordCounts(1, 0, 0, 1)


def test_queries_without_windows_know_no_lateness() -> None:
    for query in ("q0", "q1", "q2", "q4official"):
        assert ask(query, [bid(at="00:00:30.000"), bid()]).counts.late == 0


def test_what_is_too_far_ahead_of_the_log_is_dead_and_moves_nothing() -> None:
    records = [bid(at="00:00:10.001"), bid()]
    assert ask("q7max", records, now_ms=START_MS + 9_000, max_future_skew_ms=1000).counts == RecordCounts(1, 0, 0, 1)
    assert ask("q7max", records, now_ms=START_MS + 9_001, max_future_skew_ms=1000).counts == RecordCounts(1, 0, 1, 0)


@pytest.mark.parametrize("query", ["q0", "q7"])
@pytest.mark.parametrize("case", DEAD)
def test_records_that_cannot_be_used_are_dead(case: str, query: str) -> None:
    assert ask(query, [DEAD[case]]).counts == RecordCounts(0, 0, 0, 1)


@pytest.mark.parametrize("case", ALIVE)
def test_unusual_but_valid_records_are_alive(case: str) -> None:
    assert ask("q7", [ALIVE[case]]).counts == RecordCounts(1, 0, 0, 0)


def test_only_the_fields_that_a_query_needs_must_be_right() -> None:
    broken = GOOD.replace(b"100", b'"much"').replace(b'"bidder": 7, ', b"")
    assert ask("query1", [broken]).counts.accepted == 1
    for query in ("q0", "q1", "q2", "q4", "q7", "q7max"):
        assert ask(query, [broken]).counts.dead == 1
    assert ask("q7", [person().replace(b"dateTime", b"time")]).counts.dead == 1


@pytest.mark.slow
def test_generated_streams_have_no_dead_and_no_late_records() -> None:
    log = MemoryLog()
    load(log, Stream(TOPIC, 6_000, 3, GeneratorConfig(seed=3)))
    for query in QUERIES:
        counts = expected_plain(query, log, TOPIC).counts
        assert (counts.late, counts.dead, counts.total) == (0, 0, 6_000)


def test_an_unknown_query_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="does not know 'q99'; it knows q0, q1"):
        expected_plain("q99", MemoryLog(), TOPIC)
