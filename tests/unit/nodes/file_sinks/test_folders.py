"""The folder of a row (nodes/file_sinks/folders.py)."""

from __future__ import annotations

from typing import Any

import pytest

from holon.files import Files
from holon.outputs.identity import OutputId, Track
from nodes.file_sinks.folders import Folders, Unplaceable
from wcrdt.windows.assigners import END_OF_TIME_MS

NEW_YEAR_MS = 1_735_689_600_000


def folder(path: str, row: Any = None, *, end_ms: int = NEW_YEAR_MS, track: Track = Track.WINDOW, **files: Any) -> str:
    return Folders(Files(path, **files)).of(row, OutputId("shop", 0, 0, track, end_ms, 0))


def test_a_window_is_of_the_day_and_hour_of_its_last_millisecond():
    assert folder("out/{year}/{month}/{day}/{hour}") == "2024/2024-12/2024-12-31/2024-12-31T23/"
    assert folder("out/{day}", end_ms=NEW_YEAR_MS + 1) == "2025-01-01/"
    assert folder("out") == ""


@pytest.mark.parametrize(
    "time",
    [
        NEW_YEAR_MS, "2025-01-01T00:00:00Z", "2025-01-01T01:00:00+01:00", "2025-01-01T00:00:00", "2025-01-01",
        "2024-12-31T23:30:00-00:30",
    ],
)  # fmt: skip
def test_a_field_has_the_time_as_a_number_or_a_text(time: Any):
    assert folder("out/{day}", {"at": {"time": time}}, track=Track.RECORD, time="at.time") == "2025-01-01/"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("de", "de"), (7, "7"), (True, "true"), (None, "__HIVE_DEFAULT_PARTITION__"),
        ("", "__HIVE_DEFAULT_PARTITION__"), ("a/b", "a%2Fb"), ("..", "%2E."), ("_x", "%5Fx"), ("a=b", "a%3Db"),
        ("ü 1", "%C3%BC 1"), ("a\n", "a%0A"), ("%2F", "%252F"),
    ],
)  # fmt: skip
def test_a_field_names_a_folder_that_no_value_can_leave(value: Any, name: str):
    assert folder("out", {"country": value}, partition_by=["country"]) == f"country={name}/"
    assert folder("out/{country}", {"country": value}) == f"{name}/"


@pytest.mark.parametrize(
    ("path", "row", "more", "said"),
    [
        ("out/{day}", None, {"track": Track.RECORD}, "comes from a record and not from a window: name the field"),
        ("out/{day}", None, {"end_ms": 10**15}, "is in no year from 1 to 9999"),
        ("out/{day}", None, {"end_ms": END_OF_TIME_MS}, "its window covers all time"),
        ("out/{day}", {"at": "soon"}, {"time": "at"}, "its field 'at' is no time"),
        ("out/{day}", {"at": True}, {"time": "at"}, "its field 'at' is no time"),
        ("out/{day}", {"at": 10**15}, {"time": "at"}, "its field 'at' is no time"),
        ("out/{shop}", {"at": 1}, {}, r"it has no field 'shop' \(at\)"),
        ("out/{shop}", [1], {}, r"it has no field 'shop' \(it is a list\)"),
        ("out/{shop}", {"shop": 1.5}, {}, "folders are named by texts, ints and booleans"),
        ("out/{shop.id}", {"shop": {}}, {}, "it has no field 'shop.id'"),
    ],
)
def test_a_row_without_a_folder_says_why(path: str, row: Any, more: dict[str, Any], said: str):
    with pytest.raises(Unplaceable, match=said):
        folder(path, row, **more)
