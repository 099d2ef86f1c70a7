"""How a job's records are read: as columns from the log wherever that is quicker, and as what each format takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from holon import Job, Json, JsonColumns, Raw, Source
from holon.arrow import ArrowColumns
from holon.columnar.payloads import BinaryColumn
from holon.dataflow.record_functions.followed import with_column_forms
from holon.formats.formats import Decoded
from holon.formats.input_run import Input
from holon.testing import JobTestDriver
from holon.tracks.task import PartitionTask
from nodes.compiled import loading as compiled
from nodes.log import MemoryLog
from nodes.streams.io import inputs


class Row(msgspec.Struct):
    n: int


class ColumnLog(MemoryLog):
    """Notes whether columns were requested."""

    columns = False

    def use_columns(self, without_headers: str | None = None) -> bool:
        self.columns = True
        return True


class Loops:
    """In place of loading: the loops are there, once somebody builds them or has built them."""

    def __init__(self, built: bool) -> None:
        self.built = built

    def ensure(self, *, build: bool = True) -> bool:
        self.built |= build
        return self.built


def job(*formats: Any) -> Job[Any]:
    sources = [Source(f"in{n}", form) for n, form in enumerate(formats)]
    return Job("read", sources, lambda event, ctx: None, output="out")


@pytest.mark.parametrize(
    ("formats", "for_objects", "built", "columns"),
    [
        ((Json(Row),), True, False, True),  # Kafka: the way from the broker is half of the cost
        ((Json(Row), Raw()), True, False, True),
        ((Json(Row),), False, False, False),  # nobody waits half a minute for a twentieth
        ((Json(Row),), False, True, True),
        ((ArrowColumns(Row),), False, False, True),
        ((Json(Row), ArrowColumns(Row)), False, False, True),
    ],
)
def test_records_are_read_as_columns_where_loops_can_be_had(
    monkeypatch: pytest.MonkeyPatch, formats: tuple[Any, ...], for_objects: bool, built: bool, columns: bool
) -> None:
    monkeypatch.setattr(inputs, "compiled", Loops(built))
    log = ColumnLog()
    assert inputs.use_columns(log, job(*formats), build_for_objects=for_objects) is columns
    assert log.columns is columns


def test_a_log_says_what_takes_records_one_by_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(inputs, "compiled", Loops(built=True))
    with caplog.at_level("INFO"):
        inputs.use_columns(ColumnLog(), job(Json(Row), ArrowColumns(Row)), build_for_objects=True)
    assert caplog.messages == ["records of in0 become objects one by one, as Json takes them"]


def test_missing_loops_are_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(compiled, "ensure", lambda **given: False)
    with caplog.at_level("INFO"):
        assert not inputs.use_columns(ColumnLog(), job(ArrowColumns(Row), Json(Row)), build_for_objects=True)
    assert caplog.messages == [
        "records of in0 are read one by one: the compiled loops are missing",
        "records of in1 become objects one by one, as Json takes them",
        "records of in1 are read one by one: the compiled loops are missing",
    ]


@pytest.mark.parametrize(
    ("built", "told"),
    [
        (True, ["records of in0 go by columns where many come at once: process is followed"]),
        (
            False,
            [
                "records of in0 become objects one by one, as Json takes them",
                "records of in0 are read one by one: the compiled loops are missing",
            ],
        ),
    ],
)
def test_a_log_says_that_a_function_is_followed_where_loops_are_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, built: bool, told: list[str]
) -> None:
    monkeypatch.setattr(inputs, "compiled", Loops(built))
    with caplog.at_level("INFO"):
        inputs.use_columns(ColumnLog(), with_column_forms(job(Json(Row))), build_for_objects=False)
    assert caplog.messages == told


class OwnFormat:
    """A user's: it knows of no columns."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def decode(self, payloads: Sequence[bytes]) -> Decoded[int]:
        self.seen.append(payloads)
        return Decoded(None, events=[int(payload) for payload in payloads])

    def describe(self) -> str:
        return "own"


def fed(form: Any, payloads: Sequence[bytes], **given: Any) -> PartitionTask:
    test = JobTestDriver(Job("j", Source("in", form), output="out", **given), 1)
    task: PartitionTask = test.tasks[0]
    whole = BinaryColumn.of(payloads)
    offsets, times = np.arange(len(whole)), np.zeros(len(whole), np.int64)
    task.feed(Input(offsets, times, whole, len(whole)))
    return task


def test_a_format_that_knows_no_columns_gets_a_list() -> None:
    form = OwnFormat()
    task = fed(form, [b"1", b"2", b"3"], process=lambda event, ctx: ctx.emit(event))
    assert form.seen == [[b"1", b"2", b"3"]]
    assert type(form.seen[0]) is list
    assert task.counts.accepted == 3


def test_raw_events_are_bytes() -> None:
    seen: list[Any] = []
    fed(Raw(), [b"a", b"", b"\xff"], process=lambda event, ctx: seen.append(event))
    assert seen == [b"a", b"", b"\xff"]
    assert {type(event) for event in seen} == {bytes}


def test_columns_stay_columns_for_a_format_that_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    form, seen = JsonColumns(Row), []
    decode = form.decode
    monkeypatch.setattr(form, "decode", lambda payloads: (seen.append(type(payloads)), decode(payloads))[1])
    fed(form, [b'{"n":1}'] * 3, process_batch=lambda batch, ctx: None)
    assert seen == [BinaryColumn]
