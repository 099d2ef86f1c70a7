"""Peers in Python in the comparison: processes of an environment of their own, new for each run."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from nexmark.bench.meter import EngineMeter, Measure
from nexmark.bench.plan import PYTHON_PEERS, PYTHON_QUERIES, ComparisonPlan, Variant
from nexmark.bench.python_home import PythonHome
from nexmark.flink.cluster import free_port
from nodes.api import RunFailed, Settings, deferred_interrupts

LIMIT_S = 1800.0
STOP_S = 30.0
POLL_INTERVAL_S = 0.25


@dataclass(slots=True)
class PythonEngine:
    """``events`` is the topic as the broker knows it; ``folder`` is for the output of processes; ``workers`` as cores.

    A process prints ``began TIME`` when its work begins, ``row JSON`` for each result, ``ended TIME``, and then waits
    for the end of its input, so that its CPU time can be read.
    """

    plan: ComparisonPlan
    settings: Settings
    home: PythonHome
    events: str
    folder: Path
    workers: int
    name: str
    _rows: dict[str, list[bytes]] = field(default_factory=dict)

    def supports(self, variant: Variant) -> bool:
        """Whether the peer has the query."""
        return variant.query in PYTHON_QUERIES and not variant.checkpoints

    def shown_settings(self) -> dict[str, str]:
        """The settings of its run that matter; the rest is in the peer's folder."""
        _, style, processes = PYTHON_PEERS[self.name]
        shown = {"version": self.home.version, "workers": str(self.workers), "checkpoints": "off"}
        shown["workers are"] = "processes" if processes else "threads"
        return shown | ({"style": style} if style else {})

    def run(self, variant: Variant, number: int) -> tuple[Measure, str | None]:
        """One run over the whole topic: what it cost, and the name of its results."""
        measure, rows = processes_run(
            self._commands(variant.query), self.folder, str(number), environment(self.workers), self.name
        )
        self._rows = {str(number): rows}
        return measure, str(number)

    def rows(self, query: str, topic: str) -> list[bytes]:
        """Results of the last run."""
        return self._rows[topic]

    def _commands(self, query: str) -> list[list[str]]:
        _, style, processes = PYTHON_PEERS[self.name]
        bootstrap = self.settings.log.bootstrap
        assert bootstrap is not None, "the comparison runs on Kafka"
        line = [str(self.home.python), str(self.home.peer / f"{query}.py"), "--bootstrap", bootstrap]
        line += ["--topic", self.events, "--partitions", str(self.plan.partitions)]
        line += ["--style", style] if style else []
        return by_worker(line, self.workers) if processes else [line]


def by_worker(line: list[str], workers: int) -> list[list[str]]:
    """The commands of a cluster of processes, each with its number and the addresses of all."""
    addresses = ",".join(f"127.0.0.1:{free_port()}" for _ in range(workers))
    return [[*line, "--process", str(worker), "--addresses", addresses] for worker in range(workers)]


def environment(workers: int) -> dict[str, str]:
    """Of a peer's process: without what belongs to Holon's own interpreter."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return ours | {"PATHWAY_THREADS": str(workers), "PYTHONUNBUFFERED": "1"}


def processes_run(
    commands: Sequence[Sequence[str]], folder: Path, number: str, variables: dict[str, str], name: str
) -> tuple[Measure, list[bytes]]:
    """Run the processes of a peer to their end: what they cost, and the rows that they printed.

    Raises ``RunFailed`` if one stops without having printed that it is done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number}-{worker}.out" for worker in range(len(commands))]
    with ExitStack() as stack:
        processes: list[_Process] = []
        for command, path in zip(commands, paths, strict=True):
            with deferred_interrupts():
                processes.append(stack.enter_context(_Process(command, path, variables)))
        meter = EngineMeter(lambda: [process.pid for process in processes])
        meter.begin()
        try:
            deadline_s = time.monotonic() + LIMIT_S
            while not _all_ended(processes):
                if time.monotonic() > deadline_s:
                    raise RunFailed(f"{name} was not done within {LIMIT_S:.0f} s")
                time.sleep(POLL_INTERVAL_S)
            lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
            measure = meter.end(max(_times(lines, "began")), max(_times(lines, "ended")))
        finally:
            meter.stop()
    return measure, [line.removeprefix("row ").encode() for line in lines if line.startswith("row ")]


class _Process:
    """One process of a peer; what it prints goes to a file, beside it what it complains about."""

    def __init__(self, command: Sequence[str], path: Path, environment: dict[str, str]) -> None:
        self._path, self._errors = path, path.with_suffix(".err")
        with open(path, "wb") as out, open(self._errors, "wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=errors, env=environment, cwd=path.parent
            )
        self.pid = self._process.pid

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_S if exc[0] is None else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def ended(self) -> bool:
        """Whether it has printed that. Raises ``RunFailed`` if it is gone without."""
        gone = self._process.poll() is not None
        text = self._path.read_text(encoding="utf-8", errors="replace")
        if "\nended " in f"\n{text}" and text.endswith("\n"):
            return True
        if gone:
            why = self._errors.read_text(encoding="utf-8", errors="replace")[-1500:]
            raise RunFailed(f"{self._process.args} has stopped with exit code {self._process.returncode}:\n{why}")
        return False


def _all_ended(processes: Sequence[_Process]) -> bool:
    """Each is checked, since one that waits for another that is gone never ends."""
    ended = [process.ended() for process in processes]
    return all(ended)


def _times(lines: Sequence[str], word: str) -> list[float]:
    return [float(line.split()[1]) for line in lines if line.startswith(f"{word} ")]
