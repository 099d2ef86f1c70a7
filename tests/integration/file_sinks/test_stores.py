"""Stores of files: a folder, memory and S3 keep the same promises (nodes/file_sinks/stores.py)."""

from __future__ import annotations

import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nodes.errors import SettingsError, Unreachable
from nodes.file_sinks.stores import STAGING, FileStore, LocalFiles, open_store
from nodes.settings.settings import load_settings
from nodes.settings.stores import FilesSettings
from tests.integration.store_servers import KEYS, S3Server


def settings_for(server: S3Server) -> FilesSettings:
    given = {**KEYS, "endpoint": server.endpoint, "timeout_ms": "60000"}
    return load_settings(definitions=[f"files.{key}={value}" for key, value in given.items()], environ={}).files


@pytest.fixture(params=["folder", "file URL", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        return open_store(f"s3://{server.make_bucket(f'b{uuid.uuid4().hex}')}/out", settings_for(server))
    folder = tmp_path / "a" / "b"
    return open_store(
        {"folder": str(folder), "file URL": folder.as_uri(), "memory": "memory:///"}[request.param], FilesSettings()
    )


def test_a_value_is_created_once_and_put_again(store: FileStore):
    assert store.read("x/1") is None and store.names("x") == []
    assert store.create("x/1", b"one") and not store.create("x/1", b"two")
    assert store.read("x/1") == b"one"
    store.put("x/1", b"three")
    store.put("x/country=a%2Fb/2", b"2")
    store.put("xy/1", b"")
    assert store.read("x/1") == b"three" and store.names("x") == ["x/1", "x/country=a%2Fb/2"]
    store.delete("x/1")
    store.delete("x/1")
    assert store.names("x") == ["x/country=a%2Fb/2"] and store.read("xy/1") == b""


def test_of_many_that_create_a_name_at_once_one_is_first(store: FileStore):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda value: store.create("n", value), [b"%d" % number for number in range(8)]))
    assert found.count(True) == 1
    assert store.read("n") == b"%d" % found.index(True)


def test_files_of_killed_processes_that_got_no_name_are_removed_when_they_are_old(tmp_path: Path):
    LocalFiles(tmp_path).put("x", b"1")
    for name, age_s in (("old", 7200), ("new", 60)):
        path = tmp_path / STAGING / name
        path.write_bytes(b"half")
        seen = path.stat().st_mtime - age_s
        os.utime(path, (seen, seen))
    LocalFiles(tmp_path)
    assert [path.name for path in (tmp_path / STAGING).iterdir()] == ["new"]


def test_a_store_that_fails_is_named(tmp_path: Path, s3_server: S3Server):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unreachable, match="file/x/1 could not be written"):
        LocalFiles(tmp_path / "file").put("x/1", b"1")
    nowhere = open_store("s3://no-such-bucket/out", settings_for(s3_server))
    with pytest.raises(Unreachable, match="there is no such bucket: make it, or mend the path of the files"):
        nowhere.put("x", b"1")
    with pytest.raises(SettingsError, match="no store for ftp://host/out"):
        open_store("ftp://user:secret@host/out", FilesSettings())
