"""Certificates for tests: an authority, a broker of 127.0.0.1, a client, and a stranger's client."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PLAIN = serialization.NoEncryption()


def make_certificates(folder: Path) -> None:
    """``authority.pem``, ``broker.pem`` (key and certificate); ``client.pem`` and ``client-key.pem``, of the same.

    ``stranger.pem`` and ``stranger-key.pem`` are signed by an authority that nobody knows.
    """
    key, authority = signed("holon authority")
    (folder / "authority.pem").write_bytes(_pem(authority))
    broker_key, broker = signed("127.0.0.1", (key, authority))
    (folder / "broker.pem").write_bytes(_key_pem(broker_key) + _pem(broker) + _pem(authority))
    for name, issuer in (("client", (key, authority)), ("stranger", signed("stranger"))):
        write_signed(folder / f"{name}.pem", folder / f"{name}-key.pem", *signed(name, issuer))


def write_signed(certificate: Path, key: Path, own_key: Any, own: x509.Certificate) -> None:
    """Both as PEM files."""
    certificate.write_bytes(_pem(own))
    key.write_bytes(_key_pem(own_key))


def signed(name: str, issuer: tuple[Any, x509.Certificate] | None = None) -> tuple[Any, x509.Certificate]:
    """A key and its certificate, for 127.0.0.1; without an issuer it is one itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, by = (key, subject) if issuer is None else (issuer[0], issuer[1].subject)
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), True)
        .sign(signer, hashes.SHA256())
    )
    return key, made


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: Any) -> bytes:
    pem: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, _PLAIN)
    return pem
