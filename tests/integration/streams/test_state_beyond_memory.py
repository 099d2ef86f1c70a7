"""Keyed state beyond ``node.state_memory_mb`` lies in files, through a kill and a takeover, and results are exact."""

from __future__ import annotations

import mmap
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nodes.metrics.process_memory import COLUMNS_FILE
from nodes.runtime.trial_process import Note, TrialLimits, tried_apart
from nodes.streams.mapped_columns import MappedColumns
from tests.integration.fleet_support import SLOWLY_SUSPECTED, Stage, run_command
from tests.integration.jobs_mixed import INPUT, OUTPUT, Event
from tests.integration.jobs_sharded import expected_of_keys

JOB = "tests.integration.jobs_sharded:many_keys"


def files_of(pid: int) -> list[str]:
    """The lines of a process's mappings that are files of columns."""
    return [line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if COLUMNS_FILE in line]


@pytest.mark.long
def test_state_in_files_is_exact_though_a_node_is_killed(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path, "node.state_memory_mb=1", f"node.state_path={tmp_path}/spill", "node.batch_max_records=5000",
        "node.checkpoint_interval_ms=500", SLOWLY_SUSPECTED,
    )  # fmt: skip
    stage.feed(80_000)
    run = stage.open(JOB)
    with stage.fleet(2, JOB) as fleet:
        monitor = stage.monitor(run)
        pids = [member.process.pid for member in fleet.members]
        stage.until(monitor, lambda: all(map(files_of, pids)), "both nodes have columns in files", fleet)
        assert list(Path(tmp_path, "spill").iterdir()) == [], "files have no names"
        fleet.members[0].process.kill()
        stage.feed(20_000)
        stage.finish(run, fleet)
    assert stage.results(OUTPUT) == expected_of_keys(stage.events)
    stage.log.close()


def test_a_step_that_is_tried_apart_works_on_the_columns_and_changes_none(tmp_path: Path) -> None:
    """Else a fork that cannot read them would end at records that are good, and one that shares them change results."""
    columns, answer = MappedColumns(str(tmp_path), 0, print), mmap.mmap(-1, 4096)
    held = [columns.filled(100_000, number, np.dtype(np.int64)) for number in range(3)]

    def step(note: Note) -> None:
        seen = [int(column.sum()) for column in held]
        for column in held:
            column += 1
        fresh = columns.filled(100_000, 9, np.dtype(np.int64))
        del held[0]
        text = repr((seen, [int(column.sum()) for column in (*held, fresh)])).encode()
        answer[: len(text)] = text

    assert tried_apart(step, TrialLimits(10_000, 500), lambda: None) is None
    assert answer[:].rstrip(b"\0") == b"([0, 100000, 200000], [200000, 300000, 900000])"
    assert [int(column.sum()) for column in held] == [0, 100_000, 200_000]
    held.append(columns.filled(100_000, 4, np.dtype(np.int64)))
    assert [int(column.sum()) for column in held] == [0, 100_000, 200_000, 400_000]


def test_a_record_that_ends_its_process_is_found_beside_state_in_files(tmp_path: Path) -> None:
    """The trial inserts into the columns; all other records count."""
    stage = Stage(
        tmp_path, "node.state_memory_mb=1", f"node.state_path={tmp_path}/spill", "node.batch_max_records=5000",
        "node.checkpoint_interval_ms=500",
    )  # fmt: skip
    stage.feed(80_000)
    at = stage.log.end_offset(INPUT, 1)
    stage.log.append(INPUT, 1, [msgspec.json.encode(Event(ts=1, id=1, amount=1, poison="end the process"))])
    stage.feed(2_000)
    with run_command(stage, "--nodes", "2", "--bounded", "--on-error", "dead-letter", job=JOB) as command:
        code, out, err = command.finish()
    assert code == 0, err
    result = msgspec.json.decode(out)
    assert (result["accepted"], result["dead"], result["conserved"]) == (82_000, 1, True)
    letters = stage.log.read("many-keys.dead", 1, 0).values
    assert [msgspec.json.decode(letter)["offset"] for letter in letters] == [at]
    assert stage.results(OUTPUT) == expected_of_keys(stage.events)
    stage.log.close()
