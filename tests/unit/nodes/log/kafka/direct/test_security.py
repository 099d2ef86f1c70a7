"""Brokers that may be dialled directly, and the log-in by SCRAM, with the example of RFC 7677 and brokers that lie."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from typing import Any, cast

import pytest

from nodes.log.kafka.direct import security
from nodes.log.kafka.direct.connection import Lost, Wire
from nodes.log.kafka.direct.security import unsupported_security

USER, PASSWORD, SALT, ITERATIONS = "user", "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096
OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
NONCE = b"\x01" * 24


class Broker:
    """Knows one user's password, and answers log-ins as RFC 5802 says."""

    def __init__(self, password: str = PASSWORD, iterations: int = ITERATIONS, proves: bool = True) -> None:
        self.salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, iterations)
        self.iterations, self.proves = iterations, proves
        self.said: list[str] = []
        self.challenge = ""

    def request(self, api: int, version: int, request: bytes) -> bytes:
        said = request[4:].decode()
        self.said.append(said)
        if len(self.said) == 1:
            nonce = said.rpartition("r=")[2] + "broker"
            self.challenge = f"r={nonce},s={base64.b64encode(SALT).decode()},i={self.iterations}"
            return answer(0, self.challenge)
        without_proof, _, proof = said.rpartition(",p=")
        signed = ",".join((self.said[0].removeprefix("n,,"), self.challenge, without_proof)).encode()
        stored = hashlib.sha256(hmac.digest(self.salted, b"Client Key", "sha256")).digest()
        mask = hmac.digest(stored, signed, "sha256")
        key = bytes(one ^ other for one, other in zip(base64.b64decode(proof), mask, strict=True))
        if hashlib.sha256(key).digest() != stored:
            return answer(58, "")
        signature = hmac.digest(hmac.digest(self.salted, b"Server Key", "sha256"), signed, "sha256")
        return answer(0, "v=" + base64.b64encode(signature if self.proves else bytes(32)).decode())


def answer(error: int, said: str) -> bytes:
    return struct.pack(">hhi", error, -1, len(said)) + said.encode()


def log_in(broker: Broker, password: str = PASSWORD) -> Lost | None:
    return security.scram(cast("Wire", broker), "sha256", USER, password)


def test_the_right_password_logs_in_and_is_never_sent() -> None:
    broker = Broker()
    assert log_in(broker) is None
    assert PASSWORD not in "".join(broker.said)


def test_the_example_of_the_rfc_gives_its_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its nonces: the proof that stands there."""

    class Example:
        said: list[bytes] = []  # noqa: RUF012

        def request(self, api: int, version: int, request: bytes) -> bytes:
            self.said.append(request[4:])
            nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
            first = f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
            return answer(0, first if len(self.said) == 1 else "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")

    class Encoded(bytes):
        def decode(self, *_: Any) -> str:
            return "rOprNGfwEbeRWgbNEkqO"

    encode = base64.b64encode
    monkeypatch.setattr(security.secrets, "token_bytes", lambda count: NONCE)
    monkeypatch.setattr(security.base64, "b64encode", lambda data: Encoded() if data == NONCE else encode(data))
    example = Example()
    assert log_in(cast("Broker", example)) is None
    assert example.said[1].endswith(b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")


@pytest.mark.parametrize(
    ("broker", "password", "why"),
    [
        (Broker(), "pen", "refused"),
        (Broker(proves=False), PASSWORD, "does not know the password"),
        (Broker(iterations=100), PASSWORD, "challenge is none"),
    ],
)
def test_what_is_wrong_is_named_without_the_password(broker: Broker, password: str, why: str) -> None:
    lost = log_in(broker, password)
    assert isinstance(lost, Lost) and why in lost.why and password not in lost.why


class Garbled(Broker):
    """Answers what is no log-in: at the first step, or at the last."""

    def __init__(self, first: bytes | None, last: bytes) -> None:
        super().__init__()
        self.first, self.last = first, last

    def request(self, api: int, version: int, request: bytes) -> bytes:
        right = super().request(api, version, request)
        nonce = self.challenge.partition(",")[0].encode()
        if len(self.said) > 1:
            garbled: bytes | None = self.last
        else:
            garbled = None if self.first is None else nonce + self.first
        return right if garbled is None else struct.pack(">hhi", 0, -1, len(garbled)) + garbled


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (b",s=W22ZaJ0,i=4096", b""),  # no base64
        (b"\xff\xfe,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", b""),  # no text
        (None, "v=é".encode()),
        (None, b"\xff"),
    ],
)
def test_an_answer_that_is_no_log_in_is_a_value_and_ends_no_search(first: bytes | None, last: bytes) -> None:
    assert isinstance(log_in(Garbled(first, last)), Lost)


@pytest.mark.parametrize(
    ("properties", "known"),
    [
        ({}, True),
        ({"security.protocol": "SSL", "ssl.ca.location": "ca.pem"}, True),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}, True),
        ({**OAUTH}, False),
        ({**OAUTH, "enable.sasl.oauthbearer.unsecure.jwt": "true"}, True),
        ({**OAUTH, "sasl.oauthbearer.method": "oidc"}, False),
        ({**OAUTH, "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": "https://a/b"}, True),
        (
            {
                **OAUTH,
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": "https://a/b",
                "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            },
            False,
        ),
        ({"security.protocol": "SASL_PLAINTEXT"}, False),
        ({"security.protocol": "SSL", "ssl.crl.location": "crl.pem"}, False),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "x"}, False),
        ({"client.id": "mine", "acks": "all"}, True),
    ],
)
def test_what_is_not_known_here_is_left_to_confluent_kafka(properties: dict[str, str], known: bool) -> None:
    assert (unsupported_security(properties) is None) is known
