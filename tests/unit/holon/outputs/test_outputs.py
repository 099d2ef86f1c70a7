"""The outputs of a job: encodings, routing, identities, and the errors of emitting wrongly."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from holon import (
    Batch,
    Context,
    Job,
    JobError,
    JsonColumns,
    Output,
    OutputId,
    ProcessingFunction,
    Source,
    Track,
    UserFunctionError,
    Window,
)
from holon.columnar.payloads import BinaryColumn
from holon.outputs.partitioner import murmur2
from holon.testing import JobTestDriver
from tests.unit.holon_jobs import Base, Event, Reading, feeding, job

ROUTED = {"routed": Output("routed", route_by_key=True, partitions=5)}


def batch_job(process_batch: Any, **options: Any) -> JobTestDriver:
    source = Source("events", JsonColumns(Reading), "ts")
    test = JobTestDriver(Job("test", source, process_batch=process_batch, output="out", **options))
    test.feed(0, *({"ts": ts} for ts in range(4)))
    return test


def identities(test: JobTestDriver, output: str = "main") -> list[tuple[int, int]]:
    return [(identity.position, identity.n) for _, identity, _ in test.raw_outputs(output) if identity is not None]


def test_an_identity_names_what_caused_the_output() -> None:
    class Emits(Base):
        def process(self, event: Event, ctx: Context) -> None:
            super().process(event, ctx)
            ctx.emit("a")
            ctx.emit_many(["b", "c"])

        def answer(self, window: Window, ctx: Context) -> Any:
            ctx.emit("window")

    test = JobTestDriver(job(Emits), partitions=2)
    test.feed(1, {"ts": 3}, {"ts": 12})
    test.finish()
    found = [identity for to, identity, _ in test.raw_outputs() if to == 1]
    assert found == [
        *(OutputId("test", 0, 1, Track.RECORD, offset, n) for offset in (0, 1) for n in (0, 1, 2)),
        OutputId("test", 0, 1, Track.WINDOW, 10, 0),
        OutputId("test", 0, 1, Track.WINDOW, 20, 0),
    ]


def test_results_in_one_buffer_are_named_as_single_ones() -> None:
    def by_columns(batch: Batch[Reading], ctx: Context) -> None:
        ctx.emit_many(BinaryColumn.of([b"%d" % ts for ts in batch.ts_ms.tolist()]))
        ctx.emit_many(BinaryColumn.of([b"7", b"8"]), np.array([1, 1]), keys=[b"k", None])

    def one_by_one(batch: Batch[Reading], ctx: Context) -> None:
        ctx.emit_many(batch.ts_ms)
        ctx.emit_many([7, 8], np.array([1, 1]), keys=[b"k", None])

    assert batch_job(by_columns).raw_outputs() == batch_job(one_by_one).raw_outputs() != []


def test_a_batch_numbers_its_results_by_row_whatever_the_order_of_calls() -> None:
    def process_batch(batch: Batch[Reading], ctx: Context) -> None:
        ctx.emit("x", row=3)
        ctx.emit_many(["a", "b"], np.array([2, 0]))
        ctx.emit("y", row=2)
        ctx.emit_many([], np.array([], dtype=np.intp))
        ctx.emit_many(batch.ts_ms)

    test = batch_job(process_batch)
    assert identities(test) == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1)]
    assert test.outputs() == ["b", 0, 1, "a", "y", 2, "x", 3]


def test_what_is_emitted_is_what_it_was_then() -> None:
    def process_batch(batch: Batch[Reading], ctx: Context) -> None:
        shared: list[int] = []
        for row in range(len(batch)):
            shared.append(row)
            ctx.emit(shared, row=row)

    assert batch_job(process_batch).outputs() == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]


def test_keys_go_to_the_partition_of_kafkas_default_partitioner() -> None:
    """Reference values of the Java client's ``Utils.murmur2``, as librdkafka's tests list them."""
    known = {b"kafka": 0xD067CF64, b"giberish123456789": 0x8F552B0C, b"1234": 0x9FC97B14, b"": 0x106E08D9}
    assert {key: murmur2(key) for key in known} == known

    class Routes(Base):
        def process(self, event: Event, ctx: Context) -> None:
            ctx.emit(1, output="routed", key=b"kafka")

    test = feeding(Routes, {"ts": 1}, side_outputs=ROUTED)
    assert [to for to, _, _ in test.raw_outputs("routed")] == [(known[b"kafka"] & 0x7FFFFFFF) % 5]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (np.int64(3), b"3"),
        (np.array([1.5, 2]), b"[1.5,2.0]"),
        ({"a": np.True_}, b'{"a":true}'),
        (Decimal("1.50"), b'"1.50"'),
        (b"raw", b"raw"),
    ],
)
def test_results_are_json_unless_they_are_bytes(value: Any, encoded: bytes) -> None:
    class Emits(Base):
        def process(self, event: Event, ctx: Context) -> None:
            ctx.emit(value)

    assert [found for _, _, found in feeding(Emits, {"ts": 1}).raw_outputs()] == [encoded]


@pytest.mark.parametrize(
    ("emit", "match"),
    [
        (lambda ctx: ctx.emit(object()), "JSON cannot hold a value of type object; give the Output an encode="),
        (lambda ctx: ctx.emit(1, output="other"), "emit to 'other', but the job's outputs are main, routed"),
        (lambda ctx: ctx.emit(1, output="late"), "emit to 'late', but the job's outputs are main, routed"),
        (lambda ctx: ctx.emit(1, output="routed"), "output 'routed' routes by key: emit needs key="),
        (lambda ctx: ctx.emit(1, row=0), "row= names a row of a batch"),
        (lambda ctx: ctx.emit_many([1], np.array([0])), "rows= names rows of a batch"),
        (lambda ctx: ctx.emit_many([1, 2], keys=[b"x"]), "2 values got 1 keys"),
    ],
)
def test_emitting_wrongly_says_what_to_change(emit: Any, match: str) -> None:
    class Emits(Base):
        def process(self, event: Event, ctx: Context) -> None:
            emit(ctx)

    with pytest.raises(UserFunctionError, match=match):
        feeding(Emits, {"ts": 1}, side_outputs=ROUTED)


@pytest.mark.parametrize(
    ("emit", "match"),
    [
        (lambda ctx: ctx.emit(1), "emit in a batch function needs row="),
        (lambda ctx: ctx.emit(1, row=4), "row 4 of a batch of 4 rows"),
        (lambda ctx: ctx.emit_many([1, 2]), "emit_many of 2 values for 4 rows needs rows="),
        (lambda ctx: ctx.emit_many([1, 2], np.array([0])), "emit_many of 2 values got 1 rows"),
        (lambda ctx: ctx.emit_many([1, 2], np.array([0, 4])), "rows 0 to 4 of a batch of 4 rows"),
        (lambda ctx: ctx.emit_many([1, 2], np.array([-1, 0])), "rows -1 to 0 of a batch of 4 rows"),
        (lambda ctx: ctx.emit_many([1] * 4, output="routed"), "emit_many needs keys="),
        (lambda ctx: ctx.emit_many([1] * 4, output="routed", keys=[b"", None, b"", b""]), "none of them None"),
    ],
)
def test_emitting_wrongly_from_a_batch_says_what_to_change(emit: Any, match: str) -> None:
    with pytest.raises(UserFunctionError, match=match):
        batch_job(lambda batch, ctx: emit(ctx), side_outputs=ROUTED)


def test_a_job_without_outputs_may_be_run_for_its_states() -> None:
    class Quiet(ProcessingFunction[Event]):
        def process(self, event: Event, ctx: Context) -> None: ...

    made = Job("quiet", job(Base).source, Quiet)
    assert sorted(made.outputs) == ["dead", "late", "unstable"]
    with pytest.raises(JobError, match="outputs need topics of their own"):
        Job("quiet", job(Base).source, Quiet, late_topic="events")
