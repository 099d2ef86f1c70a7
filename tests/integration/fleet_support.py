"""Fleets of real node processes in tests: a stage with a log, an input that grows, and checks of the results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from nodes.fleet.monitor import Monitor
from nodes.fleet.processes import Fleet, FleetProcess
from nodes.log import EmbeddedLog
from nodes.machine.config import JobRun
from nodes.results.reader import OutputReader
from nodes.settings.settings import Settings, load_settings
from nodes.streams.jobs import declare_end, load_job, open_job
from tests.integration import jobs_mixed
from tests.integration.jobs_mixed import INPUT, OUTPUT, Event
from tests.integration.processes import PLENTY_S, ROOT, until

JOB = "tests.integration.jobs_mixed:job"
PARTITIONS = 4
# Small batches and frequent checkpoints: more boundaries to crash at.
QUICK = ("node.batch_max_records=50", "node.checkpoint_interval_ms=100", "node.broadcast_interval_ms=10")
NOBODY_IS_SUSPECTED = "node.failure_timeout_ms=120000"
"""For tests in which a node that a busy machine keeps waiting must not be taken for dead."""
SLOWLY_SUSPECTED = "node.failure_timeout_ms=10000"
"""The same where the work of a dead node has to be taken over: no pause of a busy machine is so long."""
UNTRIMMED = "node.truncate_internal_topics=false"
"""For tests that read the job's own topics from their beginning, or cut a node off from them, for however long."""


class Stage:
    """A log in a folder with the input topic, and what was fed to it; ``reference`` is the job that it runs."""

    reference = JOB

    def __init__(self, folder: Path, *definitions: str, partitions: int = PARTITIONS) -> None:
        self.path = folder / "log"
        self.partitions = partitions
        self.definitions = (f"log.path={self.path}", *QUICK, *definitions)
        self.settings: Settings = load_settings(definitions=self.definitions, environ={}, directory=folder)
        self.log = EmbeddedLog(self.path)
        self.log.create_topic(INPUT, partitions)
        self.events: dict[int, list[Event]] = defaultdict(list)
        self._next = 0

    # --- input ----------------------------------------------------------------------------------------------------

    def feed(self, count: int) -> None:
        """The next ``count`` events of the stream."""
        first, self._next = self._next, self._next + count
        for partition, rows in jobs_mixed.payloads(first, self._next, self.partitions).items():
            self.put(partition, *rows)

    def put(self, partition: int, *rows: bytes) -> None:
        """Records as they are; those that are events are expected to be processed."""
        self.log.append(INPUT, partition, rows)
        self.events[partition] += [msgspec.json.decode(row, type=Event) for row in rows]

    @contextmanager
    def feeding(self, count: int = 20, every_s: float = 0.05) -> Iterator[None]:
        """Append without end while the test goes on."""
        over = self._over = threading.Event()

        def work() -> None:
            while not over.wait(every_s):
                self.feed(count)

        thread = self._feeder = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            self.stop_feeding()

    def stop_feeding(self) -> None:
        """End ``feeding`` before its block ends."""
        self._over.set()
        self._feeder.join()

    @property
    def fed(self) -> int:
        """Events so far."""
        return sum(map(len, self.events.values()))

    # --- the job --------------------------------------------------------------------------------------------------

    def open(self, reference: str | None = None, **options: Any) -> JobRun:
        return open_job(self.log, load_job(reference or self.reference), **options)

    def fleet(self, nodes: int, reference: str | None = None, **options: Any) -> Fleet:
        environment = {"PYTHONPATH": str(ROOT), **options.pop("environment", {})}
        return Fleet(reference or self.reference, self.settings, nodes, environment=environment, **options)

    def settings_with(self, *definitions: str) -> Settings:
        """The stage's settings with others on top."""
        return load_settings(definitions=(*self.definitions, *definitions), environ={}, directory=self.path)

    def add(self, fleet: Fleet, number: int, *definitions: str, expected: int = 1) -> FleetProcess:
        """Start a node with settings of its own."""
        fleet.settings = self.settings_with(*definitions)
        try:
            return fleet.add(number, expected)
        finally:
            fleet.settings = self.settings

    def monitor(self, run: JobRun) -> Monitor:
        monitor = Monitor(self.log, run)
        monitor.poll()
        return monitor

    def finish(self, run: JobRun, fleet: Fleet) -> Monitor:
        """End the input, wait for the job's end and for the nodes, which must leave in order."""
        declare_end(self.log, run)
        monitor = self.monitor(run)
        self.until(monitor, lambda: monitor.done, "the job is done", fleet)
        for member in fleet.running():
            assert member.process.wait(PLENTY_S) == 0
        assert monitor.conserved()
        return monitor

    def until(self, monitor: Monitor, condition: Callable[[], bool], what: str, fleet: Fleet | None = None) -> None:
        """Poll the monitor until the condition holds; fails at once if no node is left to bring it about."""

        def holds() -> bool:
            is_alive = fleet is None or bool(fleet.running())  # asked before what the last of them wrote is read
            monitor.poll()
            if condition():
                return True
            assert monitor.failure is None, monitor.failure
            assert is_alive, f"no node is left, waiting until {what}"
            return False

        until(holds, what)

    # --- results --------------------------------------------------------------------------------------------------

    def results(self, topic: str = OUTPUT) -> Counter[str]:
        """Every result once, as text; repeats must be byte for byte what was first."""
        reader = OutputReader(self.log, topic, decode=bytes.decode, verify_repeats=True)
        found = Counter(output.value for output in reader.read_available())
        assert reader.differing_repeats == 0
        self.repeats_dropped = reader.repeats_dropped
        return found

    def assert_exact(self) -> None:
        """The results are those that plain Python works out, each exactly once."""
        found, wanted = self.results(), jobs_mixed.expected(self.events)
        missing, extra = wanted - found, found - wanted
        assert not missing and not extra, (
            f"{missing.total()} missing, {extra.total()} too many of {wanted.total()}: "
            f"missing {list(missing)[:3]}, extra {list(extra)[:3]}"
        )


