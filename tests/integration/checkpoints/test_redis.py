"""Checkpoints in Redis: what a lost answer, a restart, a full memory and a wrong password lead to; TLS is verified."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from nodes.checkpoints.opening import open_checkpoints
from nodes.checkpoints.redis_store import RedisCheckpoints
from nodes.checkpoints.store import CheckpointMissing, CheckpointTooLarge, StoreUnavailable
from nodes.errors import SettingsError
from nodes.redis_connection import RedisServer
from nodes.settings.settings import load_settings
from nodes.settings.stores import RedisSettings
from nodes.settings.value_types import Secret
from tests.integration.checkpoint_samples import NOISE, TEXT, key
from tests.integration.store_servers import PLAIN_REDIS, RedisProcess

_PEM = serialization.Encoding.PEM


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisProcess]:
    """One that may be killed; what it has acknowledged is on the disk."""
    server = RedisProcess(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.close()


def opened(url: str, **given: object) -> RedisCheckpoints:
    return RedisCheckpoints(RedisServer(url, RedisSettings(**{"timeout_ms": 60_000, **given})))  # type: ignore[arg-type]


def test_what_was_acknowledged_survives_kill_9_and_what_was_lost_is_missing(own_redis: RedisProcess) -> None:
    store = opened(own_redis.url)
    names = [store.save(key(offset), NOISE) for offset in range(2)]
    own_redis.kill()
    with pytest.raises(StoreUnavailable, match=rf"redis://127.0.0.1:{own_redis.port}/0 could not be read.*check"):
        store.load(names[0])
    with pytest.raises(StoreUnavailable, match="could not be written"):
        store.save(key(9), TEXT)
    own_redis.start()
    assert store.load(names[1]) == NOISE and store.list("q7", 0, 3) == names[::-1]
    own_redis.client().flushall()
    with pytest.raises(CheckpointMissing):
        store.load(names[1])
    assert store.save(key(1), NOISE) == names[1]


def test_a_value_that_lost_its_place_in_the_index_gets_it_back_with_the_next_save(redis_server: RedisProcess) -> None:
    prefix = uuid.uuid4().hex
    store = opened(f"{redis_server.url}?prefix={prefix}")
    name = store.save(key(), TEXT)
    redis_server.client().delete(f"{prefix}:checkpoints:{{q7/0/00003}}")
    assert store.list("q7", 0, 3) == []
    assert store.save(key(), TEXT) == name and store.list("q7", 0, 3) == [name]


def test_an_index_that_names_a_lost_value_is_pruned(redis_server: RedisProcess) -> None:
    prefix = uuid.uuid4().hex
    store = opened(f"{redis_server.url}?prefix={prefix}")
    names = [store.save(key(offset), TEXT) for offset in range(5)]
    redis_server.client().delete(f"{prefix}:checkpoint:{{q7/0/00003}}:{names[0].rpartition('/')[2]}")
    assert sorted(store.prune("q7", 0, 3)) == names[:2]
    assert store.list("q7", 0, 3) == names[:1:-1]
    assert len(redis_server.client().keys(f"{prefix}:*")) == 3 + 1


def test_a_full_memory_and_a_replica_say_what_to_do(own_redis: RedisProcess) -> None:
    store = opened(own_redis.url)
    own_redis.client().config_set("maxmemory", "1")
    with pytest.raises(StoreUnavailable, match="give Redis more memory"):
        store.save(key(), TEXT)
    own_redis.client().config_set("maxmemory", "0")
    own_redis.client().replicaof("127.0.0.1", 9)
    with pytest.raises(StoreUnavailable, match="name the primary"):
        store.save(key(), TEXT)


def test_a_checkpoint_above_the_limit_of_redis_is_refused_before_it_is_sent(
    redis_server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(f"{redis_server.url}?prefix={uuid.uuid4().hex}")
    monkeypatch.setattr(store.blobs, "largest_bytes", 100)
    with pytest.raises(CheckpointTooLarge, match="bytes compressed, the limit in redis://"):
        store.save(key(), NOISE)
    assert store.list("q7", 0, 3) == []


def test_passwords_come_from_settings_and_are_never_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = RedisProcess(tmp_path / "redis", "--requirepass", "swordfish")
    try:
        assert opened(server.url, password=Secret("swordfish")).list("q7", 0, 3) == []
        in_url = server.url.replace("//", "//default:swordfish@")
        assert opened(in_url).list("q7", 0, 3) == []
        for wrong in ({}, {"password": Secret("sword")}):
            with pytest.raises(StoreUnavailable, match=r"mend user and password \(redis\.username") as caught:
                opened(server.url, **wrong).list("q7", 0, 3)
            assert "sword" not in str(caught.value).replace("password", "")
        (tmp_path / "secret").write_text("swordfish\n")
        given = [f"checkpoints.url={server.url}", f"redis.password=file:{tmp_path}/secret", "redis.timeout_ms=60000"]
        settings = load_settings(definitions=given, environ={}, directory=tmp_path)
        with caplog.at_level(logging.WARNING):
            store = open_checkpoints(settings)
        assert store.list("q7", 0, 3) == []
        assert "append-only file" in caplog.text and "swordfish" not in caplog.text + repr(settings)
    finally:
        server.close()


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Key and self-signed certificate for this machine."""
    secret, today = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    here = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    builder = x509.CertificateBuilder(who, who, secret.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(today - timedelta(days=1)).not_valid_after(today + timedelta(days=1))
    made = builder.add_extension(here, critical=False).sign(secret, hashes.SHA256())
    at_key, at_certificate = folder / f"{name}.key", folder / f"{name}.crt"
    at_key.write_bytes(secret.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    at_certificate.write_bytes(made.public_bytes(_PEM))
    return at_key, at_certificate


def test_tls_is_used_and_the_server_is_verified(tmp_path: Path) -> None:
    secret, public = certificate(tmp_path, "store")
    _, other = certificate(tmp_path, "somebody-else")
    server = RedisProcess(
        tmp_path / "redis", "--port", "0", "--tls-port", "PORT", "--tls-cert-file", str(public),
        "--tls-key-file", str(secret), "--tls-ca-cert-file", str(public), "--tls-auth-clients", "no",
    )  # fmt: skip
    url = server.url.replace("redis:", "rediss:")
    try:
        store = opened(url, ca_file=str(public))
        assert store.load(store.save(key(), TEXT)) == TEXT
        with pytest.raises(StoreUnavailable, match=r"certificate.*redis\.ca_file"):
            opened(url, ca_file=str(other)).list("q7", 0, 3)
        with pytest.raises(StoreUnavailable):
            opened(server.url).list("q7", 0, 3)
    finally:
        server.close()


@pytest.mark.parametrize("url", ["redis://", "redis://h:x", "redis://h/a", "redis://h?ssl_cert_reqs=none"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        RedisServer(url, PLAIN_REDIS)
