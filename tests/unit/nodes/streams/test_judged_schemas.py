"""Schemas of records as `holon replay` and `holon profile` take them: the nodes' verdicts first, then the registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from holon import Context, Job, Source
from holon.avro import Avro
from holon.formats.input_run import Input
from holon.formats.registry import FoundSchema, RegisteredSchema, UnknownSchema, head_of
from holon.input_layout import InputLayout
from nodes.errors import Unreachable
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.machine.ownership.schemas import SchemaFold
from nodes.profiling.records import Run, without_refused
from nodes.replay.child import FedRecord, ReplayInput, steps
from nodes.replay.comparison import RecordPlace, judge
from nodes.schema_registry.commands import known_schemas
from nodes.streams.control_history import schema_verdicts
from nodes.streams.jobs import open_job
from nodes.streams.judged_schemas import JudgedSchemas

URL = "http://registry"
FIRST, LATE, LACKING, GIVEN = 1, 2, 3, 9
ROW: Any = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "long"}]}
KNOWN = {id: RegisteredSchema(msgspec.json.encode(ROW).decode()) for id in (FIRST, LATE)}
WHY = "the registry has no schema 2"


class Row(msgspec.Struct):
    n: int


def by_record(row: Row, ctx: Context) -> None:
    ctx.emit(row.n)


def job() -> Job[Row]:
    form = Avro(Row, registry=URL, schemas={GIVEN: ROW})
    return Job("j", Source("in", form), by_record, output="out", on_error="dead-letter")


def row(id: int, n: int = 0) -> bytes:
    return head_of(id) + bytes([2 * n])


def fetch(url: str, id: int) -> FoundSchema:
    assert (url, id) != (URL, GIVEN)
    return KNOWN.get(id, UnknownSchema())


def verdicts(*records: tuple[list[int], int]) -> SchemaFold:
    fold = SchemaFold()
    for known, before in records:
        fold.take(0, 0, known, before)
    return fold


def judged(made: Job[Row], fold: SchemaFold) -> JudgedSchemas:
    return JudgedSchemas(InputLayout(made.sources, (1,)), fold, fetch)


def test_a_record_is_dead_if_it_was_for_nodes_though_the_registry_has_its_schema_now() -> None:
    schemas = judged(job(), verdicts(([FIRST], 2), ([LATE], 3)))
    values = [row(FIRST), row(LATE), row(LATE), row(LATE), row(GIVEN), b"\x01", b""]
    assert schemas.judge(0, enumerate(values)) == {1: WHY}
    assert (schemas.refused, schemas.undecided) == (1, 0)
    assert len(schemas.remarks()) == 1 and "1 records are dead letters, as for nodes" in schemas.remarks()[0]


def test_records_that_no_node_has_judged_are_counted_if_the_registry_lacks_their_schema() -> None:
    schemas = judged(job(), verdicts(([FIRST], 1)))
    assert schemas.judge(0, [(0, row(LACKING)), (1, row(LATE)), (2, row(LACKING)), (3, row(LACKING))]) == {0: (
        "the registry has no schema 3"
    )}  # fmt: skip
    assert (schemas.refused, schemas.undecided) == (1, 2)
    assert "events for nodes if the schema is registered by then" in schemas.remarks()[1]


def test_a_registry_that_lacks_what_nodes_have_read_gives_no_result() -> None:
    with pytest.raises(Unreachable, match=r"lacks schema 3, by which nodes read in\[0\] offset 5"):
        judged(job(), verdicts(([LACKING], 0))).judge(0, [(5, row(LACKING))])


def test_verdicts_are_those_of_the_control_topic_since_the_last_reset() -> None:
    log, made = MemoryLog(), job()
    log.create_topic("in", 1)
    assert schema_verdicts(log, made).end(0) == 0
    run = open_job(log, made)
    log.append(made.control_topic, 0, [m.encode(m.SchemasFound(run.incarnation, "a", 0, 0, [FIRST], 7))])
    assert schema_verdicts(log, made).verdict(0, 0, 6, LATE) is False
    open_job(log, made, reset=True)
    assert schema_verdicts(log, made).verdict(0, 0, 6, LATE) is None


def test_a_replay_and_a_profile_make_a_dead_letter_of_a_refused_record() -> None:
    made, fold = job(), verdicts(([FIRST], 2), ([LATE], 2))
    values = [row(FIRST, 1), row(LATE, 2), row(LATE, 3)]
    places = [RecordPlace(n, 0, n, value) for n, value in enumerate(values)]
    judge(places, 1, judged(made, fold))
    records = [FedRecord(0, place.stamp_ms, place.value, refused=place.refused) for place in places]
    given = ReplayInput("", None, [], {"in": 1}, records, False, known_schemas(made.formats))
    found = [(name, value) for step in steps(made, given) for name, _, _, value in step.outputs]
    assert [value for name, value in found if name == "main"] == [b"1", b"3"]
    assert [msgspec.json.decode(value)["reason"] for name, value in found if name == "dead"] == [WHY]

    class Records:
        partitions: tuple[int, ...] = (1,)

        def runs(self, batch: int) -> Iterator[Run]:
            for start in range(0, len(values), batch):
                cut: Sequence[bytes] = values[start : start + batch]
                yield 0, Input(np.arange(start, start + len(cut)), np.zeros(len(cut), np.int64), cut, start + len(cut))

    runs = list(without_refused(Records(), judged(made, fold), 2).runs(2))
    assert [dict(run.refused or {}) for _, run in runs] == [{1: WHY}, {1: WHY}]
