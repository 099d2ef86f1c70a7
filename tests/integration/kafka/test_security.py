"""Brokers that want to know who asks, and clients that want to know whom they ask: wrong credentials are named."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from holon.columnar.payloads import BinaryColumn
from nodes.log.kafka.direct.fetch_requests import VERSION
from nodes.log.kafka.direct.produce_requests import WANTED
from nodes.log.kafka.log import KafkaLog
from tests.integration.certificates import signed, write_signed
from tests.integration.fleet_support import run_command
from tests.integration.kafka_broker import PASSWORD, USER, session_bootstrap, session_sasl
from tests.integration.kafka_patience import connect_patiently, patient_log, until_refused
from tests.integration.kafka_proxy import FETCH, PRODUCE, Proxy
from tests.integration.kafka_stage import KafkaStage
from tests.integration.log_makers import read_by_columns
from tests.integration.processes import until

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": USER}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[KafkaStage]:
    stage = KafkaStage(tmp_path, session_bootstrap())
    yield stage
    stage.log.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Files of a certificate of 127.0.0.1 that nobody else has signed, and of its key."""
    folder = tmp_path_factory.mktemp("tls")
    write_signed(folder / "certificate.pem", folder / "key.pem", *signed("holon tests"))
    return folder / "certificate.pem", folder / "key.pem"


@pytest.fixture
def tls(certificate: tuple[Path, Path]) -> Iterator[Proxy]:
    """The broker behind a proxy that speaks TLS with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with Proxy(session_bootstrap(), tls=context) as proxy:
        yield proxy


def test_the_right_password_opens_the_log() -> None:
    session_bootstrap()
    with patient_log(session_sasl(), {**SASL, "sasl.password": PASSWORD}) as log:
        assert isinstance(log.topics(), dict)


def test_a_wrong_password_is_named_within_seconds_and_not_repeated_in_words(stage: KafkaStage) -> None:
    given = {**SASL, "sasl.password": "guessed-wrong"}
    stage.definitions = (
        *stage.definitions,
        f"log.bootstrap={session_sasl()}",
        *(f"log.kafka.{name}={value}" for name, value in given.items()),
    )

    def named() -> bool:
        """A client that had no time to hear the broker's answer cannot name it."""
        with run_command(stage) as command:
            code, out, err = command.finish()
        assert code == 4
        assert "guessed-wrong" not in out + err
        return "Authentication failed" in out and "sasl.*" in out

    until(named, "the refusal is named")


def test_no_password_where_one_is_asked_for_is_named() -> None:
    session_bootstrap()
    until_refused(lambda: KafkaLog(session_sasl(), connect_timeout_s=3.0), r"no answer within 3 s")


def test_a_certificate_that_is_not_trusted_is_named(tls: Proxy) -> None:
    until_refused(
        lambda: KafkaLog(tls.bootstrap, {"security.protocol": "SSL"}, connect_timeout_s=3.0),
        r"(?i)certificate verif.*ssl\.\*",
    )


def test_a_certificate_that_is_trusted_opens_the_log(tls: Proxy, certificate: tuple[Path, Path]) -> None:
    trusted = {"security.protocol": "SSL", "ssl.ca.location": str(certificate[0])}
    with patient_log(tls.bootstrap, trusted) as log:
        log.create_topic("tls", 1)
        log.append("tls", 0, [b"x"])
        assert log.read("tls", 0, 0).values == [b"x"]


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_direct_connections_are_made_by_tls_and_with_a_user(
    certificate: tuple[Path, Path], protocol: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns that are written and read go over connections of the log's own there too."""
    connect_patiently(monkeypatch)
    session_bootstrap()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    properties = {"security.protocol": protocol}
    if protocol.startswith("SASL"):
        properties |= {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
    if protocol.endswith("SSL"):
        properties["ssl.ca.location"] = str(certificate[0])
    behind = session_sasl() if protocol.startswith("SASL") else session_bootstrap()
    with Proxy(behind, tls=context if protocol.endswith("SSL") else None) as proxy:
        name = f"direct-{protocol.lower()}"
        fetched, produced = proxy.count(FETCH, VERSION), proxy.count(PRODUCE, WANTED[PRODUCE])
        with patient_log(proxy.bootstrap, {**properties, "client.id": "direct"}) as log:
            read_by_columns(log)
            log.create_topic(name, 1)
            values = [b"%06d" % number * 50 for number in range(20_000)]
            with caplog.at_level("DEBUG", "nodes.log.kafka.direct"):
                for first in range(0, len(values), 5_000):
                    log.send(name, 0, BinaryColumn.of(values[first : first + 5_000]))
                log.poll_acks(wait=True)
                found: list[bytes] = []
                while len(found) < len(values):
                    found += log.read(name, 0, len(found)).values
            log.delete_topics([name])
        assert found == values
        assert fetched.seen > 0 and produced.seen > 0
    assert "is read by confluent-kafka" not in caplog.text
