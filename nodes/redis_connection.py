"""Connections to Redis: time-outs, TLS, credentials, and errors in the project's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
)
from redis.retry import Retry

from nodes.errors import SettingsError, Unreachable

if TYPE_CHECKING:
    from nodes.settings.stores import RedisSettings

T = TypeVar("T")
_PORT = 6379
_CONNECT_S = 3.0


class RedisUnavailable(Unreachable):
    """Redis does not answer, or refuses; the message names the server, the failure and the remedy."""


class RedisServer:
    """One server; ``call`` sends commands to it.

    Args: ``url`` is ``redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE][?prefix=PREFIX]``, or ``rediss://`` for TLS, where
    the server's certificate is verified. ``prefix`` begins the names of all keys (default ``holon``).
    """

    def __init__(self, url: str, settings: RedisSettings) -> None:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        if parts.scheme not in ("redis", "rediss") or not parts.hostname or set(query) - {"prefix"}:
            raise SettingsError(
                f"{parts.scheme}://{parts.hostname or ''}: a Redis URL is "
                "redis[s]://[USER:PASSWORD@]HOST[:PORT][/DATABASE][?prefix=PREFIX]"
            )
        self.prefix = query.get("prefix", ["holon"])[0]
        try:
            port, database = parts.port or _PORT, int(parts.path.strip("/") or 0)
        except ValueError as error:
            raise SettingsError(f"{parts.scheme}://{parts.hostname}: port and database are numbers: {error}") from error
        self.where = f"{parts.scheme}://{parts.hostname}:{port}/{database}"
        password = settings.password.get_secret_value() if settings.password is not None else None
        timeout_s = settings.timeout_ms / 1000
        tls: dict[str, Any] = {"ssl": True, "ssl_ca_certs": settings.ca_file} if parts.scheme == "rediss" else {}
        self.client: Any = redis.Redis(
            host=parts.hostname,
            port=port,
            db=database,
            username=unquote(parts.username) if parts.username else settings.username,
            password=unquote(parts.password) if parts.password else password,
            socket_timeout=timeout_s,
            socket_connect_timeout=min(timeout_s, _CONNECT_S),
            # The caller retries by itself, and knows what a lost answer means.
            retry=Retry(NoBackoff(), 0),
            **tls,
        )

    def call(self, verb: str, operation: Callable[[], T]) -> T:
        """Do it, with failures as ``RedisUnavailable``; ``verb`` is the past participle of what was to be done."""
        try:
            return operation()
        except (RedisError, OSError) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise RedisUnavailable(f"{self.where} could not be {verb}: {reason}; {_advice(error)}") from error

    def warnings(self) -> list[str]:
        """The parts of the server's set-up that may lose data; empty too where the user may not read it."""
        try:
            found = self.client.info("persistence") | self.client.info("memory")
        except NoPermissionError:
            return []
        except (RedisError, OSError) as error:
            raise RedisUnavailable(f"{self.where} could not be reached: {error}; {_advice(error)}") from error
        warnings = []
        if not found.get("aof_enabled"):
            warnings.append(f"{self.where} writes no append-only file: a restart of it may lose data (appendonly yes)")
        policy = str(found.get("maxmemory_policy", "noeviction"))
        if found.get("maxmemory") and policy.startswith("allkeys"):
            warnings.append(f"{self.where} drops keys when its memory is full ({policy}); set noeviction")
        return warnings

    def close(self) -> None:
        """Release the connections."""
        self.client.close()


def _advice(error: Exception) -> str:
    text = str(error)
    if isinstance(error, AuthenticationError | NoPermissionError) or "NOAUTH" in text or "WRONGPASS" in text:
        return "mend user and password (redis.username, redis.password), or what that user may do"
    if "certificate" in text.lower():
        return "give the server's authority as redis.ca_file"
    if isinstance(error, OutOfMemoryError) or "MISCONF" in text:
        return "give Redis more memory or disk"
    if isinstance(error, ReadOnlyError):
        return "this is a replica: name the primary"
    if isinstance(error, ConnectionError | TimeoutError | OSError):
        return "check that it runs and can be reached"
    return "see the server's own log"
