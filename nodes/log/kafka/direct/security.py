"""How a direct connection is made: in plain text or by TLS, with or without a user.

Other ways (Kerberos, engines, cipher lists) are left to confluent-kafka: ``unsupported_security`` names them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from nodes.log.kafka.direct import oauth_tokens
from nodes.log.kafka.direct.connection import Cursor, Lost, Unserved, Wire, text

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 0
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
OAUTH = "OAUTHBEARER"
_MECHANISMS = ("PLAIN", OAUTH, *_HASHES)
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_LEAST_ITERATIONS = 4096
KNOWN = frozenset(
    "security.protocol sasl.mechanism sasl.mechanisms sasl.username sasl.password ssl.ca.location ssl.ca.pem "
    "ssl.certificate.location ssl.key.location ssl.key.password ssl.endpoint.identification.algorithm "
    "enable.ssl.certificate.verification".split()
).union(oauth_tokens.KNOWN)
"""Properties of security that are obeyed here."""
_FAMILIES = ("security.", "sasl.", "ssl.", "https.", "enable.ssl.", "enable.sasl.")


def unsupported_security(properties: Mapping[str, Any]) -> str | None:
    """The property of security with which no connection can be made here; None: one can. Others are not looked at."""
    for name in properties:
        if name.startswith(_FAMILIES) and name not in KNOWN:
            return name
    protocol, mechanism = _protocol(properties), _mechanism(properties)
    if protocol not in _PROTOCOLS:
        return f"security.protocol={protocol}"
    if not protocol.startswith("sasl"):
        return None
    if mechanism not in _MECHANISMS:
        return f"sasl.mechanism={mechanism}"
    if mechanism == OAUTH and not oauth_tokens.is_known(properties):
        return "sasl.oauthbearer.* of another grant than client_credentials"
    return None


def _protocol(properties: Mapping[str, Any]) -> str:
    return str(properties.get("security.protocol", "plaintext")).lower()


def _mechanism(properties: Mapping[str, Any]) -> str:
    return str(properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI"))).upper()


class Dialer:
    """Makes connections to brokers. Safe to use from several threads."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self.client_id = str(properties.get("client.id", "holon"))
        protocol = _protocol(properties)
        self._tls = _context(properties) if protocol.endswith("ssl") else None
        self._mechanism = _mechanism(properties) if protocol.startswith("sasl") else None
        self._user = str(properties.get("sasl.username", ""))
        self._password = str(properties.get("sasl.password", ""))
        self._tokens = oauth_tokens.Tokens(properties) if self._mechanism == OAUTH else None

    def connect(self, address: tuple[str, int], timeout_s: float) -> Wire | Lost:
        """A connection on which requests may be sent, each answered within so long."""
        wire = Wire.connect(*address, self.client_id, timeout_s, None if self._tls is None else self._by_tls)
        if isinstance(wire, Lost) or self._mechanism is None:
            return wire
        refused = self._log_in(wire, self._mechanism)
        if refused is None:
            return wire
        wire.close()
        return refused

    def _by_tls(self, plain: socket.socket, host: str) -> TlsSocket:
        assert self._tls is not None
        try:
            return TlsSocket(self._tls.wrap_socket(plain, server_hostname=host))
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, TimeoutError):
            raise  # the peer has gone, or is slow
        except ssl.SSLError as error:
            raise ValueError(str(error)) from error

    def _log_in(self, wire: Wire, mechanism: str) -> Lost | None:
        answer = wire.request(SASL_HANDSHAKE, _HANDSHAKE_VERSION, text(mechanism))
        if isinstance(answer, Lost):
            return answer
        error = Cursor(answer).number(2)
        if error:
            return Unserved(f"the broker does not take {mechanism} (error {error})")
        if mechanism == "PLAIN":
            answer = _authenticate(wire, f"\0{self._user}\0{self._password}".encode())
            return answer if isinstance(answer, Lost) else None
        if self._tokens is not None:
            return _by_token(wire, self._tokens)
        return scram(wire, _HASHES[mechanism], self._user, self._password)


