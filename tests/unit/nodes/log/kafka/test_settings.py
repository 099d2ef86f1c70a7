"""Settings of the Kafka log: what is passed through to librdkafka, what is refused, where checkpoints go."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.errors import SettingsError
from nodes.settings.settings import Settings, load_settings

KAFKA = ("log.kind=kafka", "log.bootstrap=localhost:9092")


def load(folder: Path, *definitions: str) -> Settings:
    return load_settings(definitions=(*KAFKA, *definitions), environ={}, directory=folder)


@pytest.mark.parametrize(
    "allowed",
    [
        "security.protocol=SASL_SSL",
        "sasl.mechanism=OAUTHBEARER",
        "sasl.oauthbearer.client.secret=x",
        "ssl.ca.location=/etc/ca.pem",
        "enable.ssl.certificate.verification=true",
        "client.id=mine",
        "holon.writer=librdkafka",
        "holon.reader=librdkafka",
        "client.rack=r1",
        "group.id=mine",
        "compression.type=zstd",
        "socket.timeout.ms=10000",
        "reconnect.backoff.max.ms=100",
        "debug=broker",
    ],
)
def test_security_network_and_compression_pass_through(tmp_path: Path, allowed: str) -> None:
    name, _, value = allowed.partition("=")
    assert load(tmp_path, f"log.kafka.{allowed}").kafka_properties()[name] == value


@pytest.mark.parametrize(
    "refused",
    [
        "acks=1",
        "enable.idempotence=false",
        "enable.gapless.guarantee=false",
        "isolation.level=read_uncommitted",
        "auto.offset.reset=latest",
        "linger.ms=5",
        "message.timeout.ms=1",
        "transactional.id=x",
        "no.such.property=1",
        "holon.other=1",
    ],
)
def test_what_exactness_rests_on_is_not_for_users_to_set(tmp_path: Path, refused: str) -> None:
    with pytest.raises(SettingsError, match=r"is refused.*set by Holon itself"):
        load(tmp_path, f"log.kafka.{refused}")


@pytest.mark.parametrize("name", ["holon.reader", "holon.writer"])
def test_who_reads_and_writes_is_one_of_those_there_are(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}.* is one of .*librdkafka"):
        load(tmp_path, f"log.kafka.{name}=1")


@pytest.mark.parametrize("setting", ["holon.reader=source", "holon.reader=all", "holon.writer=batches"])
def test_values_of_earlier_releases_are_refused_with_the_one_of_now(tmp_path: Path, setting: str) -> None:
    with pytest.raises(SettingsError, match=f"{setting.replace('=', ' = ')}.* is now direct"):
        load(tmp_path, f"log.kafka.{setting}")


@pytest.mark.parametrize("name", ["plugin.library.paths", "ssl.engine.location", "ssl.providers"])
def test_what_loads_code_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="foreign code"):
        load(tmp_path, f"log.kafka.{name}=/tmp/x.so")


def test_what_runs_a_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="would run a command"):
        load(tmp_path, "log.kafka.sasl.kerberos.kinit.cmd=touch /tmp/x")


def test_checkpoints_are_in_a_folder_of_their_own(tmp_path: Path) -> None:
    assert load(tmp_path).checkpoint_url() == "./holon-checkpoints"
    assert load(tmp_path, "checkpoints.url=/data/c").checkpoint_url() == "/data/c"
