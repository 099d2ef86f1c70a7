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
from tests.integration.certificates import make_certificates
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
    """Address of the same broker where users have to say who they are: with SASL_PLAINTEXT, and PLAIN or SCRAM."""
    return _listener("SASL")


def session_oauth() -> str:
    """Where clients need a token (SASL_PLAINTEXT, OAUTHBEARER), unsigned and with the scope ``holon``."""
    return _listener("OAUTH")


def session_mutual_tls() -> tuple[str, Path]:
    """Where clients need a certificate (SSL), and the folder with the files of ``make_certificates``."""
    return _listener("MTLS"), _folder() / "tls"


def _listener(name: str) -> str:
    running = kafka_broker.status(_folder())
    assert running is not None
    lines = (running.folder / "server.properties").read_text().splitlines()
    listeners = next(line for line in lines if line.startswith("listeners="))
    return next(one for one in listeners.split(",") if f"{name}://" in one).rpartition("//")[2]


def session_log(folder: Path, properties: Mapping[str, str] | None = None, **options: float) -> KafkaLog:
    """A log of its own on the session's broker; the same folder gives the same log."""
    return patient_log(session_bootstrap(), properties, prefix=session_prefix(folder), **options)


def session_prefix(folder: Path) -> str:
    """Topics on the session's broker are a test's own by the whole path of its folder: names of folders repeat."""
    return f"t{hashlib.blake2b(os.fsencode(folder), digest_size=6).hexdigest()}-"


def _secured(folder: Path) -> dict[str, str]:
    """Three more listeners."""
    (folder / "tls").mkdir(parents=True, exist_ok=True)
    make_certificates(folder / "tls")
    addresses = ",".join(f"{name}://127.0.0.1:{free_port()}" for name in ("SASL", "OAUTH", "MTLS"))
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    token = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="holon";'
    )
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    return {
        "listeners": addresses,
        "advertised.listeners": addresses,
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,OAUTH:SASL_PLAINTEXT,MTLS:SSL",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": login,
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": token,
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.keystore.type": "PEM",
        "listener.name.mtls.ssl.keystore.location": str(folder / "tls" / "broker.pem"),
        "listener.name.mtls.ssl.truststore.type": "PEM",
        "listener.name.mtls.ssl.truststore.location": str(folder / "tls" / "authority.pem"),
    }


def guard(folder: Path, pid: int) -> None:
    """Run a broker as long as that process lives."""
    session = psutil.Process(pid)
    try:
        print(kafka_broker.up(folder, properties=_secured(folder), timeout_s=_START_S).bootstrap, flush=True)
        while session.is_running() and session.status() != psutil.STATUS_ZOMBIE:
            time.sleep(_POLL_INTERVAL_S)
    finally:
        kafka_broker.down(folder, delete=True, timeout_s=5.0)
        shutil.rmtree(folder)


if __name__ == "__main__":
    guard(Path(sys.argv[1]), int(sys.argv[2]))
