"""Records that are dead whatever their values are: their letters hold the values, and nobody sees the events."""

from __future__ import annotations

import json
from base64 import b64decode
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest

from holon import Batch, Context, Job, Source
from holon.avro import Avro, AvroColumns
from holon.formats.input_run import Input
from holon.formats.registry import head_of
from holon.job import DEAD, MAIN
from holon.testing import JobTestDriver
from holon.tracks.task import PartitionTask

SCHEMA = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "long"}]}
VALUES = [head_of(7) + bytes([2 * n]) for n in range(6)]
URL = "http://registry"


class Row(msgspec.Struct):
    n: int


def by_record(row: Row, ctx: Context) -> None:
    ctx.emit(row.n)


def by_batch(batch: Batch[Row], ctx: Context) -> None:
    for row, n in enumerate(batch.columns["n"].tolist()):
        ctx.emit(n, row=row)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("cuts", [(0, 6), (0, 1, 2, 3, 6), (0, 3, 6)])
def test_a_refused_record_is_dead_though_its_value_can_be_read(columns: bool, cuts: tuple[int, ...]) -> None:
    form: Any = (AvroColumns if columns else Avro)(Row, registry=URL, schemas={7: SCHEMA})
    given: dict[str, Any] = {"process_batch": by_batch} if columns else {"process": by_record}
    test = JobTestDriver(Job("j", Source("in", form), output="out", **given), 1)
    task: PartitionTask = test.tasks[0]
    offsets = np.arange(10, 16, dtype=np.int64)
    whole = Input(offsets, np.zeros(6, np.int64), VALUES, 16, refused={11: "why", 14: "other", 99: "none"})
    for start, end in pairwise(cuts):
        task.feed(whole.cut(start, end))
    found = {name: run.values for (name, _), run in task.take_outputs().items()}
    assert list(map(json.loads, found[MAIN])) == [0, 2, 3, 5]
    letters = [json.loads(value) for value in found[DEAD]]
    assert [(x["offset"], x["reason"], b64decode(x["payload"])) for x in letters] == [
        (11, "why", VALUES[1]),
        (14, "other", VALUES[4]),
    ]
    assert (task.counts.accepted, task.counts.dead, task.next_offset) == (4, 2, 16)
