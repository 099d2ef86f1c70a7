"""A real broker that demands certificates, tokens or SCRAM: both ways of reading and writing, and wrong credentials."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from holon.columnar.payloads import BinaryColumn
from nodes.log.kafka.direct import leaders
from nodes.log.kafka.direct.connection import Lost, Unserved
from nodes.log.kafka.direct.leaders import Wanted
from nodes.log.kafka.direct.security import Dialer
from nodes.log.kafka.log import KafkaLog
from tests.integration.kafka_broker import session_bootstrap, session_mutual_tls, session_oauth, session_sasl
from tests.integration.kafka_patience import connect_patiently, patient_log, until_refused
from tests.integration.log_makers import read_by_columns

VALUES = [b"%06d" % number * 50 for number in range(20_000)]
UNSIGNED = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
}
PLENTY_S = 60.0
CERTIFICATE = r"wants a certificate of this client.*ssl\.certificate\.location and ssl\.key\.location"


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    connect_patiently(monkeypatch)
    session_bootstrap()


def mutual_tls(client: str = "client") -> tuple[str, dict[str, str]]:
    bootstrap, folder = session_mutual_tls()
    files = {"ssl.ca.location": "authority", "ssl.certificate.location": client, "ssl.key.location": f"{client}-key"}
    return bootstrap, {"security.protocol": "SSL"} | {name: str(folder / f"{of}.pem") for name, of in files.items()}


def token(scope: str = "holon") -> tuple[str, dict[str, str]]:
    return session_oauth(), UNSIGNED | {"sasl.oauthbearer.config": f"principal=tester scope={scope}"}


def scram(mechanism: str, password: str = "pencil") -> tuple[str, dict[str, str]]:
    made = ScramCredentialInfo(getattr(ScramMechanism, mechanism.replace("-", "_")), 4096)
    admin = AdminClient({"bootstrap.servers": session_bootstrap()})
    change = UserScramCredentialUpsertion("scrammer", made, b"pencil")
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(PLENTY_S)
    login = {"sasl.mechanism": mechanism, "sasl.username": "scrammer", "sasl.password": password}
    return session_sasl(), {"security.protocol": "SASL_PLAINTEXT", **login}


RIGHT = {
    "certificate": mutual_tls,
    "token": token,
    "SCRAM-SHA-256": lambda: scram("SCRAM-SHA-256"),
    "SCRAM-SHA-512": lambda: scram("SCRAM-SHA-512"),
}
WRONG: dict[str, tuple[Any, str]] = {
    "no certificate": (lambda: _without(mutual_tls(), "ssl.certificate.location", "ssl.key.location"), CERTIFICATE),
    "stranger": (lambda: mutual_tls("stranger"), CERTIFICATE),
    "token of another scope": (lambda: token("other"), r"sasl\.\*"),
    "password": (lambda: scram("SCRAM-SHA-256", "wrong"), r"Authentication failed.*sasl\.\*"),
}


def _without(one: tuple[str, dict[str, str]], *names: str) -> tuple[str, dict[str, str]]:
    return one[0], {name: value for name, value in one[1].items() if name not in names}


@pytest.mark.parametrize("reader", ["direct", "librdkafka"])
@pytest.mark.parametrize("how", sorted(RIGHT))
def test_the_right_credentials_write_and_read(how: str, reader: str, caplog: pytest.LogCaptureFixture) -> None:
    bootstrap, properties = RIGHT[how]()
    own = {"holon.reader": reader, "holon.writer": reader}
    with patient_log(bootstrap, {**properties, **own}, prefix=f"{how}-{reader}-") as log:
        with caplog.at_level("INFO", "nodes.log.kafka"):
            read_by_columns(log)
            log.create_topic("t", 1)
            log.send("t", 0, BinaryColumn.of(VALUES))
            log.poll_acks(wait=True)
            found: list[bytes] = []
            while len(found) < len(VALUES):
                found += log.read("t", 0, len(found)).values
        log.delete_topics(["t"])
    assert found == VALUES
    by_confluent = "read by confluent-kafka: log.kafka.holon.reader is librdkafka" in caplog.text
    assert by_confluent is (reader == "librdkafka")
    assert ("written on connections of Holon's own" in caplog.text) is (reader == "direct")
    assert "is read by confluent-kafka from offset" not in caplog.text


@pytest.mark.parametrize("how", sorted(WRONG))
def test_wrong_credentials_are_named_with_the_settings_to_look_at(how: str) -> None:
    made, words = WRONG[how]
    bootstrap, properties = made()
    until_refused(lambda: KafkaLog(bootstrap, properties, connect_timeout_s=3.0), words)


@pytest.mark.parametrize("how", sorted(WRONG))
def test_a_direct_connection_with_wrong_credentials_is_refused(how: str) -> None:
    bootstrap, properties = WRONG[how][0]()
    found = leaders.find(leaders.addresses(bootstrap), Wanted((), (), {}), Dialer(properties))
    assert isinstance(found, Lost), "no search goes on with it"
    assert found.why


class Provider(BaseHTTPRequestHandler):
    """Gives unsigned tokens to the client ``holon`` with the secret ``sesame``."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        given = login == "holon:sesame"
        self.server.asked.append(login)  # type: ignore[attr-defined]
        parts = [{"alg": "none"}, {"sub": "tester", "scope": ["holon"], "iat": 0, "exp": 1 << 33}]
        encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
        answer = {"access_token": ".".join([*encoded, ""]), "token_type": "bearer", "expires_in": 600}
        self.send_response(200 if given else 401)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer if given else {"error": "invalid_client"}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Provider) as server:
        server.asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def from_provider(provider: HTTPServer, secret: str) -> Dialer:
    oidc = {
        "method": "oidc",
        "client.id": "holon",
        "client.secret": secret,
        "token.endpoint.url": f"http://127.0.0.1:{provider.server_port}/token",
    }
    given = {f"sasl.oauthbearer.{name}": value for name, value in oidc.items()}
    return Dialer({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **given})


def test_a_token_of_a_provider_logs_in_and_is_used_again(provider: HTTPServer) -> None:
    dialer = from_provider(provider, "sesame")
    (address,) = leaders.addresses(session_oauth())
    for _ in range(2):
        wire = dialer.connect(address, PLENTY_S)
        assert not isinstance(wire, Lost), wire
        wire.close()
    assert provider.asked == ["holon:sesame"]  # type: ignore[attr-defined]


def test_a_provider_that_refuses_is_named(provider: HTTPServer) -> None:
    (address,) = leaders.addresses(session_oauth())
    refused = from_provider(provider, "wrong").connect(address, PLENTY_S)
    assert isinstance(refused, Unserved)
    assert "answers 401" in refused.why and "sasl.oauthbearer.client.*" in refused.why and "wrong" not in refused.why
