"""The benchmark's meters and kills at real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nexmark.bench.meter import EngineMeter
from nexmark.bench.plan import Variant
from nexmark.bench.python_engine import PythonEngine
from nexmark.bench.python_home import PythonHome
from nexmark.bench.report import plot
from nexmark.flink.cluster import STARTS, FlinkCluster
from nexmark.flink.home import FlinkHome
from nexmark.latency.flink import TaskManagers
from nodes.api import RunFailed, load_settings
from tests.integration.processes import until
from tests.unit.nexmark.bench.test_bench import PLAN, Q7, result


def test_a_peer_in_python_is_measured_where_it_has_the_query_and_printed_rows_are_its_answer(tmp_path: Path) -> None:
    (tmp_path / "q7max.py").write_text(
        "import sys, time\nprint('began', time.time())\nprint('row', '{\"window_end\": 1, \"workers\": 2}')\n"
        "print('ended', time.time(), flush=True)\nsys.stdin.read()\n"
    )
    home = PythonHome("bytewax", Path(sys.executable), tmp_path, "1.0")
    settings = load_settings(definitions=["log.kind=kafka", "log.bootstrap=127.0.0.1:9"], environ={})
    engine = PythonEngine(PLAN, settings, home, "x.nexmark", tmp_path / "said", 2, "bytewax")
    assert engine.supports(Variant("q7max")) and not engine.supports(Q7)
    assert not engine.supports(Variant("q7max", checkpoints=True))
    measure, name = engine.run(Variant("q7max"), 5)
    assert name is not None and engine.rows("q7max", name) == [b'{"window_end": 1, "workers": 2}'] * 2
    assert 0 < measure.seconds < 60 and measure.peak_process_mb > 1
    assert engine.shown_settings()["style"] == "folded"
    (tmp_path / "q7max.py").write_text("raise SystemExit('no broker')\n")
    with pytest.raises(RunFailed, match="no broker"):
        engine.run(Variant("q7max"), 6)


def test_the_report_has_a_picture(tmp_path: Path) -> None:
    plot(result(), tmp_path / "bench.svg")  # the first picture on a machine starts a thread, which looks for fonts
    assert (tmp_path / "bench.svg").stat().st_size > 1000


def test_a_meter_counts_the_engine_and_leaves_the_rest_to_others() -> None:
    meter = EngineMeter(lambda: [os.getpid()])
    meter.begin()
    began_s, spent_s = time.time(), time.process_time()
    while time.process_time() - spent_s < 0.3:
        pass
    ended_s = time.time()
    found = meter.end(began_s, ended_s)
    assert found.seconds == pytest.approx(ended_s - began_s) and found.others_s >= 0
    assert 0.1 < found.cpu_s < 10 and 1 < found.peak_process_mb <= found.peak_all_mb
    gone = EngineMeter(lambda: [2**22 + 1])  # beyond the highest process id
    gone.begin()
    found = gone.end()
    assert (found.cpu_s, found.peak_all_mb) == (0, 0) and found.seconds > 0


def test_a_process_that_has_ended_keeps_what_it_took() -> None:
    spin = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        meter = EngineMeter(lambda: [process.pid])
        meter.begin()
        assert process.stdout is not None
        process.stdout.readline()
        until(lambda: meter.sampled_cpu_s >= 0.3, "the meter samples the process")
        process.communicate(b"\n")
        assert meter.end().cpu_s >= 0.3


class Jobs:
    """A job manager's answer."""

    def __init__(self, busy: list[str]) -> None:
        self.taken = busy

    def busy(self) -> list[str]:
        return self.taken


class Machines:
    """A cluster of processes that do nothing."""

    def __init__(self, count: int, busy: list[str]) -> None:
        self.jobs = Jobs(busy)
        self.task_managers = [subprocess.Popen(["sleep", "600"]) for _ in range(count)]


def test_a_kill_hits_a_task_manager_that_works_and_a_living_one() -> None:
    cluster = Machines(3, ["task-manager-0", "task-manager-2"])
    try:
        fleet = TaskManagers(cluster, "job")  # type: ignore[arg-type]
        assert fleet.kill(1) and [process.poll() for process in cluster.task_managers] == [None, None, -9]
        assert fleet.kill(1) and [process.poll() for process in cluster.task_managers] == [-9, None, -9]
        assert not fleet.kill(1), "the one that is left is idle"
        assert [worker.process for worker in fleet.running()] == [cluster.task_managers[1]]
    finally:
        for process in cluster.task_managers:
            process.kill()
            process.wait()


def test_a_task_manager_that_dies_while_it_comes_up_is_started_anew_a_few_times(tmp_path: Path) -> None:
    cluster = FlinkCluster(FlinkHome("java", tmp_path), tmp_path, cores=1, memory_mb=1024)
    cluster.ready = lambda slots: False  # type: ignore[method-assign]

    def dies() -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        cluster.task_managers.append(process)
        return process

    cluster.add_task_manager = dies  # type: ignore[method-assign]
    for _ in range(9):
        assert not cluster.come_up()
    assert len(cluster.task_managers) == 1 + STARTS
