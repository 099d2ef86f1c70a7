"""The example jobs do what their first lines say, also when a partition fails in the middle."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from examples import (
    chained,
    dedupe,
    error_rates,
    fraud_alert,
    machine_heat,
    machine_runs,
    query1,
    sessions,
    shared_text,
    shop_days,
    top_items,
)
from holon import Job
from holon.testing import JobTestDriver, run_job

MINUTE_MS = 60_000
ROOT = Path(__file__).parents[3]


def rows(results: list[Any]) -> list[Any]:
    return sorted(results, key=repr)


def test_query1_relates_each_partition_to_all() -> None:
    results = run_job(query1.job, [[{"ts": 1}, {"ts": 2}, {"ts": 12_000}], [{"ts": 3}]])
    assert rows(results) == [
        {"partition": 0, "window": 0, "local": 2, "total": 3},
        {"partition": 0, "window": 10_000, "local": 1, "total": 1},
        {"partition": 1, "window": 0, "local": 1, "total": 3},
        {"partition": 1, "window": 10_000, "local": 0, "total": 1},
    ]


def test_query1_answers_no_window_before_every_partition_has_passed_it() -> None:
    test = JobTestDriver(query1.job, partitions=2)
    test.feed(0, {"ts": 1}, {"ts": 50_000})
    assert test.outputs() == [] and test.frontier_ms < 0
    test.feed(1, {"ts": 9_999})
    assert test.outputs() == []
    test.feed(1, {"ts": 10_000})
    assert [result["total"] for result in test.outputs()] == [2, 2]


def test_top_items_ranks_over_all_partitions_and_reports_once() -> None:
    def sale(ts: int, item: str, quantity: int) -> dict[str, Any]:
        return {"ts": ts, "item": item, "quantity": quantity}

    few = [sale(i, f"item{i:02}", i) for i in range(12)]
    results = run_job(top_items.job, [few, [sale(5, "item03", 20), sale(MINUTE_MS, "late", 1)]])
    first = [result for result in results if result["window"] == 0]
    assert [result["rank"] for result in first] == list(range(1, 11))
    assert [result["item"] for result in first] == ["item03", *(f"item{i:02}" for i in range(11, 3, -1)), "item02"]
    assert first[0]["quantity"] == 23
    assert [r["item"] for r in results if r["window"] == MINUTE_MS] == ["late"]


def test_top_items_breaks_ties_by_item() -> None:
    sales = [{"ts": 1, "item": item, "quantity": 1} for item in "ba"]
    assert [result["item"] for result in run_job(top_items.job, [sales])] == ["a", "b"]


def test_sessions_are_visits_of_users_over_all_partitions_also_when_one_fails() -> None:
    def click(minute: int, user: str, page: str) -> dict[str, Any]:
        return {"ts": minute * MINUTE_MS, "user": user, "page": page}

    test = JobTestDriver(sessions.flow.job, partitions=2)
    test.feed(0, click(0, "ann", "home"), click(5, "bob", "home"), click(40, "ann", "cart"))
    test.feed(1, click(30, "ann", "home"), click(66, "bob", "help"))
    test.checkpoint(0)
    test.fail(1)
    test.finish()
    assert rows(test.outputs()) == [
        {"user": "ann", "start": 0, "clicks": 3, "pages": 2, "seconds": 2400},
        {"user": "bob", "start": 5 * MINUTE_MS, "clicks": 1, "pages": 1, "seconds": 0},
        {"user": "bob", "start": 66 * MINUTE_MS, "clicks": 1, "pages": 1, "seconds": 0},
    ]
    assert rows(test.outputs("visits-by-hour")) == [
        {"hour": 0, "visits": 1, "seconds": 0.0},
        {"hour": 60 * MINUTE_MS, "visits": 2, "seconds": 1200.0},
    ]
    assert test.outputs("clicks-too-late") == []


def test_dedupe_emits_an_id_again_only_after_the_horizon() -> None:
    def event(number: str, ts: int) -> dict[str, Any]:
        return {"id": number, "ts": ts}

    ids = [("a", 0), ("b", 1), ("a", 5), ("a", dedupe.HORIZON_MS), ("a", dedupe.HORIZON_MS + 1), ("b", 10**8)]
    results = run_job(dedupe.job, [[event(*entry) for entry in ids]])
    assert [(result["id"], result["ts"]) for result in results] == [
        ("a", 0),
        ("b", 1),
        ("a", dedupe.HORIZON_MS + 1),
        ("b", 10**8),
    ]


def test_fraud_alert_compares_a_card_here_with_payments_everywhere() -> None:
    def payment(card: str, cents: int) -> dict[str, Any]:
        return {"ts": 7, "card": card, "cents": cents}

    usual = [payment(f"card{i}", 100) for i in range(99)]
    assert run_job(fraud_alert.job, [usual, [payment("thief", 2_000)]]) == [
        {"card": "thief", "window": 0, "spent": 2_000}
    ]
    assert run_job(fraud_alert.job, [usual, [payment("thief", 1_100)]]) == []


def test_shared_text_is_the_join_of_all_partitions() -> None:
    (result,) = run_job(
        shared_text.job,
        [[{"ts": 1, "author": "Ada", "text": "hello"}], [{"ts": 2, "author": "Bob", "text": "hi"}]],
    )
    assert sorted(result["text"].splitlines()) == ["Ada: hello", "Bob: hi"]


def test_chained_prices_shares_and_sums_minutes() -> None:
    orders = [{"ts": 20_000 * n, "customer": "c", "quantity": n % 3, "cents": 10} for n in range(9)]
    priced = run_job(chained.up, [orders[::2], orders[1::2]])
    shares = run_job(chained.mid, [priced[:3], priced[3:]])
    minutes = run_job(chained.down, [[s for s in shares if s["partition"] == p] for p in (0, 1)])
    assert [row["start_ms"] for row in minutes] == [0, 60_000, 120_000]
    assert sum(row["orders"] for row in minutes) == len(priced) == 6
    assert sum(row["cents"] for row in minutes) == sum(row["cents"] for row in priced) == 90


def test_shop_days_sums_both_shops_by_the_days_of_berlin_also_when_a_partition_fails() -> None:
    test = JobTestDriver(shop_days.flow.job, partitions={"orders-eu": 2, "orders-uk": 1})
    test.feed(("orders-eu", 0), {"at": "2026-03-01T22:59:59Z", "item": "tea", "pieces": 2, "cents": 300})
    test.feed(("orders-eu", 1), {"at": "2026-03-01T23:00:00Z", "item": "tea", "pieces": 1, "cents": 300})
    test.checkpoint(("orders-eu", 1))
    test.feed("orders-uk", {"at": "2026-03-01T12:00:00+01:00", "sku": "tea", "pieces": 3, "pence": 200})
    test.fail(("orders-eu", 1))
    test.fail("orders-uk")
    test.finish()
    first = int(datetime(2026, 2, 28, 23, tzinfo=UTC).timestamp() * 1000)
    days = [
        {"start_ms": first, "item": "tea", "pieces": 5, "cents": 1302},
        {"start_ms": first + 24 * 60 * MINUTE_MS, "item": "tea", "pieces": 1, "cents": 300},
    ]
    assert rows(test.outputs("days")) == days


def test_error_rates_finds_bad_minutes_and_counts_them_by_hour_also_when_a_partition_fails() -> None:
    test = JobTestDriver(error_rates.flow.job, partitions=2)
    for n in range(60):
        minute = n // 30
        bad = {"ts": minute * MINUTE_MS + n, "service": "cart", "status": 503 if n % (10 + 20 * minute) == 0 else 200}
        test.feed(n % 2, bad, {"ts": n, "service": "cart", "status": 500, "path": "/health"})
        if n == 20:
            test.checkpoint(0)
    test.fail(0)
    test.feed(1, {"ts": 10 * MINUTE_MS, "service": "user", "status": 200}, {"ts": 1, "service": "user", "status": 500})
    test.finish()
    assert test.outputs() == [{"service": "cart", "start": 0, "requests": 30, "failed": 3}]
    assert test.outputs("trouble") == [{"service": "cart", "hour": 0, "minutes": 1, "worst": 0.1}]
    assert [row["ts"] for row in test.outputs("late-requests")] == [1]


def test_machine_heat_gives_alarms_at_once_and_quantiles_of_windows_also_when_a_partition_fails() -> None:
    test = JobTestDriver(machine_heat.flow.job, partitions=2)
    heats = [20.0, 30.0, None, 95.0, 25.0]
    for n, celsius in enumerate(heats):
        test.feed(n % 2, {"ts": 1000 * n, "machine": "press", "celsius": celsius})
    assert test.outputs() == [{"machine": "press", "ts": 3000, "celsius": 95.0}]
    test.fail(0)
    test.finish()
    spreads = test.outputs("spread")
    assert len(spreads) == 5, "the windows of five minutes that began in the last five"
    assert all(row["machine"] == "press" and 24 < row["half"] < 31 and 94 < row["most"] < 96 for row in spreads)
    assert len(test.outputs()) == 1


FEEDS: dict[str, tuple[Job[Any], Callable[[int], dict[str, Any]]]] = {
    "query1": (query1.job, lambda i: {"ts": 700 * i}),
    "top_items": (top_items.job, lambda i: {"ts": 7_000 * i, "item": f"item{i % 4}", "quantity": i}),
    "dedupe": (dedupe.job, lambda i: {"id": str(i % 7), "ts": 600_000 * i}),
    "fraud_alert": (
        fraud_alert.job,
        lambda i: {"ts": 20_000 * i, "card": str(i % 3), "cents": 10 ** (7 if i % 17 == 0 else 2)},
    ),
    "top_items as a flow": (
        top_items.flow.job,
        lambda i: {"ts": 7_000 * i, "item": f"item{i % 4}", "quantity": i},
    ),
    "sessions": (sessions.flow.job, lambda i: {"ts": 400_000 * i, "user": str(i % 3), "page": str(i % 5)}),
    "machine_heat": (
        machine_heat.flow.job,
        lambda i: {"ts": 30_000 * i, "machine": str(i % 3), "celsius": None if i % 7 == 3 else 5.0 * i},
    ),
    "shared_text": (shared_text.job, lambda i: {"ts": 9_000 * i, "author": str(i % 2), "text": str(i)}),
}


@pytest.mark.parametrize("name", FEEDS)
def test_a_failure_does_not_show(name: str) -> None:
    """Everything that an example remembers is declared state."""
    job, record = FEEDS[name]

    def run(fails: bool) -> list[Any]:
        test = JobTestDriver(job, partitions=2)
        for i in range(40):
            test.feed(i % 2, record(i))
            if fails and i in (9, 22):
                test.checkpoint(i % 2)
            if fails and i % 5 == 4:
                test.fail(i % 2)
        test.finish()
        return sorted(test.raw_outputs())

    assert run(fails=True) == run(fails=False) != []


def test_the_readme_shows_query1_as_it_is() -> None:
    shown = (ROOT / "README.md").read_text().split("<!-- query1: begin -->")[1].split("<!-- query1: end -->")[0]
    code = shown.split("```python\n")[1].split("```")[0].strip().splitlines()
    source = (ROOT / "examples" / "query1.py").read_text()
    assert "\n".join(code) in source


def test_machine_runs_go_from_on_to_off_over_all_partitions_also_when_one_fails() -> None:
    def signal(second: int, machine: str, kind: str, watts: int = 0) -> dict[str, Any]:
        return {"ts": second * 1000, "machine": machine, "kind": kind, "watts": watts}

    test = JobTestDriver(machine_runs.flow.job, partitions=2)
    test.feed(0, signal(1, "press", "on"), signal(30, "press", "part", 900), signal(70, "press", "part", 700))
    test.feed(1, signal(2, "saw", "on"), signal(40, "press", "part", 800), signal(63, "saw", "part", 50))
    assert rows(test.outputs("runs")) == [
        {"machine": "press", "start": 1000, "seconds": 39, "parts": 2, "most_watts": 900, "over": False, "lost": False},
        {"machine": "saw", "start": 2000, "seconds": 0, "parts": 0, "most_watts": 0, "over": False, "lost": False},
    ]
    test.checkpoint(0)
    test.fail(0)
    test.feed(1, signal(90, "press", "off"), signal(95, "press", "part"), signal(200, "saw", "part"))
    test.feed(0, signal(200, "press", "none"))
    test.fail(1)
    over = [row for row in test.outputs("runs") if row["over"]]
    assert over == [
        {"machine": "press", "start": 1000, "seconds": 89, "parts": 3, "most_watts": 900, "over": True, "lost": False}
    ]
    assert test.outputs("boxes") == [{"machine": "press", "packed": 70_000, "parts": 3}]
    test.finish()
    (lost,) = [row for row in test.outputs("runs") if row["lost"]]
    assert (lost["machine"], lost["seconds"], lost["parts"], lost["over"]) == ("saw", 21_600, 2, True)
