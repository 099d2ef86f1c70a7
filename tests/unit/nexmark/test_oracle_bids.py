"""The plain oracle's queries about bids alone, and q3, on small logs whose answers can be worked out by hand."""

from __future__ import annotations

import pytest

from nexmark.oracle.compare import RecordCounts
from tests.unit.nexmark.test_oracle_plain import ask
from tests.unit.nexmark_records import START_MS, auction, bid, person


def test_q3_joins_auctions_of_one_category_with_persons_of_three_states() -> None:
    found = ask(
        "q3",
        [
            auction(1, "00:00:01", "00:00:02", seller=8),
            auction(2, "00:00:01", "00:00:02", category=11, seller=8),
            bid(),
        ],
        [person(number=8), person(number=9), person(number=8, name="eve").replace(b'"ID"', b'"WA"')],
    )
    assert found.rows == [{"name": "ann", "city": "Boise", "state": "ID", "id": 1}]
    assert found.counts == RecordCounts(accepted=3, filtered=3, late=0, dead=0)


def test_q11_ends_a_session_where_no_bid_comes_for_more_than_ten_seconds() -> None:
    found = ask(
        "q11",
        [bid(at="00:00:01.000"), bid(at="00:00:21.001")],
        [bid(at="00:00:11.000"), bid(at="00:00:12.000", bidder=8)],
    )
    rows = [
        [row["starttime"] - START_MS, row["endtime"] - START_MS, row["bidder"], row["bid_count"]] for row in found.rows
    ]
    assert rows == [[1_000, 21_000, 7, 2], [21_001, 31_001, 7, 1], [12_000, 22_000, 8, 1]]


def test_q12_counts_by_window_of_event_time() -> None:
    found = ask("q12", [bid(at="00:00:09.999"), bid(at="00:00:10.000")], [bid(at="00:00:01.000")])
    assert found.rows == [
        {"bidder": 7, "bid_count": 2, "starttime": START_MS, "endtime": START_MS + 10_000},
        {"bidder": 7, "bid_count": 1, "starttime": START_MS + 10_000, "endtime": START_MS + 20_000},
    ]


@pytest.mark.parametrize(
    ("at", "kind"),
    [
        ("06:59:59.999", "nightTime"),
        ("07:00:00.000", "otherTime"),
        ("08:00:00.000", "dayTime"),
        ("18:59:59.999", "dayTime"),
        ("19:00:00.000", "otherTime"),
        ("20:00:00.000", "nightTime"),
        ("00:00:00.000", "nightTime"),
    ],
)
def test_q14_classifies_the_hour(at: str, kind: str) -> None:
    (row,) = ask("q14", [bid(2_000_001, at, extra="cacc")]).rows
    assert (row["bidTimeType"], row["price"], row["c_counts"]) == (kind, "1816000.908", 3)


def test_q14_keeps_what_is_within_its_limits_exactly() -> None:
    prices = (1_101_321, 1_101_322, 55_066_079, 55_066_080)  # 999,999.468 to 50,000,000.640 euros
    found = ask("q14", [bid(price) for price in prices])
    assert [row["price"] for row in found.rows] == ["1000000.376", "49999999.732"]
    assert found.counts.filtered == 2


def test_q15_counts_bids_bidders_and_auctions_of_a_day_by_rank() -> None:
    found = ask(
        "q15",
        [bid(9_999), bid(10_000, "23:59:59.999"), bid(999_999, auction=2), bid(1_000_000, bidder=8), bid(5, bidder=8)],
        [bid(date="2025-01-02")],
    )
    assert [row["day"] for row in found.rows] == ["2025-01-01", "2025-01-02"]
    assert found.rows[0] == {
        "day": "2025-01-01",
        "total_bids": 5, "rank1_bids": 2, "rank2_bids": 2, "rank3_bids": 1,
        "total_bidders": 2, "rank1_bidders": 2, "rank2_bidders": 1, "rank3_bidders": 1,
        "total_auctions": 2, "rank1_auctions": 1, "rank2_auctions": 2, "rank3_auctions": 1,
    }  # fmt: skip


def test_q16_counts_by_channel_with_the_minute_of_the_last_bid() -> None:
    found = ask("q16", [bid(at="09:59:59.000"), bid(at="08:00:00.000"), bid(channel="other")])
    assert [
        (row["channel"], row["day"], row["minute"], row["total_bids"], row["rank3_bids"]) for row in found.rows
    ] == [
        ("Google", "2025-01-01", "09:59", 2, 0),
        ("other", "2025-01-01", "00:00", 1, 0),
    ]


def test_q17_has_statistics_of_prices_and_cuts_the_mean_towards_zero() -> None:
    assert ask("q17", [bid(-4), bid(-3)]).rows == [
        {
            "auction": 1, "day": "2025-01-01", "total_bids": 2, "rank1_bids": 2, "rank2_bids": 0, "rank3_bids": 0,
            "min_price": -4, "max_price": -3, "avg_price": -3, "sum_price": -7,
        }
    ]  # fmt: skip


def test_q17_adds_beyond_64_bits() -> None:
    assert [row["sum_price"] for row in ask("q17", [bid(2**63 - 1), bid(2**63 - 1)]).rows] == [2**64 - 2]


@pytest.mark.parametrize(
    ("channel", "url", "number"),
    [
        ("Apple", "&channel_id=9", "0"),
        ("baidu", "", "3"),
        ("x", "a?query=1&channel_id=12&channel_id=13", "12"),
        ("x", "channel_id=4&channel_id=5", "4"),
        ("x", "a&channel_id=", ""),
    ],
)
def test_q21_finds_the_channel(channel: str, url: str, number: str) -> None:
    assert [row["channel_id"] for row in ask("q21", [bid(channel=channel, url=url)]).rows] == [number]


def test_q21_drops_bids_without_a_channel() -> None:
    assert ask("q21", [bid(channel="x", url="?channel_id=1")]).counts == RecordCounts(0, 1, 0, 0)


def test_q22_gives_three_directories() -> None:
    (row,) = ask("q22", [bid(url="https://host/a/b")]).rows
    assert (row["dir1"], row["dir2"], row["dir3"]) == ("a", "b", None)


def test_days_close_at_their_end() -> None:
    for query in ("q15", "q16", "q17"):
        assert ask(query, [bid(at="23:59:59.999"), bid()]).counts.late == 0
        assert ask(query, [bid(at="00:00:00.000", date="2025-01-02"), bid()]).counts.late == 1
