"""Several brokers of one folder: a KRaft quorum in which each node is broker and controller."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from nodes.errors import RunFailed
from nodes.local_kafka.jars import find_java, kafka_jars
from nodes.local_kafka.process import (
    BrokerMember,
    BrokerState,
    PortTaken,
    cluster_id,
    free_port,
    is_free,
    launch,
    replace_state,
    running,
    stop,
    wait_until_ready,
)
from nodes.local_kafka.server_config import HOST, format_data, new_cluster_id, server_properties

_STATE = "cluster.json"
_ATTEMPTS = 3


class QuorumState(msgspec.Struct):
    """The contents of ``cluster.json``: ports for clients and for the controllers' own traffic, of node 1 first."""

    cluster: str
    ports: list[int]
    controller_ports: list[int]


def size(folder: Path) -> int:
    """How many brokers the folder was made for; 0 if it holds no quorum."""
    state = _state(folder)
    return 0 if state is None else len(state.ports)


def members(folder: Path) -> tuple[BrokerMember, ...]:
    """All brokers of the folder, whether they run or not."""
    state = _state(folder)
    found = []
    for number, port in enumerate(state.ports if state is not None else (), 1):
        alive = running(_home(folder, number))
        found.append(
            BrokerMember(number, f"{HOST}:{port}", None if alive is None else alive.pid, _home(folder, number))
        )
    return tuple(found)


def up(
    folder: Path,
    brokers: int,
    *,
    port: int | None,
    heap_mb: int,
    timeout_s: float,
    properties: Mapping[str, str] | None,
) -> bool:
    """Start those that do not run; returns when each answers and knows all others, and whether one was started.

    The ports are chosen once, as the nodes name each other by them.
    """
    state = _state(folder)
    tried: list[int] = []
    for _ in range(_ATTEMPTS):
        chosen = state or _new_state(brokers, port)
        tried += chosen.ports
        if port not in (None, chosen.ports[0]):
            raise RunFailed(
                f"the first broker of {folder} has port {chosen.ports[0]}, not {port}; the nodes of a quorum keep "
                f"their ports: name another folder (--dir), or holon kafka down --delete --dir {folder}"
            )
        try:
            return _start_missing(folder, chosen, heap_mb, timeout_s, properties)
        except PortTaken:
            down(folder, delete=state is None, timeout_s=timeout_s)
            if state is not None or port is not None:
                break
    ports = ", ".join(map(str, tried))
    raise RunFailed(f"no ports for {brokers} Kafka brokers: of {ports} one is in use; free it, or name others: --port")


def down(folder: Path, *, delete: bool, timeout_s: float) -> bool:
    """Stop all that run; False if none did. Records that are to be deleted need no orderly end."""
    homes = [member.folder for member in members(folder)]
    states = [state for home in homes if (state := running(home)) is not None]
    stop(states, timeout_s, in_order=not delete)
    if delete:
        for home in homes:
            shutil.rmtree(home, ignore_errors=True)
        (folder / _STATE).unlink(missing_ok=True)
    return bool(states)


def _start_missing(
    folder: Path, state: QuorumState, heap_mb: int, timeout_s: float, properties: Mapping[str, str] | None
) -> bool:
    java = find_java()
    jars = kafka_jars()
    replace_state(folder / _STATE, state)
    begun: list[tuple[Path, BrokerState, subprocess.Popen[bytes] | None]] = []
    for number, port in enumerate(state.ports, 1):
        home = _home(folder, number)
        alive = running(home)
        if alive is not None:
            begun.append((home, alive, None))
            continue
        if not (is_free(port) and is_free(state.controller_ports[number - 1])):
            raise PortTaken
        home.mkdir(exist_ok=True)
        config = home / "server.properties"
        text = server_properties(home / "data", port, number, state.controller_ports, properties)
        config.write_text(text, encoding="utf-8")
        if not (home / "data" / "meta.properties").exists():
            format_data(java, jars, config, state.cluster)
        assert cluster_id(home) == state.cluster, f"{home} belongs to another cluster"
        begun.append((home, *launch(java, jars, home, port, heap_mb)))
    for home, started, process in begun:
        wait_until_ready(home, started, process, timeout_s, brokers=len(state.ports))
    return any(process is not None for _, _, process in begun)


def _new_state(brokers: int, port: int | None) -> QuorumState:
    wanted: list[int] = [] if port is None else list(range(port, port + brokers))
    while len(wanted) < 2 * brokers:
        found = free_port()
        if found not in wanted:
            wanted.append(found)
    return QuorumState(new_cluster_id(), wanted[:brokers], wanted[brokers:])


def _state(folder: Path) -> QuorumState | None:
    try:
        return msgspec.json.decode((folder / _STATE).read_bytes(), type=QuorumState)
    except (OSError, msgspec.DecodeError):
        return None


def _home(folder: Path, number: int) -> Path:
    return folder / f"broker-{number}"
