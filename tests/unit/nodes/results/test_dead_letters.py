"""Letters that are appended to the input again (nodes/results/dead_letters.py)."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from holon import Context, Job, Json, ProcessingFunction, Source
from holon.arrow import ArrowColumns
from holon.columnar.atoms.writing import write_atom
from holon.outputs.letters import WHOLE_LETTER_BYTES, Diverted
from nodes.errors import RunFailed, UnknownName
from nodes.log import MemoryLog
from nodes.log.contract import Record
from nodes.results.dead_letters import letter_place, place_of, place_text, replay, whole_payload, whole_record


class Event(msgspec.Struct):
    at: int


class Passing(ProcessingFunction[Any]):
    def process(self, event: Any, ctx: Context) -> None:
        ctx.emit(event)


def job_reading(reads: Any, timestamp: Any) -> Job[Any]:
    return Job("dead", Source("in", reads, timestamp=timestamp), Passing, output="out", on_error="dead-letter")


def letter_of(offset: int, payload: bytes, place: int | None = None) -> Diverted:
    return Diverted("in", 0, offset, 0, "no event", payload, place).shortened()


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create_topic("in", 1)
    return log


JOB = job_reading(Json(Event), lambda event: event.at)


def test_key_and_null_value_go_back_where_the_events_hold_no_part_of_a_record(log: MemoryLog) -> None:
    records = [Record(b"{}", b"a"), Record(None, b"b"), Record(b"", None)]
    log.append_records("in", 0, records)
    letters = [letter_of(offset, record.value or b"") for offset, record in enumerate(records)]
    assert replay(log, JOB, letters) == {("in", 0): 3}
    chunk = log.read("in", 0, 3)
    assert chunk.parts is not None
    assert [(chunk.parts.key(row), chunk.parts.is_null(row), chunk.values[row]) for row in range(3)] == [
        (b"a", False, b"{}"),
        (b"b", True, b""),
        (None, False, b""),
    ]


def test_the_value_goes_back_alone_where_the_input_has_lost_the_record(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.append_records("in", 0, [Record(b"{}", b"a"), Record(b"other", b"b")])
    log.delete_before("in", 0, 1)
    assert whole_record(log, JOB, letter_of(0, b"{}")) == Record(b"{}")
    assert "in[0] offset 0: the input does not hold its record any more" in caplog.text
    assert whole_record(log, JOB, letter_of(1, b"{}")) == Record(b"{}")
    assert "in[0] offset 1: the input holds another record there now" in caplog.text


def test_one_event_of_a_large_record_batch_goes_back_alone_and_whole(log: MemoryLog) -> None:
    job = job_reading(ArrowColumns({"at": int, "text": str}), "at")
    texts = ["a" * WHOLE_LETTER_BYTES, "b" * (WHOLE_LETTER_BYTES + 1)]
    batch = pa.RecordBatch.from_pydict({"at": [1, 2], "text": texts})
    log.append_records("in", 0, [Record(write_atom(batch), b"key")])
    alone = write_atom(batch.slice(1, 1))
    letter = letter_of(0, alone, place=1)
    assert letter.size == len(alone)
    assert whole_payload(log, job, letter) == alone
    assert whole_record(log, job, letter) == Record(alone, b"key")
    log.delete_before("in", 0, 1)
    log.append("in", 0, [b"no batch"])
    for offset, place in ((0, 1), (1, 1), (1, 0)):
        with pytest.raises(RunFailed, match=rf"in\[0\] offset {offset}: the input "):
            whole_record(log, job, msgspec.structs.replace(letter, offset=offset, place=place))


def of_a_row(log: MemoryLog, end: int, number: int) -> Diverted:
    window = (end - 10, end)
    return Diverted("in", 0, -1, end - 1, "raised", b"{}", window=window, number=number, step="step 3", row_key=7)


@pytest.mark.parametrize("text", ["0:12", "3:@5000.0", "0:@-10.2", "eu.clicks-2:0:12", "eu:3:@5000.0"])
def test_a_place_names_a_record_or_a_row_behind_a_window(text: str) -> None:
    assert place_text(place_of(text)) == text


@pytest.mark.parametrize("text", ["", "0", "0:", "x:1", "0:@5", "0:@5.", "0:5.1", "0:-1", ":0:1", "a:b:0:1"])
def test_other_places_are_refused(text: str) -> None:
    with pytest.raises(UnknownName, match="PARTITION:OFFSET"):
        place_of(text)


def test_a_row_behind_a_window_is_found_by_its_place_and_not_replayed(log: MemoryLog) -> None:
    job = job_reading(Json(Event), lambda event: event.at)
    log.create_topic("dead.dead", 1)
    letters = [of_a_row(log, 20, 0), of_a_row(log, 20, 1), letter_of(0, b"bad")]
    log.append("dead.dead", 0, [msgspec.json.encode(letter) for letter in letters])
    assert [place_text(letter_place(job, letter)) for letter in letters] == ["0:@20.0", "0:@20.1", "0:0"]
    before = log.end_offset("in", 0)
    with pytest.raises(RunFailed, match=r"0:@20.1 is a row of window \(10, 20\), no record of in, so nothing was"):
        replay(log, job, [letters[2], letters[1]])
    assert log.end_offset("in", 0) == before
    assert whole_payload(log, job, letters[1]) == b"{}"
