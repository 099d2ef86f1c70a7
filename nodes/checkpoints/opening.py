"""Opens the checkpoint store that the settings name."""

from __future__ import annotations

import logging

from nodes.checkpoints.store import CheckpointStore, StoreUnavailable
from nodes.settings.settings import Settings

logger = logging.getLogger(__name__)

_PROBE = "holon-probe"


def open_checkpoints(settings: Settings) -> CheckpointStore:
    """The store of ``settings.checkpoints``. Raises ``StoreUnavailable``."""
    url, given = settings.checkpoint_url(), settings.checkpoints
    if url.startswith(("redis://", "rediss://")):
        return _open_redis(url, settings)
    from nodes.checkpoints.object_store import ObjectCheckpoints

    store = ObjectCheckpoints(url, given.options(), timeout_ms=given.timeout_ms)
    if "://" in url:
        store.blobs.names(_PROBE)  # wrong credentials are better known now than at the first checkpoint
    return store


def _open_redis(url: str, settings: Settings) -> CheckpointStore:
    from nodes.checkpoints.redis_store import RedisCheckpoints
    from nodes.redis_connection import RedisServer, RedisUnavailable

    server = RedisServer(url, settings.redis)
    try:
        for warning in server.warnings():
            logger.warning("checkpoints: %s", warning)
    except RedisUnavailable as error:
        raise StoreUnavailable(f"checkpoint store {error}") from error
    return RedisCheckpoints(server)
