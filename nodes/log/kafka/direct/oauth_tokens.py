"""Tokens for a log-in by OAUTHBEARER (RFC 7628): from an OpenID provider, or unsigned ones for development.

The properties are librdkafka's: grants of client credentials, and ``sasl.oauthbearer.config`` of unsecured tokens.
Other grants are left to confluent-kafka.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from nodes.log.kafka.direct.connection import Lost, Unserved

PREFIX = "sasl.oauthbearer."
UNSECURED = "enable.sasl.oauthbearer.unsecure.jwt"
KNOWN = frozenset(
    [
        *(PREFIX + name for name in "method config client.id client.secret scope extensions".split()),
        *(PREFIX + name for name in "token.endpoint.url grant.type".split()),
        *(PREFIX + f"client.credentials.client.{name}" for name in ("id", "secret")),
        UNSECURED,
        "https.ca.location",
    ]
)
_LIFE_S = 3600.0
_RENEWED_AT = 0.8
"""Of a token's life."""
_TIMEOUT_S = 10.0
_MOST_BYTES = 1 << 20


def is_known(properties: Mapping[str, Any]) -> bool:
    """Whether tokens for these properties can be had here."""
    given = _given(properties)
    if given.get("method", "default") == "oidc":
        return given.get("grant.type", "client_credentials") == "client_credentials" and "token.endpoint.url" in given
    return str(properties.get(UNSECURED, "false")).lower() == "true"


def _given(properties: Mapping[str, Any]) -> dict[str, str]:
    return {name.removeprefix(PREFIX): str(value) for name, value in properties.items() if name.startswith(PREFIX)}


class Tokens:
    """Tokens of one client; one is used until most of its life is over. Safe to use from several threads."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._given = _given(properties)
        self._authorities = properties.get("https.ca.location")
        self._lock = threading.Lock()
        self._token, self._until_s = "", float("-inf")

    def message(self) -> bytes | Lost:
        """The client's first message of a log-in."""
        with self._lock:
            if time.monotonic() >= self._until_s:
                found = self._fetched() if self._given.get("method") == "oidc" else self._unsecured()
                if isinstance(found, Lost):
                    return found
                self._token, life_s = found
                self._until_s = time.monotonic() + _RENEWED_AT * life_s
            token = self._token
        pairs = [pair for pair in self._given.get("extensions", "").split(",") if pair]
        pairs += [
            f"{name.removeprefix('extension_')}={value}"
            for name, value in self._config().items()
            if name.startswith("extension_")
        ]
        return "\x01".join(["n,,", f"auth=Bearer {token}", *pairs, "", ""]).encode()

    def _config(self) -> dict[str, str]:
        pairs = (pair.partition("=") for pair in self._given.get("config", "").split())
        return {name: value for name, _, value in pairs}

    def _unsecured(self) -> tuple[str, float]:
        config, now_s = self._config(), int(time.time())
        life_s = float(config.get("lifeSeconds", _LIFE_S))
        claims: dict[str, Any] = {config.get("principalClaimName", "sub"): config.get("principal", "")}
        claims |= {"iat": now_s, "exp": now_s + int(life_s)}
        if "scope" in config:
            claims[config.get("scopeClaimName", "scope")] = config["scope"].split(",")
        return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}.", life_s

    def _fetched(self) -> tuple[str, float] | Lost:
        given = self._given
        url = given["token.endpoint.url"]
        where = f"the token endpoint {_without_secrets(url)}"
        client = given.get("client.id", given.get("client.credentials.client.id", ""))
        secret = given.get("client.secret", given.get("client.credentials.client.secret", ""))
        form = {"grant_type": "client_credentials"} | ({"scope": given["scope"]} if "scope" in given else {})
        login = base64.b64encode(f"{urllib.parse.quote(client)}:{urllib.parse.quote(secret)}".encode()).decode()
        headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
        try:
            request = urllib.request.Request(url, urllib.parse.urlencode(form).encode(), headers)
            context = ssl.create_default_context(cafile=self._authorities)
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context) as answer:
                found = json.loads(answer.read(_MOST_BYTES))
            return str(found["access_token"]), float(found.get("expires_in", _LIFE_S))
        except urllib.error.HTTPError as error:
            what = f"{where} answers {error.code} {error.reason}: check {PREFIX}client.*"
            return (Lost if error.code >= 500 else Unserved)(what)
        except (ValueError, KeyError, TypeError) as error:
            return Unserved(f"{where} gives no token: {error}")
        except OSError as error:
            return Lost(f"{where}: {error}")


def _without_secrets(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _encoded(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
