"""Servers that integration tests share; each starts when the first test asks for it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.checkpoints.redis_store import RedisCheckpoints
from nodes.checkpoints.store import BlobCheckpoints
from nodes.redis_connection import RedisServer
from tests.integration.store_servers import KEYS, PLAIN_REDIS, RedisProcess, S3Server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 interface; make a bucket of your own in it."""
    server = S3Server()
    yield server
    server.close()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    """A Redis; use a prefix of your own in it."""
    server = RedisProcess(tmp_path_factory.mktemp("redis"), "--appendonly", "yes")
    yield server
    server.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def store(folder: Path) -> ObjectCheckpoints:
    return ObjectCheckpoints(folder)


@pytest.fixture(params=["folder", "file URL", "memory", "s3", "redis"])
def any_store(request: pytest.FixtureRequest, folder: Path) -> BlobCheckpoints:
    """Every kind of store there is; the servers are real ones."""
    own = f"t{hashlib.blake2b(os.fsencode(folder), digest_size=6).hexdigest()}"
    match request.param:
        case "s3":
            server = request.getfixturevalue("s3_server")
            options = {**KEYS, "endpoint": server.endpoint}
            return ObjectCheckpoints(f"s3://{server.make_bucket(own)}/some/prefix", options, timeout_ms=60_000)
        case "redis":
            url = request.getfixturevalue("redis_server").url
            return RedisCheckpoints(RedisServer(f"{url}?prefix={own}", PLAIN_REDIS))
        case kind:
            return ObjectCheckpoints({"folder": str(folder), "file URL": folder.as_uri(), "memory": "memory:///"}[kind])
