"""Times on the wire against Python's calendar, for valid, trimmed and broken texts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nexmark.model import INVALID_TIME, format_time_ms, format_times_ms, parse_time_ms, parse_times_ms
from nexmark.times import MAX_TIME_MS, MIN_TIME_MS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHAPE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2}) ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,3}))?")
times_ms = st.integers(MIN_TIME_MS, MAX_TIME_MS)


def naive(text: str) -> int:
    match = SHAPE.fullmatch(text)
    if not match:
        return INVALID_TIME
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return INVALID_TIME
    return (moment - EPOCH) // timedelta(milliseconds=1) + int((match[7] or "0").ljust(3, "0"))


def nearly_times() -> st.SearchStrategy[str]:
    """Texts of the right shape with a digit or mark replaced, or cut, or with a number out of its range."""
    fields = st.tuples(*(st.integers(0, limit) for limit in (9999, 13, 32, 25, 61, 61, 999)))
    shaped = fields.map(lambda f: f"{f[0]:04d}-{f[1]:02d}-{f[2]:02d} {f[3]:02d}:{f[4]:02d}:{f[5]:02d}.{f[6]:03d}")
    cut = st.tuples(shaped, st.integers(17, 24)).map(lambda pair: pair[0][: pair[1]])
    broken = st.tuples(cut, st.integers(0, 22), st.sampled_from("09-: .Tx\0/\u0663\ud800\xb2"))
    return st.one_of(cut, broken.map(lambda three: three[0][: three[1]] + three[2] + three[0][three[1] + 1 :]))


@given(st.lists(times_ms, max_size=30))
@example([MIN_TIME_MS, MAX_TIME_MS, -1, 0, 951_782_400_000, 1_735_689_600_000])
def test_formatting_agrees_with_the_calendar_and_parses_back(values: list[int]) -> None:
    texts = format_times_ms(np.array(values, dtype=np.int64))
    for value, text in zip(values, texts, strict=True):
        moment = EPOCH + timedelta(milliseconds=value)
        assert text == f"{moment:%Y-%m-%d %H:%M:%S}".rjust(19, "0") + f".{value % 1000:03d}"
    assert parse_times_ms(texts).tolist() == values


@pytest.mark.slow
@given(st.lists(st.one_of(nearly_times(), st.text(max_size=25), times_ms.map(format_time_ms)), max_size=30))
@example(["2025-01-01 00:00:00", "2025-01-01 00:00:00.", "2025-01-01 00:00:00.5", "2025-01-01 00:00:00.25"])
@example(["2024-02-29 23:59:59.999", "2023-02-29 00:00:00.000", "1900-02-29 00:00:00.000", "2000-02-29 00:00:00.000"])
@example(["2025-01-01 24:00:00.000", "2025-01-01 23:60:00.000", "2025-01-01 23:59:60.000", "2025-00-01 00:00:00.000"])
@example(["0000-01-01 00:00:00.000", "2025-01-01T00:00:00.000", "2025-01-01 00:00:00.000Z", "+025-01-01 00:00:00.000"])
@example(["2025-01-01 00:00:00.00", "2025-01-01 00:00:00.0002", "2025-01-01 26:00:00.000", "", "\u0662" * 23])
def test_parsing_takes_exactly_the_valid_texts(texts: list[str]) -> None:
    wanted = [naive(text) for text in texts]
    assert parse_times_ms(texts).tolist() == wanted
    many = [*texts, *["2025-01-01 00:00:00.000"] * 200]  # long columns are parsed in another way
    assert parse_times_ms(many)[: len(texts)].tolist() == wanted


def test_a_broken_row_does_not_disturb_its_neighbours() -> None:
    # 22 and 24 characters: together as long as two good rows.
    texts = ["2025-01-01 00:00:00.00", "22025-01-01 00:00:00.000", "2025-01-02 00:00:00.001"]
    assert parse_times_ms(texts).tolist() == [1_735_689_600_000, INVALID_TIME, 1_735_776_000_001]


def test_nothing_gives_nothing() -> None:
    assert parse_times_ms([]).tolist() == []
    assert format_times_ms(np.array([], dtype=np.int64)) == []


def test_a_time_without_a_text_form_is_refused_by_row() -> None:
    with pytest.raises(ValueError, match=f"row 1: {MAX_TIME_MS + 1} ms"):
        format_times_ms(np.array([0, MAX_TIME_MS + 1], dtype=np.int64))


def test_single_times_are_as_columns() -> None:
    assert parse_time_ms("2025-01-01 00:00:00.007") == 1_735_689_600_007
    assert format_time_ms(1_735_689_600_007) == "2025-01-01 00:00:00.007"
    assert parse_time_ms("yesterday") == INVALID_TIME
