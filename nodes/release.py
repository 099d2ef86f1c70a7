"""Which release of Holon this is."""

from __future__ import annotations

from functools import cache
from importlib import metadata

DISTRIBUTION = "holon-streams"


@cache
def release() -> str | None:
    """The installed version; None in a source tree that was not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None
