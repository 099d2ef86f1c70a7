"""A real Kafka broker on this machine: one KRaft node on loopback, for development, tests and benchmarks."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from nodes.errors import RunFailed
from nodes.kafka_jars import KAFKA_VERSION, find_java, kafka_jars, locked
from nodes.kafka_node import HOST, OWN_CLASSES, command_line, format_data, keep_classes, server_properties

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
_ATTEMPTS = 3
_PORTS, _PORTS_TRIED = (20_000, 30_000), 100


class BrokerState(msgspec.Struct):
    """What ``broker.json`` keeps. ``started_s`` tells the process from a later one with the same id."""

    pid: int
    started_s: float
    port: int
    version: str


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker. ``fresh``: this call has started it."""

    bootstrap: str
    pid: int
    folder: Path
    version: str
    fresh: bool = False


def default_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the broker keeps its records unless told otherwise."""
    base = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base) / "holon" / "kafka"


def up(
    folder: Path,
    *,
    port: int | None = None,
    heap_mb: int = 512,
    timeout_s: float = START_TIMEOUT_S,
    properties: Mapping[str, str] | None = None,
) -> Broker:
    """Start the broker of that folder, or find it running; returns when it answers. Safe to call at once.

    It listens on loopback only: on ``port``, else the one it had before, else a free one. Raises ``MissingDependency``
    without Java, jgo or confluent-kafka, ``RunFailed`` with the end of its log where it does not come up.
    """
    require_client()
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        state = _running(folder)
        if state is not None:
            if port not in (None, state.port):
                raise RunFailed(
                    f"the broker of {folder} runs on port {state.port}, not {port}; "
                    f"stop it first: holon kafka down --dir {folder}"
                )
            _wait_until_ready(folder, state, None, timeout_s)
            return _broker(folder, state)
        java = find_java()
        jars = kafka_jars()
        for attempt in range(_ATTEMPTS):
            try:
                state = _start(java, jars, folder, port or _port_for(folder, attempt), heap_mb, timeout_s, properties)
                return _broker(folder, state, fresh=True)
            except _PortTaken:
                if port is not None:
                    break
        raise RunFailed(f"no port for a Kafka broker: {port or 'every one tried'} is in use; name another: --port")


def down(folder: Path, *, delete: bool = False, timeout_s: float = STOP_TIMEOUT_S) -> bool:
    """Stop the broker of that folder; False if none ran. ``delete``: and drop all its records."""
    folder = folder.absolute()
    if not folder.is_dir():
        return False
    with locked(folder / "lock"):
        state = _running(folder)
        if state is not None and _stop(state, timeout_s) and (folder / OWN_CLASSES).exists():
            java = find_java()
            keep_classes(java, kafka_jars(), folder)
        if delete:
            for name in ("data", "broker.json", "broker.log", "server.properties", OWN_CLASSES):
                path = folder / name
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
    return state is not None


@contextmanager
def passing(folder: Path, *, heap_mb: int = 512, properties: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """A broker for as long as it is entered; its folder goes with it. Raises as ``up``."""
    broker = up(folder, heap_mb=heap_mb, properties=properties)
    try:
        yield broker
    finally:
        down(folder, delete=True)


def status(folder: Path) -> Broker | None:
    """The broker of that folder, None if none runs."""
    state = _running(folder.absolute())
    return None if state is None else _broker(folder.absolute(), state)


def answers(bootstrap: str, timeout_s: float = 1.0, cluster: str | None = None) -> bool:
    """Whether a broker says there which topics it has; with ``cluster``, the broker of that cluster id."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}
    try:
        said = AdminClient({"bootstrap.servers": bootstrap, **quick}).list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return cluster in (None, said.cluster_id)


def require_client() -> None:
    """Raises ``MissingDependency`` without confluent-kafka."""
    from nodes.errors import MissingDependency

    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"Kafka needs the package confluent-kafka ({error}); install it: pip install 'holon-streams[kafka]'"
        ) from error


