"""Shares, ranges and lengths of what is generated, for fixed seeds (so a failure is never chance)."""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal, getcontext
from typing import Any

import numpy as np
import pytest

from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nexmark.generator.prices import price_table, prices
from nexmark.generator.text import channels, letters, words

EVENTS = 100_000
SEED = 7


@pytest.fixture(scope="module")
def records() -> list[bytes]:
    return encode_json(generate_slice(GeneratorConfig(seed=SEED), 0, EVENTS))


@pytest.fixture(scope="module")
def events(records: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(record) for record in records]


def subjects(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event[name] for event in events if event[name] is not None]


def close(found: float, expected: float, tolerance: float) -> bool:
    return abs(found - expected) <= tolerance


def share(hits: int, of: int) -> float:
    return hits / of


@pytest.mark.slow
def test_the_mean_record_has_about_333_bytes(records: list[bytes]) -> None:
    assert close(sum(map(len, records)) / EVENTS, 333, 8)


@pytest.mark.slow
def test_persons_auctions_and_bids_come_1_to_3_to_46(events: list[dict[str, Any]]) -> None:
    assert Counter(event["event_type"] for event in events) == {0: 2000, 1: 6000, 2: 92_000}


def test_half_of_the_bids_go_to_the_hot_auction(events: list[dict[str, Any]]) -> None:
    hot = 0
    for number, event in enumerate(events):
        if event["bid"]:
            newest = number // 50 * 3 + 2
            hot += event["bid"]["auction"] - 1000 == newest // 100 * 100
    # A cold pick hits the hot auction once in a while: it is mostly among the 100 in flight.
    assert close(share(hot, 92_000), 0.5 + 0.5 / 111, 0.01)


