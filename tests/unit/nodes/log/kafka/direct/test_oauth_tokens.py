"""Tokens of a log-in: their form (RFC 7628), their claims, how long one is used, and errors that show no secret."""

from __future__ import annotations

import base64
import io
import json
import urllib.error
import urllib.request
from email.message import Message
from typing import Any

import pytest

from nodes.log.kafka.direct.connection import Lost, Unserved
from nodes.log.kafka.direct.oauth_tokens import Tokens

UNSIGNED = {
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
    "sasl.oauthbearer.config": "principal=ann principalClaimName=who scope=a,b lifeSeconds=100 extension_cluster=c",
}
OIDC = {
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "sesame",
    "sasl.oauthbearer.scope": "read",
    "sasl.oauthbearer.extensions": "a=1,b=2",
    "sasl.oauthbearer.token.endpoint.url": "https://user:hidden@provider/token?key=hidden",
}


class Provider:
    """Takes the place of ``urlopen``."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers, self.requests = list(answers), list[urllib.request.Request]()

    def __call__(self, request: urllib.request.Request, **_: Any) -> io.BytesIO:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)


def provider(monkeypatch: pytest.MonkeyPatch, *answers: bytes | Exception) -> Provider:
    made = Provider(*answers)
    monkeypatch.setattr("urllib.request.urlopen", made)
    return made


def test_an_unsigned_token_has_the_claims_that_are_given() -> None:
    message = Tokens(UNSIGNED).message()
    assert isinstance(message, bytes)
    front, bearer, extension, *rest = message.split(b"\x01")
    assert (front, extension, rest) == (b"n,,", b"cluster=c", [b"", b""])
    head, claims, signature = bearer.removeprefix(b"auth=Bearer ").split(b".")
    assert json.loads(base64.urlsafe_b64decode(head + b"==")) == {"alg": "none"} and signature == b""
    found = json.loads(base64.urlsafe_b64decode(claims + b"=="))
    assert (found["who"], found["scope"], found["exp"] - found["iat"]) == ("ann", ["a", "b"], 100)


def test_a_token_is_requested_once_until_most_of_its_life_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("nodes.log.kafka.direct.oauth_tokens.time.monotonic", lambda: now[0])
    made = provider(monkeypatch, *(b'{"access_token": "%d", "expires_in": 50}' % number for number in (1, 2)))
    tokens = Tokens(OIDC)
    first = tokens.message()
    assert first == b"n,,\x01auth=Bearer 1\x01a=1\x01b=2\x01\x01"
    now[0] += 39
    assert tokens.message() == first
    now[0] += 2
    assert tokens.message() == first.replace(b"r 1", b"r 2")
    assert made.requests[0].data == b"grant_type=client_credentials&scope=read"
    assert made.requests[0].headers["Authorization"] == "Basic " + base64.b64encode(b"me:sesame").decode()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (urllib.error.HTTPError("u", 401, "Unauthorized", Message(), None), Unserved),
        (urllib.error.HTTPError("u", 503, "Busy", Message(), None), Lost),
        (OSError("no route"), Lost),
        (b"<html>", Unserved),
        (b'{"token": 1}', Unserved),
        (b"[]", Unserved),
        (b'{"access_token": "a", "expires_in": "soon"}', Unserved),
    ],
)
def test_no_token_is_a_value_that_names_the_endpoint_and_no_secret(
    monkeypatch: pytest.MonkeyPatch, answer: bytes | Exception, kind: type[Lost]
) -> None:
    provider(monkeypatch, answer)
    found = Tokens(OIDC).message()
    assert type(found) is kind
    assert "https://provider/token" in found.why
    assert not any(secret in found.why for secret in ("sesame", "hidden"))
