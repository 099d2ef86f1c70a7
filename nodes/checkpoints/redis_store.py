"""Checkpoints in Redis.

Two rules for this file. A value is set once, with NX. A listed value may be missing (Redis lost it), but a value that
is there is always listed, because both change in one transaction.

Keys: ``PREFIX:checkpoint:{FOLDER}:FILE`` is a value, ``PREFIX:checkpoints:{FOLDER}`` the set of the folder's names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from redis.exceptions import ResponseError

from nodes.checkpoints import format as fmt
from nodes.checkpoints.store import BlobCheckpoints, CheckpointDamaged, CheckpointMissing, StoreUnavailable
from nodes.redis_connection import RedisServer, RedisUnavailable

T = TypeVar("T")
LARGEST_BYTES = 500 << 20
"""Below Redis's own limit of 512 MiB for a value."""


class RedisCheckpoints(BlobCheckpoints):
    """Checkpoints in a Redis server. Raises ``StoreUnavailable`` if it does not answer."""

    def __init__(self, server: RedisServer, *, max_contents_bytes: int = fmt.MAX_CONTENTS_BYTES) -> None:
        super().__init__(RedisBlobs(server), max_contents_bytes=max_contents_bytes)


class RedisBlobs:
    """Values in a Redis server; safe to use from several threads."""

    largest_bytes: int | None = LARGEST_BYTES

    def __init__(self, server: RedisServer) -> None:
        self.where = server.where
        self._server = server
        self._client = server.client

    def create(self, name: str, data: bytes) -> bool:
        """As ``Blobs.create``."""

        def operation() -> bool:
            with self._client.pipeline(transaction=True) as both:
                both.set(self._key(name), data, nx=True)
                both.sadd(self._index(_folder(name)), name)
                return bool(both.execute()[0])

        return self._call(f"written at {name}", operation)

    def read(self, name: str, max_bytes: int) -> bytes:
        """As ``Blobs.read``."""

        def operation() -> bytes:
            try:
                return self._client.getrange(self._key(name), 0, max_bytes)
            except ResponseError as error:
                if str(error).startswith("WRONGTYPE"):
                    raise CheckpointDamaged(f"checkpoint {name} in {self.where} is no string") from error
                raise

        data = self._call(f"read at {name}", operation)
        if len(data) > max_bytes:
            raise CheckpointDamaged(f"checkpoint {name} has more than {max_bytes} bytes, which is the limit")
        if not data:  # no checkpoint is empty; Redis gives this for a missing key
            raise CheckpointMissing(f"checkpoint {name} is not in {self.where}")
        return data

    def names(self, folder: str) -> list[str]:
        """As ``Blobs.names``."""
        found = self._call(f"listed at {folder}", lambda: self._client.smembers(self._index(folder)))
        return sorted(name.decode(errors="replace") for name in found)

    def delete(self, name: str) -> None:
        """As ``Blobs.delete``."""

        def operation() -> None:
            with self._client.pipeline(transaction=True) as both:
                both.delete(self._key(name))
                both.srem(self._index(_folder(name)), name)
                both.execute()

        self._call(f"cleared of {name}", operation)

    def secure(self, names: Sequence[str]) -> None:
        """Nothing to do: how durable an acknowledged write is is the server's own setting."""

    def tidy(self, folder: str) -> None:
        """Nothing to do: a transaction leaves nothing behind."""

    def _key(self, name: str) -> str:
        folder, _, file = name.rpartition("/")
        return f"{self._server.prefix}:checkpoint:{{{folder}}}:{file}"

    def _index(self, folder: str) -> str:
        return f"{self._server.prefix}:checkpoints:{{{folder}}}"

    def _call(self, verb: str, operation: Callable[[], T]) -> T:
        try:
            return self._server.call(verb, operation)
        except RedisUnavailable as error:
            raise StoreUnavailable(f"checkpoint store {error}") from error


def _folder(name: str) -> str:
    return name.rpartition("/")[0]
