"""One real Kafka broker for a whole test session, whichever processes share it; it goes when the session has gone."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import psutil

from nodes.local_kafka import broker as kafka_broker
from nodes.local_kafka.jars import locked
from nodes.local_kafka.process import free_port
from nodes.log.kafka.log import KafkaLog
from tests.integration.kafka_patience import patient_log
from tests.integration.processes import ROOT

_POLL_INTERVAL_S = 0.2
_START_S = 300.0
USER, PASSWORD = "holon", "swordfish"
"""The user that may connect to ``session_sasl``."""


def session_process() -> psutil.Process:
    """The process that lives as long as the tests do: under xdist the one that started this worker."""
    return psutil.Process(os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid())


def _folder() -> Path:
    session = session_process()
    return Path(tempfile.gettempdir()) / f"holon-kafka-{session.pid}-{int(session.create_time() * 100)}"


@cache
def session_bootstrap() -> str:
    """Address of the session's broker; the first who asks starts it. A missing part for that is an error."""
    session, folder = session_process(), _folder()
    folder.mkdir(exist_ok=True)
    with locked(folder / "session.lock"):
        running = kafka_broker.status(folder)
        if running is not None:
            return running.bootstrap
        guard = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.kafka_broker", str(folder), str(session.pid)],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert guard.stdout is not None
        line = guard.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"no Kafka broker for these tests: the reason is on standard error ({guard.wait()})")
        return line


def session_sasl() -> str:
    """Address of the same broker where users have to say who they are: with SASL_PLAINTEXT and PLAIN, as ``SASL``."""
    running = kafka_broker.status(_folder())
    assert running is not None
    lines = (running.folder / "server.properties").read_text().splitlines()
    listeners = next(line for line in lines if line.startswith("listeners="))
    return listeners.rpartition("SASL://")[2]


def session_log(folder: Path, properties: Mapping[str, str] | None = None, **options: int) -> KafkaLog:
    """A log of its own on the session's broker; the same folder gives the same log."""
    prefix = f"t{hashlib.blake2b(os.fsencode(folder), digest_size=6).hexdigest()}-"
    return patient_log(session_bootstrap(), properties, prefix=prefix, **options)


def _with_sasl() -> dict[str, str]:
    address = f"SASL://127.0.0.1:{free_port()}"
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    return {
        "listeners": address,
        "advertised.listeners": address,
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": login,
    }


def guard(folder: Path, pid: int) -> None:
    """Run a broker as long as that process lives."""
    session = psutil.Process(pid)
    try:
        print(kafka_broker.up(folder, properties=_with_sasl(), timeout_s=_START_S).bootstrap, flush=True)
        while session.is_running() and session.status() != psutil.STATUS_ZOMBIE:
            time.sleep(_POLL_INTERVAL_S)
    finally:
        kafka_broker.down(folder, delete=True, timeout_s=5.0)
        shutil.rmtree(folder)


if __name__ == "__main__":
    guard(Path(sys.argv[1]), int(sys.argv[2]))