class TlsSocket:
    """A TLS connection as ``Wire`` uses sockets: what would wait raises ``BlockingIOError``."""

    def __init__(self, connected: ssl.SSLSocket) -> None:
        self._tls = connected

    def sendmsg(self, buffers: Sequence[memoryview]) -> int:
        """TLS has records of its own: one buffer after the other."""
        try:
            return self._tls.send(buffers[0])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def recv_into(self, into: memoryview) -> int:
        try:
            return self._tls.recv_into(into)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def setsockopt(self, *option: int) -> None:
        """Nothing: the bytes missing on the wire do not follow from the bytes missing of an answer."""

    def setblocking(self, flag: bool) -> None:
        self._tls.setblocking(flag)

    def fileno(self) -> int:
        return self._tls.fileno()

    def close(self) -> None:
        self._tls.close()


def _context(properties: Mapping[str, Any]) -> ssl.SSLContext:
    given = {name: str(value) for name, value in properties.items() if name in KNOWN}
    location, pem = given.get("ssl.ca.location"), given.get("ssl.ca.pem")
    if location == "probe":
        location = None
    context = ssl.create_default_context(cafile=location, cadata=pem)  # without both: those that the system trusts
    if given.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif given.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    certificate = given.get("ssl.certificate.location")
    if certificate:
        context.load_cert_chain(certificate, given.get("ssl.key.location"), given.get("ssl.key.password"))
    return context


def _authenticate(wire: Wire, message: bytes) -> bytes | Lost:
    """A step of the log-in; what the broker answers."""
    answer = wire.request(SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, struct.pack(">i", len(message)) + message)
    if isinstance(answer, Lost):
        return answer
    cursor = Cursor(answer)
    error, why = cursor.number(2), cursor.text()
    found = bytes(cursor.take(max(cursor.number(4), 0)))
    if cursor.broken:
        return Lost("an answer about a log-in that ends too early")
    if error:
        return Unserved(f"the log-in is refused: {why or f'error {error}'}")
    return found


def _by_token(wire: Wire, tokens: oauth_tokens.Tokens) -> Lost | None:
    message = tokens.message()
    answer = message if isinstance(message, Lost) else _authenticate(wire, message)
    if isinstance(answer, Lost) or not answer:
        return answer or None
    return Unserved(f"the log-in is refused: {answer[:500].decode(errors='backslashreplace')}")


def scram(wire: Wire, algorithm: str, user: str, password: str) -> Lost | None:
    """RFC 5802, without channel binding; the broker has to prove that it knows the password too."""
    nonce = base64.b64encode(secrets.token_bytes(24)).decode()
    bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    first = _authenticate(wire, b"n,," + bare.encode())
    if isinstance(first, Lost):
        return first
    fields = _fields(first)
    iterations = int(fields.get("i", "0")) if fields.get("i", "").isdigit() else 0
    if not fields.get("r", "").startswith(nonce) or iterations < _LEAST_ITERATIONS or "s" not in fields:
        return Unserved("the log-in is refused: the broker's challenge is none")
    try:
        salt, challenge = base64.b64decode(fields["s"]), first.decode()
    except ValueError:
        return Unserved("the log-in is refused: the broker's challenge is none")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)
    without_proof = f"c=biws,r={fields['r']}"
    signed = f"{bare},{challenge},{without_proof}".encode()
    key = hmac.digest(salted, b"Client Key", algorithm)
    signature = hmac.digest(hashlib.new(algorithm, key).digest(), signed, algorithm)
    proof = base64.b64encode(bytes(one ^ other for one, other in zip(key, signature, strict=True))).decode()
    last = _authenticate(wire, f"{without_proof},p={proof}".encode())
    if isinstance(last, Lost):
        return last
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    if not hmac.compare_digest(_fields(last).get("v", "").encode(), base64.b64encode(expected)):
        return Unserved("the log-in is refused: the broker does not know the password")
    return None


def _fields(message: bytes) -> dict[str, str]:
    rows = (row.partition("=") for row in message.decode("utf-8", "replace").split(","))
    return {name: value for name, _, value in rows}
