"""Answers of engines: read once each from their topics, and compared without reading every row as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, product

import numpy as np
import pytest

from holon.columnar.payloads import BinaryColumn
from holon.outputs.identity import IdentityError, IdentityStamp, Track
from nexmark.bench.answers import last_rows, once_rows, plain_rows
from nexmark.bench.compare_answers import agreement, normal
from nexmark.bench.forms import changed, forms
from nexmark.oracle import canonical
from nodes.api import OutputReader
from nodes.log.contract import FetchedRecords
from nodes.log.memory import MemoryLog

PRICES = (
    "1",
    "1.0",
    "1.5",
    "01.5",
    "1.50",
    "1.500",
    "1.5000",
    '"1.5"',
    '"1.500"',
    '"01.5"',
    '"1.5004"',
    "1.5E+0",
    "15E-1",
    '"1"',
)
TIMES = ("2025-01-02 03:04:05", "2025-01-02 03:04:05.1", "2025-01-02 03:04:05.100", "2025-01-02 03:04:05.10",
         "2025-02-29 03:04:05", "2025-02-29 03:04:05.000", "2025-01-02 24:04:05", "2025-01-02 24:04:05.000",
         "2025-01-02T03:04:05", "0000-01-02 03:04:05", "0000-01-02 03:04:05.000")  # fmt: skip
SHAPES = (
    '{"auction":1,"price":%s,"dateTime":"%s","extra":"x"}',
    '{"auction":1,"extra":",\\"price\\":1.5,","price":%s,"dateTime":"%s"}',
    '{"in":{"auction":1,"price":%s,"dateTime":"%s"},"price":2}',
    '{"price":%s,"note":{"a":1},"dateTime":"%s"}',
)


def in_form(query: str, rows: Sequence[bytes]) -> list[bytes]:
    found = list(rows)
    for form in forms(query):
        found = list(changed(form, found))
    return found


@pytest.mark.parametrize("query", ["q0", "q1"])
def test_rows_that_are_the_same_bytes_in_their_form_are_the_same_rows(query: str) -> None:
    every = [(shape % (price, time)).encode() for shape, price, time in product(SHAPES, PRICES, TIMES)]
    rows = [row for row in every if b":01" not in row]  # no JSON
    assert in_form(query, every[:1]) != every[:1], "a form that changes nothing would prove nothing"
    paired = sorted(zip(in_form(query, rows), rows, strict=True))
    merged = 0
    for _, same in groupby(paired, key=lambda pair: pair[0]):
        group = [row for _, row in same]
        assert len(set(map(canonical, normal(query, group)))) == 1, group
        merged += len(group) - 1
    assert merged > 10


def test_numbers_that_are_no_json_are_left_alone() -> None:
    broken = b'{"auction":1,"price":01.5,"dateTime":"2025-01-02 03:04:05.000"}'
    assert in_form("q1", [broken]) == [broken]


def test_rows_of_several_lines_are_left_alone() -> None:
    rows = [b'{"a":1,\n"dateTime":"2025-01-02 03:04:05"}', b'{"a":1,"dateTime":"2025-01-02 03:04:05"}']
    assert in_form("q0", rows) == rows
    assert in_form("q0", rows[1:]) == [b'{"a":1,"dateTime":"2025-01-02 03:04:05.000"}']


def answers_of_both(count: int) -> tuple[list[bytes], list[bytes]]:
    """Of q1, as Holon and as Flink write them."""
    mine, theirs = [], []
    for number in range(count):
        price, millis = number * 908 // 7, number % 1000
        fraction = f"{price % 1000:03d}"
        row = '{"auction":%d,"bidder":2,"price":%s,"dateTime":"2025-01-02 03:04:05%s","extra":"ab"}'
        short = f"{price // 1000}.{fraction}".rstrip("0").rstrip(".")
        mine.append((row % (number, f'"{price // 1000}.{fraction}"', f".{millis:03d}")).encode())
        theirs.append((row % (number, short, f".{millis:03d}".rstrip("0").rstrip("."))).encode())
    return mine, theirs[::-1]


@pytest.mark.slow
def test_among_many_rows_one_that_is_changed_missing_or_doubled_is_found() -> None:
    mine, theirs = answers_of_both(3000)
    assert agreement("q1", {"holon": mine, "flink": theirs}).differences == 0
    for place in (0, 1499, 2999):
        row = theirs[place]
        wrong = {"missing": [b""], "doubled": [row, row], "changed": [row.replace(b'"bidder":2', b'"bidder":3')]}
        for kind, put in wrong.items():
            others = theirs[:place] + [row for row in put if row] + theirs[place + 1 :]
            found = agreement("q1", {"holon": mine, "flink": others})
            assert found.differences == (2 if kind == "changed" else 1), (place, kind)
            assert b'"auction":%d' % json_auction(row) in found.first[0].encode()


def json_auction(row: bytes) -> int:
    return int(row.split(b'"auction":')[1].split(b",")[0])


def output(places: Sequence[tuple[int, int]], job: str = "q0-bench-1", incarnation: int = 1) -> list[bytes]:
    stamp = IdentityStamp(job, incarnation, 3, Track.RECORD)
    return [stamp(position, n) for position, n in places]


class TwoAtOnce(MemoryLog):
    """Gives no more than two records, so that what is known of one chunk has to go on in the next."""

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 2, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        return super().read(topic, partition, offset, max_records=2, max_bytes=max_bytes)


@pytest.mark.parametrize(
    "headers",
    [
        output([(1, 0), (1, 1), (2, 0), (9, 0)]),
        output([(1, 0), (2, 0)]) + output([(1, 0), (2, 0), (3, 0)]),
        output([(1, 0), (2, 0), (2, 0), (3, 0)]),
        output([(5, 0), (6, 0)]) + output([(1, 0)], incarnation=2),
        output([(5, 0), (6, 0)]) + output([(1, 0)], job="q0-bench-22"),
        output([(5, 0), (6, 0)]) + output([(1, 0)], job="q0-bench-2"),
    ],
    ids=["ascending", "read again", "doubled", "another incarnation", "a longer name", "another job"],
)
def test_rows_of_a_topic_are_those_that_its_reader_hands_out(headers: list[bytes]) -> None:
    log = TwoAtOnce()
    log.create_topic("found", 2)
    values = [b"row %d" % number for number in range(len(headers))]
    for partition in range(2):
        log.append("found", partition, values, headers=headers)
    assert once_rows(log, "found") == [found.value for found in OutputReader(log, "found").read_available()]


def test_a_topic_that_no_job_has_written_is_refused() -> None:
    log = MemoryLog()
    log.create_topic("found", 1)
    log.append("found", 0, [b"x", b"y"])
    with pytest.raises(IdentityError):
        once_rows(log, "found")
    assert plain_rows(log, "found") == [b"x", b"y"]
    with pytest.raises(ValueError, match="without a key"):
        last_rows(log, "found")


def test_of_a_changelog_the_last_row_of_each_key_counts() -> None:
    log = MemoryLog()
    log.create_topic("found", 1)
    log.append("found", 0, [b"1", b"2", b"3", b"", b"5"], keys=[b"a", b"b", b"a", b"b", b"c"])
    assert last_rows(log, "found") == [b"3", b"5"]


def test_values_that_come_as_columns_are_rows_too() -> None:
    mine = BinaryColumn.of([b'{"a":1}', b'{"a":2}'])
    assert isinstance(mine.starts, np.ndarray)
    assert agreement("q2", {"holon": mine, "flink": [b'{"a":2}', b'{"a":1}']}).differences == 0
