"""Real Kafka on this machine: one KRaft node, or a quorum of some, on loopback, for development, tests, benchmarks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nodes.class_archive import OWN as OWN_CLASSES
from nodes.errors import RunFailed
from nodes.local_kafka import quorum
from nodes.local_kafka.jars import KAFKA_VERSION, find_java, kafka_jars, locked
from nodes.local_kafka.process import (
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    BrokerMember,
    BrokerState,
    PortTaken,
    free_port,
    is_free,
    last_state,
    launch,
    running,
    stop,
    wait_until_ready,
)
from nodes.local_kafka.server_config import class_archive, format_data, new_cluster_id, server_properties

HEAP_MB, HEAP_OF_SEVERAL_MB = 512, 384
_ATTEMPTS = 3
_FILES = ("data", "broker.json", "broker.log", "server.properties", OWN_CLASSES)


@dataclass(frozen=True, slots=True)
class Broker:
    """The brokers of a folder, with the addresses of all that run. ``fresh``: this call has started one of them."""

    members: tuple[BrokerMember, ...]
    folder: Path
    version: str
    fresh: bool = False

    @property
    def bootstrap(self) -> str:
        """The value of ``log.bootstrap``."""
        return ",".join(member.bootstrap for member in self.members)

    @property
    def pid(self) -> int:
        """The process of the first broker that runs."""
        return next(member.pid for member in self.members if member.pid is not None)

    @property
    def stopped(self) -> list[BrokerMember]:
        """Those that do not run."""
        return [member for member in self.members if member.pid is None]


def default_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the broker keeps its records by default."""
    base = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base) / "holon" / "kafka"


def up(
    folder: Path,
    *,
    port: int | None = None,
    brokers: int | None = None,
    heap_mb: int | None = None,
    timeout_s: float = START_TIMEOUT_S,
    properties: Mapping[str, str] | None = None,
) -> Broker:
    """Start the brokers of that folder, or find them running; returns when they answer. Safe to call at once.

    ``brokers`` None: as many as the folder has, or one. A broker listens on loopback only: on ``port`` (the first of
    several; the others on the ports behind it), else the one it had before, else a free one. Raises
    ``MissingDependency`` without Java, jgo or confluent-kafka, ``RunFailed`` with the end of a log where one does not
    come up.
    """
    require_client()
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        have = _number_of(folder)
        wanted = brokers or have or 1
        if have not in (0, wanted):
            raise RunFailed(
                f"{folder} holds the records of {have} broker{'s' if have > 1 else ''}, not of {wanted}; name another "
                f"folder (--dir), or drop them first: holon kafka down --delete --dir {folder}"
            )
        if wanted > 1:
            heap_mb = heap_mb or HEAP_OF_SEVERAL_MB
            fresh = quorum.up(folder, wanted, port=port, heap_mb=heap_mb, timeout_s=timeout_s, properties=properties)
            return Broker(quorum.members(folder), folder, KAFKA_VERSION, fresh)
        return _up_alone(folder, port, heap_mb or HEAP_MB, timeout_s, properties)


def _up_alone(
    folder: Path, port: int | None, heap_mb: int, timeout_s: float, properties: Mapping[str, str] | None
) -> Broker:
    state = running(folder)
    if state is not None:
        if port not in (None, state.port):
            raise RunFailed(
                f"the broker of {folder} runs on port {state.port}, not {port}; "
                f"stop it first: holon kafka down --dir {folder}"
            )
        wait_until_ready(folder, state, None, timeout_s)
        return _alone(folder, state)
    java = find_java()
    jars = kafka_jars()
    for attempt in range(_ATTEMPTS):
        try:
            state = _start(java, jars, folder, port or _port_for(folder, attempt), heap_mb, timeout_s, properties)
            return _alone(folder, state, fresh=True)
        except PortTaken:
            if port is not None:
                break
    raise RunFailed(f"no port for a Kafka broker: {port or 'every one tried'} is in use; name another: --port")


def down(folder: Path, *, delete: bool = False, timeout_s: float = STOP_TIMEOUT_S) -> bool:
    """Stop the brokers of that folder; False if none ran. ``delete``: and drop all their records."""
    folder = folder.absolute()
    if not folder.is_dir():
        return False
    with locked(folder / "lock"):
        if _number_of(folder) > 1:
            return quorum.down(folder, delete=delete, timeout_s=timeout_s)
        state = running(folder)
        if state is not None and stop([state], timeout_s) and (folder / OWN_CLASSES).exists():
            class_archive(find_java(), kafka_jars(), folder).keep()
        if delete:
            for name in _FILES:
                path = folder / name
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
    return state is not None


@contextmanager
def passing(
    folder: Path, *, brokers: int = 1, heap_mb: int | None = None, properties: Mapping[str, str] | None = None
) -> Iterator[Broker]:
    """Brokers for as long as it is entered; their folder goes with them. Raises as ``up``."""
    try:
        yield up(folder, brokers=brokers, heap_mb=heap_mb, properties=properties)
    finally:
        down(folder, delete=True)


def status(folder: Path) -> Broker | None:
    """The brokers of that folder, None if none runs."""
    folder = folder.absolute()
    if _number_of(folder) > 1:
        members = quorum.members(folder)
        some = any(member.pid is not None for member in members)
        return Broker(members, folder, KAFKA_VERSION) if some else None
    state = running(folder)
    return None if state is None else _alone(folder, state)


def require_client() -> None:
    """Raises ``MissingDependency`` without confluent-kafka."""
    from nodes.errors import MissingDependency

    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"Kafka needs the package confluent-kafka ({error}); install it: pip install 'holon-streams[kafka]'"
        ) from error


def _number_of(folder: Path) -> int:
    """How many brokers have records in this folder."""
    return quorum.size(folder) or int((folder / "data" / "meta.properties").exists())


def _alone(folder: Path, state: BrokerState, fresh: bool = False) -> Broker:
    return Broker((BrokerMember(1, state.bootstrap, state.pid, folder),), folder, state.version, fresh)


def _port_for(folder: Path, attempt: int) -> int:
    """The port that it had before, so that clients find it again; else a free one."""
    before = last_state(folder) if attempt == 0 else None
    return before.port if before is not None and is_free(before.port) else free_port()


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
    properties.write_text(server_properties(folder / "data", port, 1, [free_port()], more), encoding="utf-8")
    if not (folder / "data" / "meta.properties").exists():
        format_data(java, jars, properties, new_cluster_id())
    state, process = launch(java, jars, folder, port, heap_mb)
    wait_until_ready(folder, state, process, timeout_s)
    return state
