"""Rules for librdkafka properties that are passed through: which are secret, refused, or worth a warning."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic import SecretStr

from nodes.errors import SettingsError
from nodes.settings_sources import KAFKA, Given, resolve_reference

_SECRET = re.compile(r"password|secret|key\.pem|token|oauthbearer\.config|jaas")
# What may be passed through: security, the network, names that brokers see. Everything else is the log's own affair,
# because exactness rests on it (acks, idempotence, offsets, isolation, batches).
_ALLOWED = re.compile(
    r"security\.protocol|sasl\.[a-z.]+|ssl\.[a-z0-9.]+|enable\.(ssl\.certificate\.verification|sasl\.oauthbearer\.unsecure\.jwt)"
    r"|https\.ca\.(location|pem)|client\.(id|rack|dns\.lookup)|group\.id|broker\.address\.(family|ttl)|socket\.[a-z.]+"
    r"|connections\.max\.idle\.ms|(reconnect|retry)\.backoff\.(max\.)?ms|metadata\.max\.age\.ms"
    r"|topic\.metadata\.refresh\.interval\.ms|compression\.(codec|type|level)|receive\.message\.max\.bytes|debug"
)
_OWN = {"holon.writer": ("batches", "librdkafka"), "holon.reader": ("source", "all", "librdkafka")}
"""Not librdkafka's: how Holon itself uses Kafka (``nodes/log/kafka_config.py``)."""
_REFUSED = {
    "plugin.library.paths": "it would load foreign code into the process",
    "ssl.engine.location": "it would load foreign code into the process",
    "ssl.providers": "it would load foreign code into the process",
    "sasl.kerberos.kinit.cmd": "it would run a command",
    "bootstrap.servers": "set log.bootstrap",
    "metadata.broker.list": "set log.bootstrap",
}


def kafka_property(given: Given, environ: Mapping[str, str]) -> str | SecretStr:
    """The value as librdkafka takes it (text); wrapped if its name says that it is a secret."""
    name = given.key[len(KAFKA) :]
    if name in _REFUSED:
        raise SettingsError(f"{given.key} (from {given.origin}) is refused: {_REFUSED[name]}")
    if name in _OWN:
        if given.value not in _OWN[name]:
            raise SettingsError(f"{given.key} (from {given.origin}) is one of {', '.join(_OWN[name])}")
        return str(given.value)
    if not _ALLOWED.fullmatch(name):
        raise SettingsError(
            f"{given.key} (from {given.origin}) is refused: properties of security (security.protocol, sasl.*, ssl.*), "
            "of the network (socket.*, client.id, ...) and compression.* pass through; the others are set by Holon "
            "itself"
        )
    secret = _SECRET.search(name) is not None
    value = resolve_reference(given, environ) if secret else given.value
    if isinstance(value, bool):
        value = "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise SettingsError(f"{given.key} (from {given.origin}): a librdkafka property is text, a number or a boolean")
    return SecretStr(str(value)) if secret else str(value)


def kafka_warnings(bootstrap: str | None, properties: Mapping[str, str | SecretStr]) -> list[str]:
    """What weakens the connection to the brokers: no encryption to another machine, no verification."""
    found = []
    protocol = str(properties.get("security.protocol", "plaintext")).lower()
    if not protocol.endswith("ssl") and not all(is_loopback(host) for host in (bootstrap or "").split(",") if host):
        found.append(
            f"log.kafka.security.protocol is {protocol}: records and passwords cross the network unencrypted; "
            "use SSL or SASL_SSL"
        )
    if str(properties.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        found.append("log.kafka.enable.ssl.certificate.verification is false: any machine can pose as the broker")
    if str(properties.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
        found.append("log.kafka.ssl.endpoint.identification.algorithm is none: a valid certificate of any host will do")
    return found


def is_loopback(address: str) -> bool:
    """True if ``[SCHEME://]HOST:PORT`` is this machine by its name alone."""
    host = urlsplit("//" + address.strip().rpartition("://")[2]).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