def owners(monitor: Monitor) -> list[int | None]:
    """Numbers of the owners, by partition."""
    ownership = monitor.ownership
    return [
        None if owner is None else ownership.members.get(owner) for owner in map(ownership.owner, range(PARTITIONS))
    ]


class Command:
    """The command line as a process of its own, in a group of its own; killed at the end of a ``with``."""

    def __init__(
        self,
        *arguments: str,
        stage: Stage | None = None,
        limit_descriptors: int | None = None,
        shell: str | None = None,
    ) -> None:
        definitions = [part for text in (stage.definitions if stage else ()) for part in ("-D", text)]
        command = [sys.executable, "-m", "nodes.cli", *arguments, *definitions]
        if limit_descriptors is not None:
            shell = f'ulimit -n {limit_descriptors}; exec "$@"'
        if shell is not None:
            command = ["bash", "-c", shell, "_", *command]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self._said: list[str] = []

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def says(self, words: str) -> None:
        """Wait until it says so on standard error."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._said.append(line)
            if words in line:
                return
        raise AssertionError(f"it ended without saying {words!r}: {''.join(self._said)}")

    def finish(self) -> tuple[int, str, str]:
        """Exit code, standard output, standard error with what ``says`` has heard.

        By the streams' own reads: what came together with a line that was waited for is in their buffers, where
        ``communicate`` does not look.
        """
        assert self.process.stdout is not None and self.process.stderr is not None
        with ThreadPoolExecutor(2) as pool:
            texts = [pool.submit(stream.read) for stream in (self.process.stdout, self.process.stderr)]
            try:
                code = self.process.wait(2 * PLENTY_S)
            finally:
                self.process.kill()  # without effect on one that has ended
            out, err = (text.result() for text in texts)
        return code, out, "".join(self._said) + err

    def json(self, exit_code: int = 0) -> dict[str, Any]:
        """The one line of JSON of a command that must end with this code."""
        code, out, err = self.finish()
        assert code == exit_code, f"exit code {code}\n{out}\n{err}"
        assert out.count("\n") == 1, out
        return msgspec.json.decode(out)

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)  # its nodes notice and leave
        self.process.communicate()


def run_command(
    stage: Stage,
    *arguments: str,
    job: str | None = None,
    limit_descriptors: int | None = None,
    shell: str | None = None,
) -> Command:
    """`holon run --no-view --json`. ``shell``: what a shell does before, ending with ``exec "$@"``."""
    command = ("run", job or stage.reference, "--no-view", "--json", *arguments)
    return Command(*command, stage=stage, limit_descriptors=limit_descriptors, shell=shell)
