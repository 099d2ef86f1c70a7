"""The Java process of a local Kafka broker: its command line, its properties, its data folder."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from nodes.class_archive import ClassArchive
from nodes.errors import RunFailed

HOST = "127.0.0.1"
FORMAT_TIMEOUT_S = 60


def command_line(java: str, jars: Path, folder: Path, heap_mb: int) -> list[str]:
    """The broker to run.

    With an archive of its classes a broker is up in a third of the time; the first one makes it.
    """
    # Half of the heap for short-lived objects: with less it is collected twice a second, 10 ms each, and the rest too.
    memory = [f"-Xmx{heap_mb}m", f"-Xms{heap_mb}m", f"-Xmn{heap_mb // 2}m"]
    command = [java, *memory, "-XX:+UseParallelGC", "-XX:+ExitOnOutOfMemoryError"]
    command.append(class_archive(java, jars, folder).option())
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
    return [*command, "-cp", f"{jars}/*", "kafka.Kafka", str(folder / "server.properties")]


def class_archive(java: str, jars: Path, folder: Path) -> ClassArchive:
    """Of a broker's classes: beside the jars, and first in the broker's folder."""
    return ClassArchive(jars.parent, java, jars, folder)


def new_cluster_id() -> str:
    """As Kafka writes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def format_data(java: str, jars: Path, properties: Path, cluster: str) -> None:
    """Make the data folder that the properties name ready for its first start, as part of that cluster."""
    command = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
    command += [
        "kafka.tools.StorageTool",
        "format",
        f"--cluster-id={cluster}",
        "-c",
        str(properties),
    ]  # may begin with -
    done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RunFailed(
            f"the folder of the Kafka broker could not be made ready:\n{(done.stdout + done.stderr)[-2000:]}"
        )


def server_properties(
    data: Path, port: int, node: int, controller_ports: Sequence[int], more: Mapping[str, str] | None = None
) -> str:
    """The file of a node that is broker and controller in one, on loopback.

    ``controller_ports``: of all nodes of the quorum, node 1 first. ``more``: other properties, or other values. Its
    listeners come beside the node's own.
    """
    nodes = len(controller_ports)
    controller_port = controller_ports[node - 1]
    replicas, in_sync = min(3, nodes), min(2, nodes)
    settings = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{k}@{HOST}:{its}" for k, its in enumerate(controller_ports, 1)),
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": data,
        # An access to a missing topic is a mistake, and must not create it.
        "auto.create.topics.enable": "false",
        # After a crash the node waits so long before it may register again.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        # Open transactions of a vanished client are noticed so soon after their time is over.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": 0,
        "log.retention.check.interval.ms": 1000,
        # Index files are mapped at their full size; a first access to one reads ahead, which is wasted on a hole.
        "log.index.size.max.bytes": 1 << 20,
        "log.cleaner.dedupe.buffer.size": 4 << 20,
        "log.cleaner.backoff.ms": 1000,
    }
    for key, value in (more or {}).items():
        settings[key] = f"{settings[key]},{value}" if "listener" in key and key in settings else value
    return "".join(f"{key}={value}\n" for key, value in settings.items())
