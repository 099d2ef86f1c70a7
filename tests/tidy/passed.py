"""Files that passed a check before, by the digest of all that the check depends on: they need not be checked again.

They are kept in the user's cache, so that a new clone need not check what another one has checked.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from nodes.cache_folder import cache_folder

KEPT = 20_000
"""Digests of a check, of several states of each file; those that were met last."""


def digest(*parts: str) -> str:
    """Of texts that are known by their places."""
    return hashlib.blake2b("\0".join(f"{len(part)}:{part}" for part in parts).encode(), digest_size=16).hexdigest()


class Passed:
    """The digests with which files passed the check ``name``, kept between runs; without the file it knows of none."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self._file = (cache_folder() / "passed" if folder is None else folder) / f"{name}.json"
        self._known: dict[str, None] = {}
        with suppress(OSError, ValueError):
            self._known = dict.fromkeys(json.loads(self._file.read_bytes()))

    def changed(self, digests: Mapping[str, str]) -> list[str]:
        """The paths that have not passed with their present digest, sorted."""
        return sorted(path for path, found in digests.items() if digest(path, found) not in self._known)

    def keep(self, digests: Mapping[str, str], failed: Collection[str]) -> None:
        """All of them passed, but those that failed. A cache that cannot be written costs the next run its time."""
        latest = {digest(path, found): path for path, found in sorted(digests.items())}
        passed = [found for found, path in latest.items() if path not in failed]
        kept = [*(found for found in self._known if found not in latest), *passed][-KEPT:]
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._file.parent, delete=False) as temporary:
                json.dump(kept, temporary)
            Path(temporary.name).replace(self._file)
