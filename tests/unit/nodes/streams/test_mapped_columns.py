"""Columns beyond the memory for state lie in files without names, and are the same arrays there."""

import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.errors import RunFailed
from nodes.settings.settings import load_settings
from nodes.streams import mapped_columns as module
from nodes.streams.mapped_columns import MappedColumns, MappedFile, mapped_columns

INT = np.dtype(np.int64)
ROWS = 4096
SIZE = ROWS * INT.itemsize


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def columns(tmp_path: Path, reports: list[str]) -> MappedColumns:
    return MappedColumns(str(tmp_path / "spill"), 2 * SIZE, reports.append)


def test_columns_lie_in_memory_up_to_the_budget_and_then_in_files(columns: MappedColumns) -> None:
    held = [columns.filled(ROWS, number, INT) for number in range(5)]
    assert columns.sizes() == (2 * SIZE, 3 * SIZE)
    assert [column.tolist() for column in held] == [[number] * ROWS for number in range(5)]
    for number, column in enumerate(held):
        column[number] = 77
    assert [int(np.count_nonzero(column == 77)) for column in held] == [1] * 5


@pytest.mark.parametrize("dtype", [np.int32, np.float64, np.uint8, np.bool_])
def test_columns_of_all_types_lie_there(columns: MappedColumns, dtype: Any) -> None:
    columns.budget_bytes = 0
    for fill in (0, 1):
        column = columns.filled(40_001, fill, np.dtype(dtype))
        assert column.dtype == dtype and column.flags.writeable and (column == dtype(fill)).all()
    assert columns.sizes()[0] == 0


def test_what_nobody_has_any_more_makes_room(columns: MappedColumns) -> None:
    held = [columns.filled(ROWS, 1, INT) for _ in range(4)]
    view = held[0][10:20]
    del held[0], held[-1]
    gc.collect()
    assert columns.sizes() == (2 * SIZE, SIZE), "a view keeps its column"
    del view
    gc.collect()
    assert columns.sizes() == (SIZE, SIZE)
    again = columns.filled(ROWS, 0, INT)
    assert columns.sizes() == (2 * SIZE, SIZE)
    assert not again.any()


def test_pages_of_a_column_that_has_gone_leave_the_disk(columns: MappedColumns, monkeypatch: Any) -> None:
    freed: list[tuple[MappedFile, int, bytes]] = []
    free = MappedFile.free

    def watched(file: MappedFile, start: int, size: int) -> None:
        before = file.memory[start : start + size]
        free(file, start, size)
        freed.append((file, start, before))

    monkeypatch.setattr(MappedFile, "free", watched)
    columns.budget_bytes = 0
    other, column = columns.filled(ROWS, 7, INT), columns.filled(ROWS, 5, INT)
    del column
    gc.collect()
    ((file, start, before),) = freed
    assert before == np.full(ROWS, 5, INT).tobytes()
    assert file.memory[start : start + SIZE] == bytes(SIZE), "no page of it is in the file any more"
    assert (other == 7).all()


def test_a_column_that_is_longer_than_a_file_has_its_own(columns: MappedColumns) -> None:
    columns.file_bytes = SIZE
    columns.budget_bytes = 0
    short, long = columns.filled(ROWS, 1, INT), columns.filled(3 * ROWS, 2, INT)
    assert columns.sizes() == (0, 4 * SIZE)
    assert (short == 1).all() and (long == 2).all()


def test_a_column_that_came_from_elsewhere_is_counted_or_copied(columns: MappedColumns) -> None:
    given = [np.full(ROWS, number, INT) for number in range(3)]
    held = [columns.kept(column) for column in given]
    assert held[0] is given[0] and held[1] is given[1] and held[2] is not given[2]
    assert (held[2] == 2).all()
    assert columns.sizes() == (2 * SIZE, SIZE)


def test_files_have_no_names(columns: MappedColumns) -> None:
    columns.budget_bytes = 0
    column = columns.filled(ROWS, 1, INT)
    assert os.listdir(columns.folder) == []
    assert any(module.COLUMNS_FILE in line for line in Path("/proc/self/maps").read_text().splitlines())
    assert column.any()


def test_without_room_on_the_disk_a_column_stays_in_memory(
    columns: MappedColumns, reports: list[str], monkeypatch: Any
) -> None:
    columns.budget_bytes = 0
    reserve: Callable[..., None] = os.posix_fallocate
    tries: list[int] = []

    def full(file: int, start: int, size: int) -> None:
        tries.append(size)
        raise OSError(errno.ENOSPC, "No space left on device")

    columns.file_bytes = SIZE
    monkeypatch.setattr(os, "posix_fallocate", full)
    held = [columns.filled(ROWS, 1, INT), columns.kept(np.full(ROWS, 2, INT))]
    assert columns.sizes() == (2 * SIZE, 0)
    assert tries == [SIZE], "a full disk is not asked again for each column, but once a file's bytes are in memory"
    assert [int(column[0]) for column in held] == [1, 2]
    assert len(reports) == 1, "once, until there was room again"
    assert "No space left" in reports[0] and "node.state_path" in reports[0] and columns.folder in reports[0]
    assert os.listdir(columns.folder) == []
    monkeypatch.setattr(os, "posix_fallocate", reserve)
    held.append(columns.filled(ROWS, 3, INT))
    assert columns.sizes() == (2 * SIZE, SIZE)
    monkeypatch.setattr(os, "posix_fallocate", full)
    held.append(columns.filled(ROWS, 4, INT))
    assert len(reports) == 2


def test_a_folder_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path, reports: list[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFailed, match=r"cannot be spilled to .*file/spill.*node\.state_path"):
        MappedColumns(str(tmp_path / "file" / "spill"), 1, reports.append)


def test_settings_say_where_and_how_much(tmp_path: Path, reports: list[str]) -> None:
    def given(*definitions: str) -> MappedColumns | None:
        return mapped_columns(load_settings(definitions=definitions, environ={}, directory=tmp_path), reports.append)

    assert given(f"log.path={tmp_path}/log") is None
    beside = given(f"log.path={tmp_path}/log", "node.state_memory_mb=3")
    assert beside is not None and beside.folder == f"{tmp_path}/log/holon-spill" and beside.budget_bytes == 3 << 20
    named = given(f"log.path={tmp_path}/log", "node.state_memory_mb=3", f"node.state_path={tmp_path}/there")
    assert named is not None and named.folder == f"{tmp_path}/there"
