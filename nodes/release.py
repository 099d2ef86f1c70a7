"""Which release of Holon this is."""

from __future__ import annotations

from functools import cache

DISTRIBUTION = "holon-streams"


@cache
def release() -> str | None:
    """The installed version; None in a source tree that was not installed."""
    from importlib import metadata  # 10 ms: a node calls this with its first checkpoint, beside its loop

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None
