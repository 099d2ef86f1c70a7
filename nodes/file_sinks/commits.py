"""Commits of a partition's files: which rows a batch holds, agreed on before its files are written.

A commit names a range of offsets and the reader's state at both of its ends. Its name has its number and is created
once. So of several processes, or of one before and after its death, one decides. Files follow from a commit and the
topic alone: whoever finds a commit unfinished writes the same files under the same names.

Three rules. The next commit is created by a process that has seen the files of this one finished. The newest commit is
never deleted. A commit has effect for a process that has seen no newer one after it had read or created this one.
So a number that was deleted, and is created again by a process that was stopped for long, has none.
"""

from __future__ import annotations

from typing import Any

import msgspec

from nodes.errors import RunFailed
from nodes.file_sinks.stores import FileStore

FOLDER = "_holon"
"""Readers of folders of files (Spark, Hive, DuckDB, pyarrow) pass over names that begin with an underscore."""
KEPT = 2
"""Commits of a partition that stay; the newest one decides where to go on."""
_VERSION = 1


class Commit(msgspec.Struct, frozen=True):
    """The rows of one partition from offset ``first`` to ``end`` (exclusive).

    ``before`` and ``after``: what the reader needs at both ends to drop duplicates. ``rows``, ``files`` and ``dead``
    count those of all commits up to this one; ``dead``: rows that fit no file, which ``sets_aside`` allows.
    """

    number: int
    first: int
    end: int
    before: dict[str, Any]
    after: dict[str, Any]
    rows: int
    files: int
    dead: int = 0
    sets_aside: bool = False
    version: int = _VERSION


class Commits:
    """Those of one partition."""

    def __init__(self, store: FileStore, partition: int) -> None:
        self._store = store
        self._folder = f"{FOLDER}/{partition:05d}"

    def last(self) -> Commit | None:
        """The newest one."""
        while numbers := self._numbers():
            number = numbers[-1]
            data = self._store.read(self._name(number))
            if data is not None and self._is_newest(number):
                return self._decoded(number, data)
        return None

    def add(self, commit: Commit) -> bool:
        """Create it; False where another process was faster, whose commits count."""
        created = self._store.create(self._name(commit.number), msgspec.json.encode(commit))
        return created and self._is_newest(commit.number)

    def is_finished(self, commit: Commit) -> bool:
        """Whether all files of it were written; they may have been taken away since."""
        return self._store.read(self._name(commit.number, "done")) is not None

    def finish(self, commit: Commit) -> None:
        """Note that its files are there, and drop old commits."""
        self._store.create(self._name(commit.number, "done"), b"")
        for number in self._numbers():
            if number <= commit.number - KEPT:
                self._store.delete(self._name(number, "done"))
                self._store.delete(self._name(number))

    def _is_newest(self, number: int) -> bool:
        return self._numbers()[-1:] == [number]

    def _numbers(self) -> list[int]:
        stems = (name.rpartition("/")[2] for name in self._store.names(self._folder) if name.endswith(".commit"))
        return sorted(int(stem.removesuffix(".commit")) for stem in stems)

    def _name(self, number: int, kind: str = "commit") -> str:
        return f"{self._folder}/{number:010d}.{kind}"

    def _decoded(self, number: int, data: bytes) -> Commit:
        name = f"{self._store.where}/{self._name(number)}"
        try:
            found = msgspec.json.decode(data, type=Commit)
        except msgspec.DecodeError as error:
            raise RunFailed(
                f"{name} is damaged ({error}): put it back from a copy, or write to a new folder"
            ) from error
        if found.version != _VERSION:
            raise RunFailed(f"{name} has version {found.version}; this release reads version {_VERSION}")
        return found
