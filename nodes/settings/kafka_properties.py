"""Rules for librdkafka properties that are passed through: which are secret, refused, or worth a warning."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from nodes.errors import SettingsError, nearest
from nodes.settings.sources import KAFKA, GivenSources, may_be_secret, resolve_reference
from nodes.settings.value_types import Secret

PASSED_THROUGH = frozenset(
    """
    security.protocol sasl.mechanism sasl.mechanisms sasl.username sasl.password sasl.kerberos.service.name
    sasl.kerberos.principal sasl.kerberos.keytab sasl.kerberos.min.time.before.relogin sasl.oauthbearer.config
    sasl.oauthbearer.method sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.scope sasl.oauthbearer.extensions sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.grant.type
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.metadata.authentication.type
    sasl.oauthbearer.sub.claim.name enable.sasl.oauthbearer.unsecure.jwt
    ssl.cipher.suites ssl.curves.list ssl.sigalgs.list ssl.key.location ssl.key.password ssl.key.pem
    ssl.certificate.location ssl.certificate.pem ssl.ca.location ssl.ca.pem ssl.ca.certificate.stores ssl.crl.location
    ssl.keystore.location ssl.keystore.password ssl.engine.id ssl.endpoint.identification.algorithm
    enable.ssl.certificate.verification https.ca.location https.ca.pem
    client.id client.rack client.dns.lookup group.id broker.address.family broker.address.ttl socket.timeout.ms
    socket.blocking.max.ms socket.send.buffer.bytes socket.receive.buffer.bytes socket.keepalive.enable
    socket.nagle.disable socket.max.fails socket.connection.setup.timeout.ms connections.max.idle.ms
    reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms metadata.max.age.ms
    topic.metadata.refresh.interval.ms compression.codec compression.type compression.level receive.message.max.bytes
    debug
    """.split()
)
"""Properties of security and of the network, and names that brokers see. Everything else is the log's own affair,
because exactness rests on it (acks, idempotence, offsets, isolation, batches)."""
_OWN = dict.fromkeys(("holon.writer", "holon.reader"), ("direct", "librdkafka"))
"""Not librdkafka's: how Holon itself uses Kafka (``nodes/log/kafka/client_config.py``)."""
_RENAMED: dict[object, str] = {"batches": "direct", "source": "direct", "all": "direct"}
"""Values of those in earlier releases."""
_REFUSED = {
    "plugin.library.paths": "it would load foreign code into the process",
    "ssl.engine.location": "it would load foreign code into the process",
    "ssl.providers": "it would load foreign code into the process",
    "sasl.kerberos.kinit.cmd": "it would run a command",
    "bootstrap.servers": "set log.bootstrap",
    "metadata.broker.list": "set log.bootstrap",
}


def kafka_property(given: GivenSources, environ: Mapping[str, str]) -> str | Secret:
    """The value as librdkafka takes it (text); wrapped if its name marks a secret."""
    name = given.key[len(KAFKA) :]
    if name in _REFUSED:
        raise SettingsError(f"{given.key} (from {given.origin}) is refused: {_REFUSED[name]}")
    if name in _OWN:
        if given.value in _RENAMED:
            raise SettingsError(f"{given.key} = {given.value} (from {given.origin}) is now {_RENAMED[given.value]}")
        if given.value not in _OWN[name]:
            raise SettingsError(f"{given.key} (from {given.origin}) is one of {', '.join(_OWN[name])}")
        return str(given.value)
    if name not in PASSED_THROUGH:
        raise SettingsError(
            f"{given.key} (from {given.origin}) is refused{nearest(name, PASSED_THROUGH)}: properties of security "
            "(security.protocol, sasl.*, ssl.*), of the network (socket.*, client.id, ...) and compression.* pass "
            "through; the others are set by Holon itself"
        )
    secret = may_be_secret(name)
    value = resolve_reference(given, environ) if secret else given.value
    if isinstance(value, bool):
        value = "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise SettingsError(f"{given.key} (from {given.origin}): a librdkafka property is text, a number or a boolean")
    return Secret(str(value)) if secret else str(value)


def kafka_warnings(bootstrap: str | None, properties: Mapping[str, str | Secret]) -> list[str]:
    """The properties that weaken the connection to the brokers: no encryption to another machine, no verification."""
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
