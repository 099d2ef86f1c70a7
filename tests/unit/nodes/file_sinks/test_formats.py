"""Files of rows, and rows that do not fit (nodes/file_sinks/formats.py, parquet.py)."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holon.files import FileFormat
from nodes.errors import SettingsError
from nodes.file_sinks.formats import format_of
from nodes.file_sinks.rows import Misfit


class Color(Enum):
    RED = "red"


class Place(msgspec.Struct, rename="camel"):
    city_name: str
    zip: int | None = None


class Everything(msgspec.Struct, tag="every"):
    n: int
    share: float
    paid: bool
    name: str
    raw: bytes
    at: datetime
    on: date
    until: time
    took: timedelta
    price: Decimal
    color: Color
    kind: Literal["a", "b"]
    places: list[Place]
    tags: set[str]
    counts: dict[str, int]
    place: Place | None = None
    maybe: int | None = None


LETTERS = "abcdefghijklmnopqrstuvwxyz"  # a set of so many has no order by chance
EVERYTHING = Everything(
    2**60, 0.5, True, 'a,"b"\n', b"\x00", datetime(2025, 1, 1, tzinfo=UTC), date(2025, 1, 1), time(1, 2),
    timedelta(seconds=90), Decimal("1.50"), Color.RED, "a", [Place("x", 1), Place("y")], set(LETTERS), {"k": 1},
)  # fmt: skip


def payloads(*rows: Any) -> list[bytes]:
    return [msgspec.json.encode(row) for row in rows]


def encoded(name: FileFormat, rows: list[bytes], row: Any = None, first: list[bytes] | None = None) -> bytes:
    """A file of these rows, with the columns of the type or of the first ones."""
    made = format_of(name, row)
    if made.has_columns:
        made.use(made.declared() or made.inferred(first or rows))
    return made.encode(rows)


def table(rows: list[bytes], row: Any = None, first: list[bytes] | None = None) -> pa.Table:
    return pq.read_table(io.BytesIO(encoded("parquet", rows, row, first)))


def test_json_lines_are_payloads_as_they_are_but_for_line_feeds():
    assert encoded("jsonl", [b'{"a": 1.50}', b'{\n "b":\t"x\\ny"\r\n}', b"7"]) == b'{"a": 1.50}\n{"b":"x\\ny"}\n7\n'
    with pytest.raises(Misfit, match="it is no JSON") as refused:
        encoded("jsonl", [b"{}", b"{}{}"])
    assert refused.value.place == 1


def test_csv_has_a_header_and_values_as_texts():
    data = encoded("csv", payloads(EVERYTHING), Everything).decode()
    (row,) = csv.DictReader(io.StringIO(data))
    assert row["n"] == str(2**60) and row["name"] == 'a,"b"\n' and row["price"] == "1.50" and row["paid"] == "true"
    assert row["at"] == "2025-01-01T00:00:00Z" and row["maybe"] == "" and row["type"] == "every"
    assert msgspec.json.decode(row["places"]) == [{"cityName": "x", "zip": 1}, {"cityName": "y", "zip": None}]
    assert data.startswith("type,n,share,")


def test_csv_without_a_type_has_the_columns_of_the_first_rows_and_refuses_others():
    first = payloads({"a": 1}, {"b": [1, "x"], "a": None})
    assert encoded("csv", first) == b'a,b\n1,\n,"[1,""x""]"\n'
    assert encoded("csv", payloads(3, "x")) == b"value\n3\nx\n"
    with pytest.raises(Misfit, match="it has the fields c, and the files' columns are a, b") as refused:
        encoded("csv", payloads({"a": 1}, {"c": 1}), first=first)
    assert refused.value.place == 1


def test_parquet_has_the_types_of_the_struct():
    found = table(payloads(EVERYTHING), Everything)
    (row,) = found.to_pylist()
    assert row["places"] == [{"cityName": "x", "zip": 1}, {"cityName": "y", "zip": None}]
    assert (row["place"], row["maybe"], row["type"], row["color"], row["kind"]) == (None, None, "every", "red", "a")
    assert row["at"] == EVERYTHING.at and row["on"] == EVERYTHING.on and row["until"] == EVERYTHING.until
    assert row["price"] == Decimal("1.5") and row["raw"] == b"\x00" and row["counts"] == [("k", 1)]
    assert row["tags"] == list(LETTERS) and row["took"] == "PT90S"
    assert found.schema.field("n").type == pa.int64() and found.schema.field("place").type.num_fields == 2


def test_equal_rows_make_equal_files():
    rows = payloads(*[EVERYTHING] * 3)
    for name in ("csv", "jsonl", "parquet"):
        assert encoded(name, rows, Everything) == encoded(name, rows, Everything)


def test_parquet_without_a_type_has_the_columns_of_the_first_rows():
    first = payloads({"a": 1, "b": None, "c": {"d": 1.5}, "e": [None]}, {"f": True, "c": {"d": 2}})
    assert [str(one) for one in table(first).schema.types] == [
        "int64", "string", "struct<d: double>", "list<element: string>", "bool",
    ]  # fmt: skip
    assert table(payloads({"c": {"d": 3}}), first=first).to_pylist()[0]["c"] == {"d": 3.0}
    assert table(payloads({}), first=first).to_pylist() == [dict.fromkeys("abcef")]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"a": 1.5}, "a is 1.5, and its column int64"),
        ({"a": "x"}, "a is 'x', and its column int64"),
        ({"c": {"d": 1, "x": 2}}, "c is {'d': 1, 'x': 2}, and its column struct"),
        ({"x": 1}, "it has the fields x, and the files' columns are a, c"),
        ({"a": 2**70}, "a: "),
        ({"c": {"d": 2**60 + 1}}, "float|double"),
        ({"c": [1, "x"]}, "c: "),
    ],
)
def test_parquet_loses_nothing_of_a_row_without_a_type(row: Any, said: str):
    with pytest.raises(Misfit, match=said) as refused:
        encoded("parquet", payloads({}, row), first=payloads({"a": 1, "c": {"d": 1.5}}))
    assert refused.value.place == 1


def test_a_row_that_is_not_of_the_type_is_named():
    with pytest.raises(Misfit, match=r"it is no Place .*cityName") as refused:
        encoded("parquet", payloads(Place("x"), {"zip": 1}), Place)
    assert refused.value.place == 1


def test_a_decimal_with_more_digits_than_its_column_is_refused():
    with pytest.raises(Misfit, match="data loss") as refused:
        encoded("parquet", payloads(Decimal("1.5"), Decimal("1e-30")), Decimal)
    assert refused.value.place == 1


class Node(msgspec.Struct):
    next: Node | None = None


class Listed(msgspec.Struct, array_like=True):
    a: int


class Either(msgspec.Struct):
    a: int | str


class Whatever(msgspec.Struct):
    a: Any


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (Node, "Node lies in itself"),
        (Listed, "array_like"),
        (Either, "a has a type without a column of Parquet"),
        (Whatever, "a has a type without"),
        (list[Either], r"value\[\].a has a type without"),
    ],
)
def test_a_type_without_columns_is_refused_at_once(row: Any, said: str):
    with pytest.raises(SettingsError, match=said):
        format_of("parquet", row)


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_another_type_than_that_of_the_files_is_refused(name: FileFormat):
    before = format_of(name, Place).declared()
    assert before is not None
    with pytest.raises(SettingsError, match="files there have the columns"):
        format_of(name, Either if name == "csv" else Everything).use(before)
