"""Keyed state beyond ``node.state_memory_mb`` lies in files, through a kill and a takeover, and results are exact."""

from __future__ import annotations

from pathlib import Path

from nodes.metrics.process_memory import COLUMNS_FILE
from tests.integration.fleet_support import SLOWLY_SUSPECTED, Stage
from tests.integration.jobs_mixed import OUTPUT
from tests.integration.jobs_sharded import expected_of_keys

JOB = "tests.integration.jobs_sharded:many_keys"


def files_of(pid: int) -> list[str]:
    """The lines of a process's mappings that are files of columns."""
    return [line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if COLUMNS_FILE in line]


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
