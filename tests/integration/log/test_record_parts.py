"""Keys, headers by name and nulls, on every log and by every reader; a topic that nobody asks about has none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from holon.columnar.record_parts import RecordParts
from nodes.log import Log
from nodes.log.contract import Record, RecordTooLarge
from tests.integration.log_makers import READERS, Maker

NAMES = ("trace", "län", "")
ROWS = 300


@pytest.fixture(params=sorted(READERS))
def maker(request: pytest.FixtureRequest) -> Maker:
    return READERS[request.param]


@pytest.fixture
def log(maker: Maker, tmp_path: Path) -> Iterator[Log]:
    with maker.make(tmp_path / "log", None) as log:
        log.create_topic("t", 1)
        yield log


def drawn(rng: random.Random) -> Record:
    """With what is empty, missing, null or long, and headers that nobody asks for."""
    value = rng.choice([None, b"", rng.randbytes(rng.randrange(200))])
    key = rng.choice([None, b"", rng.randbytes(rng.randrange(9)), b"k" * 300])
    names = rng.sample([*NAMES, "other", "trac", "trace2"], rng.randrange(5))
    return Record(value, key, {name: rng.choice([b"", rng.randbytes(20), b"v" * 200]) for name in names})


def read_all(log: Log, offset: int = 0, **limits: int) -> list[Record]:
    """As parts say it."""
    found: list[Record] = []
    while offset < log.end_offset("t", 0):
        chunk = log.read("t", 0, offset, **limits)
        parts = chunk.parts or RecordParts()
        for row, value in enumerate(chunk.values):
            assert parts.key(row) == (None if chunk.keys is None else chunk.keys[row])
            assert not (parts.is_null(row) and value)
            found.append(Record(None if parts.is_null(row) else value, parts.key(row), parts.headers_of(row)))
        offset = chunk.next_offset
    return found


def asked(record: Record) -> Record:
    return record._replace(headers={name: value for name, value in record.headers.items() if name in NAMES})


def test_are_read_as_they_were_written(log: Log) -> None:
    rng = random.Random(5)
    records = [drawn(rng) for _ in range(ROWS)]
    for first in range(0, ROWS, 100):
        done = log.append_records("t", 0, records[first : first + 100])
        assert (done.first_offset, done.count) == (first, 100)
    plain = [b"plain%d" % number for number in range(50)]
    log.append("t", 0, plain, keys=[None, *[b"k"] * 49])
    log.append("t", 0, plain)
    records += [Record(value, b"k" if number else None) for number, value in enumerate(plain)]
    records += [Record(value) for value in plain]
    log.use_record_parts("t", NAMES)
    for limits in ({}, {"max_records": 7}, {"max_bytes": 900}):
        assert read_all(log, **limits) == [asked(record) for record in records]
    assert read_all(log, 250) == [asked(record) for record in records[250:]]


def test_remain_where_the_records_before_them_are_deleted(log: Log) -> None:
    log.use_record_parts("t", NAMES)
    records = [Record(None if number % 3 else b"v", b"%d" % number, {"trace": b"%d" % number}) for number in range(20)]
    log.append_records("t", 0, records)
    log.delete_before("t", 0, 7)
    assert read_all(log, 7) == records[7:]


def test_are_left_out_where_nobody_asks(log: Log) -> None:
    log.append_records("t", 0, [Record(None, b"k", {"trace": b"1"}), Record(b"v")])
    chunk = log.read("t", 0, 0)
    assert (list(chunk.values), chunk.keys, chunk.parts) == ([b"", b"v"], [b"k", None], None)
    assert not any(chunk.headers)


def test_of_the_wrong_type_or_size_are_refused(log: Log, maker: Maker) -> None:
    with pytest.raises(TypeError, match="headers are bytes"):
        log.append_records("t", 0, [Record(b"v", None, {"trace": "text"})])  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="records are bytes"):
        log.append_records("t", 0, [Record(b"v", "key")])  # type: ignore[arg-type]
    with pytest.raises(RecordTooLarge, match="record 1 of the batch"):
        log.append_records("t", 0, [Record(b"v"), Record(b"", None, {"trace": b"x" * maker.max_record_bytes})])
    assert log.append_records("t", 0, []).count == 0
    assert log.end_offset("t", 0) == 0
