"""Letters that are appended to the input again (nodes/results/dead_letters.py)."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from holon import Context, Job, Json, ProcessingFunction, Source
from holon.arrow import ArrowColumns
from holon.columnar.atoms import write_atom
from holon.tracks.admission import WHOLE_LETTER_BYTES, Diverted
from nodes.errors import RunFailed
from nodes.log import MemoryLog
from nodes.log.contract import Record
from nodes.results.dead_letters import replay, whole_payload, whole_record


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
    assert replay(log, JOB, letters) == {0: 3}
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