def test_three_quarters_of_the_bids_come_from_the_hot_bidder(events: list[dict[str, Any]]) -> None:
    late = [(number, event) for number, event in enumerate(events) if event["bid"] and number > 50_000]
    hot = sum(event["bid"]["bidder"] - 2000 == number // 50 // 100 * 100 + 1 for number, event in late)
    assert close(share(hot, len(late)), 0.75, 0.01)


def test_three_quarters_of_the_auctions_have_the_hot_seller(events: list[dict[str, Any]]) -> None:
    late = [(number, event) for number, event in enumerate(events) if event["auction"] and number > 50_000]
    hot = sum(event["auction"]["seller"] - 1000 == number // 50 // 100 * 100 for number, event in late)
    assert close(share(hot, len(late)), 0.75, 0.02)


def test_cold_picks_are_uniform_over_the_active(events: list[dict[str, Any]]) -> None:
    ages = Counter()
    for number, event in enumerate(events):
        newest = number // 50 * 3 + 2
        if event["bid"] and number > 10_000 and event["bid"]["auction"] - 1000 != newest // 100 * 100:
            ages[newest - (event["bid"]["auction"] - 1000)] += 1
    assert set(ages) == set(range(-10, 101))
    mean = sum(ages.values()) / len(ages)
    assert all(close(count, mean, 0.25 * mean) for count in ages.values())


def test_prices_are_log_uniform_from_a_hundred_to_a_hundred_million(events: list[dict[str, Any]]) -> None:
    found = np.array([bid["price"] for bid in subjects(events, "bid")])
    assert found.min() >= 100
    assert found.max() <= 100_000_000
    deciles = np.floor(np.log10(found / 100) / 6 * 10).astype(int)
    assert all(close(share(int(np.sum(deciles == decile)), len(found)), 0.1, 0.004) for decile in range(10))


def test_prices_are_within_a_cent_of_the_exact_curve() -> None:
    getcontext().prec = 40
    bits = np.array([0, 2**64 - 1, 2**63, 12345 << 40, *range(1 << 50, 2**64, 2**64 // 997)], dtype=np.uint64)
    for draw, price in zip(bits.tolist(), prices(bits).tolist(), strict=True):
        exact = 100 * Decimal(10) ** (6 * Decimal(draw >> 24) / 2**40)
        assert abs(price - exact) <= Decimal("1.1")
        if exact < 10_000_000:
            assert abs(price - exact) <= Decimal("0.57")
    table = price_table()
    assert (table[0], table[-1]) == (100 << 24, (100_000_000 << 24) - 1)
    assert (np.diff(table) > 0).all()


def test_reserves_are_above_the_initial_bid(events: list[dict[str, Any]]) -> None:
    assert all(auction["reserve"] >= auction["initialBid"] + 100 for auction in subjects(events, "auction"))


def test_auction_lives_are_uniform_from_1_to_332_ms(events: list[dict[str, Any]]) -> None:
    lives = generate_slice(GeneratorConfig(seed=SEED), 0, EVENTS).auctions
    lives_ms = lives.expires_ms - lives.time_ms
    assert 1 <= lives_ms.min() <= 3
    assert 330 <= lives_ms.max() <= 334
    assert close(float(lives_ms.mean()), 167, 3)


def test_categories_names_and_places_are_uniform(events: list[dict[str, Any]]) -> None:
    categories = Counter(auction["category"] for auction in subjects(events, "auction"))
    assert set(categories) == {10, 11, 12, 13, 14}
    assert all(close(share(count, 6000), 0.2, 0.02) for count in categories.values())
    persons = subjects(events, "person")
    for values, size in (
        ([person["name"].split(" ")[0] for person in persons], 11),
        ([person["name"].split(" ")[1] for person in persons], 9),
        ([person["city"] for person in persons], 10),
        ([person["state"] for person in persons], 6),
    ):
        counts = Counter(values)
        assert len(counts) == size
        assert all(close(share(count, 2000), 1 / size, 0.03) for count in counts.values())
    assert all(re.fullmatch(r"\d{4} \d{4} \d{4} \d{4}", person["creditCard"]) for person in persons)
    assert all(re.fullmatch(r"[a-z ]{0,6}@[a-z ]{0,4}\.com", person["emailAddress"]) for person in persons)


def test_text_lengths_are_those_of_the_reference(events: list[dict[str, Any]]) -> None:
    auctions = subjects(events, "auction")
    descriptions = [len(auction["description"]) for auction in auctions]
    assert max(descriptions) == 99
    assert close(float(np.mean(descriptions)), 51 - 2 / 12, 1.5)  # trimming costs a little
    assert max(len(auction["itemName"]) for auction in auctions) == 19
    assert all(auction["itemName"] == auction["itemName"].strip() for auction in auctions)
    extras = Counter(len(bid["extra"]) for bid in subjects(events, "bid"))
    assert sorted(extras) == list(range(54, 82))
    assert all(close(share(count, 92_000), 1 / 28, 0.004) for count in extras.values())


def test_extras_fill_a_record_up_to_its_idealised_size(events: list[dict[str, Any]]) -> None:
    for auction in subjects(events, "auction"):
        room = 500 - (8 + len(auction["itemName"]) + len(auction["description"]) + 40)
        assert 0.8 * room - 1 <= len(auction["extra"]) <= 1.2 * room + 1
    for person in subjects(events, "person"):
        names = ("name", "emailAddress", "creditCard", "city", "state")
        room = 200 - (8 + sum(len(person[name]) for name in names))
        assert 0.8 * room - 1 <= len(person["extra"]) <= 1.2 * room + 1


def test_half_of_the_channels_are_the_four_hot_ones(events: list[dict[str, Any]]) -> None:
    counts = Counter(bid["channel"] for bid in subjects(events, "bid"))
    for hot in ("Google", "Facebook", "Baidu", "Apple"):
        assert close(share(counts.pop(hot), 92_000), 0.125, 0.005)
    assert all(re.fullmatch(r"channel-\d{1,4}", name) for name in counts)
    assert len(counts) > 9_800  # 46,000 picks of 10,000


@pytest.mark.slow
def test_each_channel_has_one_url_and_nine_in_ten_carry_its_id(events: list[dict[str, Any]]) -> None:
    urls: dict[str, set[str]] = {}
    for bid in subjects(events, "bid"):
        urls.setdefault(bid["channel"], set()).add(bid["url"])
    assert all(len(known) == 1 for known in urls.values())
    part = "[a-z_]{3,4}"
    shape = re.compile(rf"https://www\.nexmark\.com/{part}/{part}/{part}/item\.htm\?query=1(&channel_id=(-?\d+))?")
    matches = [shape.fullmatch(entry.url) for entry in channels(SEED)]
    assert all(matches)
    assert all(match and not match[1] for match in matches[10_000:])
    assert close(sum(bool(match and match[1]) for match in matches), 9_000, 120)
    for number, reverse in ((2, 2**30), (3, 2**30), (4, 2**29), (6, 1_610_612_736)):
        match = matches[number]
        assert match and match[2] in (None, str(reverse))


@pytest.mark.slow
def test_the_pools_have_the_characters_of_the_reference() -> None:
    counts = Counter(words(SEED))
    assert close(counts.pop(" ") / len(words(SEED)), 1 / 13, 0.001)
    for pool in (counts, Counter(letters(SEED))):
        assert len(pool) == 26
        mean = sum(pool.values()) / 26
        assert all(close(count, mean, 0.02 * mean) for count in pool.values())
