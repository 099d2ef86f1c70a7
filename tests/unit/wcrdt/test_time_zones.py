"""Windows of whole days of a time zone: borders at midnight there, also where its clock changes."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wcrdt import Tumbling, Window
from wcrdt.windows.days import DAY_MS, ZoneDays

HOUR_MS = 3_600_000
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # midnight is skipped in spring
    "Pacific/Apia",  # a whole day is skipped in 2011
    "Asia/Kathmandu",
    "Australia/Lord_Howe",  # half an hour
    "Africa/Casablanca",
    "UTC",
)


def _ms(zone: str, *wall: int) -> int:
    return round(datetime(*wall, tzinfo=ZoneInfo(zone)).timestamp() * 1000)  # type: ignore[misc, arg-type]


def test_days_are_shorter_and_longer_where_the_clock_changes() -> None:
    days = Tumbling("1d", tz="Europe/Berlin")
    for day, hours in (((2026, 3, 28), 24), ((2026, 3, 29), 23), ((2026, 10, 25), 25), ((2026, 7, 1), 24)):
        (window,) = days.windows_for(_ms("Europe/Berlin", *day, 12))
        assert window == Window(_ms("Europe/Berlin", *day), window.start_ms + hours * HOUR_MS)


def test_weeks_begin_at_the_offset() -> None:
    weeks = Tumbling("7d", "4d", tz="America/New_York")
    (window,) = weeks.windows_for(_ms("America/New_York", 2026, 11, 4, 9))  # a Wednesday, after the change of clocks
    assert window == Window(_ms("America/New_York", 2026, 11, 2), _ms("America/New_York", 2026, 11, 9))
    (before,) = weeks.windows_for(_ms("America/New_York", 2026, 11, 1, 23, 59))
    assert before.end_ms == window.start_ms and before.end_ms - before.start_ms == 7 * DAY_MS + HOUR_MS


def test_skipped_midnight_begins_the_day_when_the_clock_jumps() -> None:
    days = Tumbling("1d", tz="America/Sao_Paulo")
    (window,) = days.windows_for(_ms("America/Sao_Paulo", 2018, 11, 4, 12))
    assert window.end_ms - window.start_ms == 23 * HOUR_MS
    assert datetime.fromtimestamp(window.start_ms / 1000, ZoneInfo("America/Sao_Paulo")).hour == 1


def test_skipped_day_has_no_window() -> None:
    days = Tumbling("1d", tz="Pacific/Apia")
    (before,) = days.windows_for(_ms("Pacific/Apia", 2011, 12, 29, 12))
    (after,) = days.windows_for(_ms("Pacific/Apia", 2011, 12, 31, 12))
    assert before.end_ms == after.start_ms and after.end_ms - after.start_ms == DAY_MS


@pytest.mark.slow
@given(
    zone=st.sampled_from(ZONES),
    times=st.lists(st.integers(-(2**45), 2**43), min_size=1, max_size=30),
    near=st.integers(0, 6 * DAY_MS),
    days=st.integers(1, 9),
    offset=st.integers(0, 9),
)
def test_windows_cover_time_without_a_gap_and_columns_agree(
    zone: str, times: list[int], near: int, days: int, offset: int
) -> None:
    windows = Tumbling(days * DAY_MS, offset * DAY_MS, tz=zone)
    borders = [border for ts_ms in times for border in windows.windows_for(ts_ms)[0]]
    for column in (times, borders, [times[0] + near * place for place in range(len(times))]):
        for ts_ms in column:
            (window,) = windows.windows_for(ts_ms)
            assert window.start_ms <= ts_ms < window.end_ms
            assert windows.windows_for(window.start_ms) == windows.windows_for(window.end_ms - 1) == (window,)
            (following,) = windows.windows_for(window.end_ms)
            assert following.start_ms == window.end_ms
        found = {}
        for window, rows in windows.split(np.array(column, np.int64)):
            assert window not in found
            found[window] = np.arange(len(column))[rows].tolist()
        expected: dict[Window, list[int]] = {}
        for place, ts_ms in enumerate(column):
            expected.setdefault(windows.windows_for(ts_ms)[0], []).append(place)
        assert found == expected


@pytest.mark.slow
@given(zone=st.sampled_from(ZONES), ts_ms=st.integers(-(2**40), 2**42))
def test_day_is_the_date_of_the_clock(zone: str, ts_ms: int) -> None:
    clock = (datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC")) + timedelta(milliseconds=ts_ms)).astimezone(ZoneInfo(zone))
    assert ZoneDays(zone).day_of(ts_ms) == clock.date().toordinal() - datetime(1970, 1, 1).toordinal()


def test_zone_is_part_of_the_fingerprint() -> None:
    described = [Tumbling("1d", tz=zone).describe() for zone in (None, "UTC", "Europe/Berlin", "America/New_York")]
    assert all(one != other for one, other in itertools.combinations(described, 2))
    assert Tumbling("1d").describe() == "tumbling(86400000,0)"
    berlin = ZoneDays("Europe/Berlin").digest
    assert berlin != ZoneDays("UTC").digest and berlin in Tumbling("1d", tz="Europe/Berlin").describe()
    assert repr(Tumbling("1d", tz="UTC")) == "Tumbling(size_ms=86400000, offset_ms=0, tz='UTC')"


@pytest.mark.parametrize(("size", "offset"), [("1h", 0), ("36h", 0), ("1d", "6h")])
def test_windows_of_a_zone_are_whole_days(size: str, offset: int | str) -> None:
    with pytest.raises(ValueError, match="whole days"):
        Tumbling(size, offset, tz="Europe/Berlin")


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "", "/etc/passwd", "../x"])
def test_unknown_zone_says_where_names_come_from(zone: str) -> None:
    with pytest.raises(ValueError, match=r"there is no time zone .* tzdata"):
        Tumbling("1d", tz=zone)