class _PortTaken(Exception):
    """Somebody else was quicker."""


def _broker(folder: Path, state: BrokerState, fresh: bool = False) -> Broker:
    return Broker(f"{HOST}:{state.port}", state.pid, folder, state.version, fresh)


def _running(folder: Path) -> BrokerState | None:
    """The state of a living broker. Reading needs no lock: the file is replaced as a whole."""
    try:
        state = msgspec.json.decode((folder / "broker.json").read_bytes(), type=BrokerState)
        process = psutil.Process(state.pid)
        alive = abs(process.create_time() - state.started_s) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, msgspec.DecodeError, psutil.Error):
        return None
    return state if alive else None


def _port_for(folder: Path, attempt: int) -> int:
    """The port that it had before, so that clients find it again; else a free one."""
    if attempt == 0:
        try:
            before = msgspec.json.decode((folder / "broker.json").read_bytes(), type=BrokerState).port
        except (OSError, msgspec.DecodeError):
            return free_port()
        if _is_free(before):
            return before
    return free_port()


def free_port() -> int:
    """A port of this machine that nobody has at this moment.

    None of those from which the system gives outgoing connections theirs, if it can be had: one of them, even that of
    a client that looks for the broker, could take the port while the broker is down.
    """
    for _ in range(_PORTS_TRIED):
        port = random.SystemRandom().randrange(*_PORTS)
        if _is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _start(
    java: str,
    jars: Path,
    folder: Path,
    port: int,
    heap_mb: int,
    timeout_s: float,
    more: Mapping[str, str] | None,
) -> BrokerState:
    properties = folder / "server.properties"
    properties.write_text(server_properties(folder / "data", port, free_port(), more), encoding="utf-8")
    if not (folder / "data" / "meta.properties").exists():
        format_data(java, jars, properties)
    command = command_line(java, jars, folder, heap_mb)
    with open(folder / "broker.log", "wb") as log:
        # A session of its own: a Ctrl-C at the terminal is not for the broker.
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    state = BrokerState(process.pid, psutil.Process(process.pid).create_time(), port, KAFKA_VERSION)
    temporary = folder / "broker.json.new"
    temporary.write_bytes(msgspec.json.encode(state))
    temporary.replace(folder / "broker.json")
    _wait_until_ready(folder, state, process, timeout_s)
    return state


def _wait_until_ready(
    folder: Path, state: BrokerState, process: subprocess.Popen[bytes] | None, timeout_s: float
) -> None:
    deadline, cluster = time.monotonic() + timeout_s, _cluster_id(folder)
    while not answers(f"{HOST}:{state.port}", cluster=cluster):
        ended = process.poll() is not None if process is not None else _running(folder) is None
        if not ended and time.monotonic() < deadline:
            time.sleep(0.02)
            continue
        said = _tail(folder)
        if ended and "already in use" in said:
            raise _PortTaken
        if not ended:
            _stop(state, timeout_s=5.0)
        what = "has ended" if ended else f"did not answer within {timeout_s:.0f} s"
        raise RunFailed(f"the Kafka broker of {folder} {what}; the end of {folder / 'broker.log'}:\n{said}")


def _cluster_id(folder: Path) -> str:
    """The id that the folder was formatted with."""
    lines = (folder / "data" / "meta.properties").read_text(encoding="utf-8").splitlines()
    return next(line.partition("=")[2].strip() for line in lines if line.startswith("cluster.id="))


def _tail(folder: Path) -> str:
    try:
        return (folder / "broker.log").read_text(encoding="utf-8", errors="replace")[-3000:]
    except OSError:
        return ""


def _stop(state: BrokerState, timeout_s: float) -> bool:
    """End it; True if it did so in order."""
    try:
        process = psutil.Process(state.pid)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout_s)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(timeout_s)
            return False
    except psutil.NoSuchProcess:
        return False
    return True
