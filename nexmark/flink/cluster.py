"""A Flink cluster on this machine: a job manager, task managers and an SQL gateway, each a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from string import Template

from nexmark.flink.home import FlinkHome
from nexmark.flink.rest import Gateway, JobManager
from nodes.api import deferred_interrupts
from nodes.errors import RunFailed

START_TIMEOUT_S = 300.0
STARTS = 3
"""Of task managers beyond those that are wanted: on a busy machine one gives up at times before it is up."""
STOP_TIMEOUT_S = 20.0
_RESULT = "BASH_JAVA_UTILS_EXEC_RESULT:"
_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_GATEWAY = "org.apache.flink.table.gateway.SqlGateway"

# What Flink's own configuration opens of Java 17.
_OPENS = (
    "java.lang java.net java.io java.nio sun.nio.ch java.lang.reflect java.text java.time java.util "
    "java.util.concurrent java.util.concurrent.atomic java.util.concurrent.locks"
)
_JAVA = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS.split()]


class FlinkCluster:
    """Use it as a context manager. ``more`` are settings beside the peer's file, which outrank it.

    Args: ``folder`` holds configuration, logs and checkpoints; ``cores`` slots in all task managers together;
    ``collector`` of Java's garbage in task managers: G1 is that of Flink's own scripts.
    """

    def __init__(
        self, home: FlinkHome, folder: Path, *, cores: int, memory_mb: int, more: Mapping[str, str] | None = None,
        task_managers: int = 1, collector: str = "G1",
    ) -> None:  # fmt: skip
        self.home, self.folder, self.cores = home, folder, cores
        self.count, self.collector = task_managers, collector
        rest, rpc, self._gateway_port = (free_port() for _ in range(3))
        values = {
            "CORES": cores // task_managers, "MEMORY_MB": memory_mb, "RPC_PORT": rpc, "REST_PORT": rest,
            "FOLDER": folder,
        }  # fmt: skip
        self.settings = filled((home.peer / "config.yaml").read_text(encoding="utf-8"), values, more or {})
        self.jobs = JobManager(f"http://127.0.0.1:{rest}")
        self.sql = Gateway(f"http://127.0.0.1:{self._gateway_port}")
        self.task_managers: list[subprocess.Popen[bytes]] = []
        self._others: list[subprocess.Popen[bytes]] = []
        self._parameters: dict[str, tuple[list[str], list[str]]] = {}

    def __enter__(self) -> FlinkCluster:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()

    def add_task_manager(self) -> subprocess.Popen[bytes]:
        """Start one more."""
        java, settings = self._parameters["TM"]
        number = len(self.task_managers)
        name = f"task-manager-{number}"
        java = [*java, f"-XX:+Use{self.collector}GC"]
        arguments = ["--configDir", str(self.folder), *settings, "-D", f"taskmanager.resource-id={name}"]
        with deferred_interrupts():
            process = self._spawn(name, java, _TASK_MANAGER, arguments)
            self.task_managers.append(process)
        return process

    def ready(self, slots: int) -> bool:
        """Whether so many slots have come."""
        overview = self.jobs.overview()
        return overview is not None and overview["slots-total"] >= slots

    def wait_ready(self, slots: int) -> None:
        """Wait for so many slots. Raises ``RunFailed`` with the end of the logs if they do not come."""
        self._wait(lambda: self.ready(slots), f"{slots} slots")

    def log_ends(self) -> str:
        """The last lines of each process's log."""
        parts = []
        for path in sorted(self.folder.glob("*.log")):
            parts.append(f"--- {path.name}\n{path.read_text(encoding='utf-8', errors='replace')[-1500:]}")
        return "\n".join(parts)

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{name}: {value}\n" for name, value in self.settings.items())
        (self.folder / "config.yaml").write_text(lines, encoding="utf-8")
        (self.folder / "plugins").mkdir(exist_ok=True)
        for process in ("JM", "TM"):
            self._parameters[process] = self._resources(process)
        java, settings = self._parameters["JM"]
        arguments = ["--configDir", str(self.folder), *settings]
        with deferred_interrupts():
            self._others.append(self._spawn("job-manager", java, _JOB_MANAGER, arguments))
        for _ in range(self.count):
            self.add_task_manager()
        place = "sql-gateway.endpoint.rest"
        arguments = [f"-D{place}.address=127.0.0.1", f"-D{place}.port={self._gateway_port}"]
        with deferred_interrupts():
            self._others.append(self._spawn("gateway", ["-Xmx512m", "-XX:+UseSerialGC"], _GATEWAY, arguments))
        self._wait(self.come_up, f"{self.cores} slots")
        self._wait(self.sql.answers, "the SQL gateway")

    def come_up(self) -> bool:
        """Whether all slots are there; a task manager that has died meanwhile is started anew."""
        living = sum(process.poll() is None for process in self.task_managers)
        if living < self.count and len(self.task_managers) < self.count + STARTS:
            self.add_task_manager()
        return self.ready(self.cores)

    def _resources(self, process: str) -> tuple[list[str], list[str]]:
        """Options of Java and settings that Flink derives from the process's memory, as its own scripts do."""
        command = [self.home.java, "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", f"{self.home.jars}/*"]
        command += ["org.apache.flink.runtime.util.bash.BashJavaUtils", f"GET_{process}_RESOURCE_PARAMS"]
        command += ["--configDir", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
        found = [line.removeprefix(_RESULT) for line in done.stdout.splitlines() if line.startswith(_RESULT)]
        if done.returncode != 0 or len(found) != 2:
            raise RunFailed(f"Flink cannot divide the memory of a {process}:\n{(done.stdout + done.stderr)[-1500:]}")
        return found[0].split(), found[1].split()

    def _spawn(self, name: str, java: list[str], main: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        logging = f"-Dlog4j.configurationFile=file:{self.home.peer / 'log4j2.properties'}"
        command = [self.home.java, *java, *_JAVA, logging, "-cp", f"{self.home.jars}/*", main, *arguments]
        environment = os.environ | {"FLINK_CONF_DIR": str(self.folder), "FLINK_LIB_DIR": str(self.home.jars)}
        environment |= {"FLINK_PLUGINS_DIR": str(self.folder / "plugins")}
        with open(self.folder / f"{name}.log", "wb") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, process_group=0,
            )  # fmt: skip

    def _wait(self, done: object, what: str) -> None:
        assert callable(done)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not done():
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._others):
                raise RunFailed(f"Flink did not come up: no {what}\n{self.log_ends()}")
            time.sleep(0.1)

    def _stop(self) -> None:
        processes = [*self._others, *self.task_managers]
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def filled(text: str, values: Mapping[str, object], more: Mapping[str, str]) -> dict[str, str]:
    """The file's settings, filled in, with others in their place."""
    found = dict(
        line.split(": ", 1) for line in Template(text).substitute(values).splitlines() if line and line[0] != "#"
    )
    return {name: value.strip() for name, value in found.items()} | dict(more)


def free_port() -> int:
    """Of loopback; nobody listens on it now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
