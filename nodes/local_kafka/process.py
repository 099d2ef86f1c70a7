"""One broker's process on this machine: started, polled, stopped."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from nodes.errors import RunFailed
from nodes.local_kafka.jars import KAFKA_VERSION
from nodes.local_kafka.server_config import HOST, command_line
from nodes.python_process import deferred_interrupts

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
_PORTS, _PORTS_TRIED = (20_000, 30_000), 100
_POLL_INTERVAL_S = 0.02


class BrokerState(msgspec.Struct):
    """The contents of ``broker.json``. ``started_s`` distinguishes the process from a later one with the same id."""

    pid: int
    started_s: float
    port: int
    version: str

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerMember:
    """One broker of a folder, number ``id``. ``pid`` None: it does not run."""

    id: int
    bootstrap: str
    pid: int | None
    folder: Path


class PortTaken(Exception):
    """Another process took the port first."""


def running(folder: Path) -> BrokerState | None:
    """The state of a running broker. Reading needs no lock: the file is replaced as a whole."""
    state = last_state(folder)
    if state is None:
        return None
    try:
        process = psutil.Process(state.pid)
        alive = abs(process.create_time() - state.started_s) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return None
    return state if alive else None


def last_state(folder: Path) -> BrokerState | None:
    """Of the broker that runs or ran last; None if there was none."""
    try:
        return msgspec.json.decode((folder / "broker.json").read_bytes(), type=BrokerState)
    except (OSError, msgspec.DecodeError):
        return None


def launch(java: str, jars: Path, folder: Path, port: int, heap_mb: int) -> tuple[BrokerState, subprocess.Popen[bytes]]:
    """Start the process of a folder with data and ``server.properties``; returns before it answers."""
    command = command_line(java, jars, folder, heap_mb)
    with open(folder / "broker.log", "wb") as log, deferred_interrupts():
        # A session of its own: a Ctrl-C at the terminal is not for the broker.
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        state = BrokerState(process.pid, psutil.Process(process.pid).create_time(), port, KAFKA_VERSION)
        replace_state(folder / "broker.json", state)
    return state, process


def replace_state(path: Path, state: msgspec.Struct) -> None:
    """Replace a state file as a whole: a reader needs no lock."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_bytes(msgspec.json.encode(state))
    temporary.replace(path)


def wait_until_ready(
    folder: Path, state: BrokerState, process: subprocess.Popen[bytes] | None, timeout_s: float, brokers: int = 1
) -> None:
    """Return when it answers and knows so many brokers. Raises ``PortTaken``, or ``RunFailed`` with its log's end."""
    deadline, cluster = time.monotonic() + timeout_s, cluster_id(folder)
    while not answers(state.bootstrap, cluster=cluster, brokers=brokers):
        ended = process.poll() is not None if process is not None else running(folder) is None
        if not ended and time.monotonic() < deadline:
            time.sleep(_POLL_INTERVAL_S)
            continue
        metadata = _tail(folder)
        if ended and "already in use" in metadata:
            raise PortTaken
        if not ended:
            stop([state], timeout_s=5.0)
        what = "has ended" if ended else f"did not answer within {timeout_s:.0f} s"
        raise RunFailed(f"the Kafka broker of {folder} {what}; the end of {folder / 'broker.log'}:\n{metadata}")


def answers(bootstrap: str, timeout_s: float = 1.0, cluster: str | None = None, brokers: int = 1) -> bool:
    """Whether a broker lists its topics there; with ``cluster``, the broker of that cluster id.

    ``brokers``: and that it knows at least so many of them.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}
    try:
        metadata = AdminClient({"bootstrap.servers": bootstrap, **quick}).list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return cluster in (None, metadata.cluster_id) and len(metadata.brokers) >= brokers


def cluster_id(folder: Path) -> str:
    """The id that the folder was formatted with."""
    lines = (folder / "data" / "meta.properties").read_text(encoding="utf-8").splitlines()
    return next(line.partition("=")[2].strip() for line in lines if line.startswith("cluster.id="))


def stop(states: Sequence[BrokerState], timeout_s: float, *, in_order: bool = True) -> bool:
    """End these processes together; True if all did so in order, False where one had to be killed or was gone."""
    orderly, living = True, []
    for state in states:
        try:
            process = psutil.Process(state.pid)
            process.send_signal(signal.SIGTERM if in_order else signal.SIGKILL)
            process.send_signal(signal.SIGCONT)  # a process that is stopped takes no other signal
            living.append(process)
        except psutil.NoSuchProcess:
            orderly = False
    _, late = psutil.wait_procs(living, timeout_s)
    for process in late:
        orderly = False
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(late, timeout_s)
    return orderly and in_order


def free_port() -> int:
    """A port of this machine that no process has at this moment.

    None of those from which the system gives outgoing connections theirs, if it can be had. An outgoing connection,
    even that of a client of this broker, could take such a port while the broker is down.
    """
    for _ in range(_PORTS_TRIED):
        port = random.SystemRandom().randrange(*_PORTS)
        if is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def is_free(port: int) -> bool:
    """Whether a listener could have this port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _tail(folder: Path) -> str:
    try:
        return (folder / "broker.log").read_text(encoding="utf-8", errors="replace")[-3000:]
    except OSError:
        return ""
