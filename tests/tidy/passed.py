"""Files that passed a check before, by the digest of all that the check depends on: they need not be checked again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from tests.tidy.source import ROOT

FOLDER = ROOT / ".cache" / "passed"


def digest(*parts: str) -> str:
    """Of texts that are known by their places."""
    return hashlib.blake2b("\0".join(f"{len(part)}:{part}" for part in parts).encode(), digest_size=16).hexdigest()


class Passed:
    """The digests with which files passed the check ``name``, kept between runs; without the file it knows of none."""

    def __init__(self, name: str, folder: Path = FOLDER) -> None:
        self._file = folder / f"{name}.json"
        self._known: dict[str, str] = {}
        with suppress(OSError, ValueError):
            self._known = json.loads(self._file.read_bytes())

    def changed(self, digests: Mapping[str, str]) -> list[str]:
        """The paths that have not passed with their present digest, sorted."""
        return sorted(path for path, found in digests.items() if self._known.get(path) != found)

    def keep(self, digests: Mapping[str, str], failed: Iterable[str]) -> None:
        """All of them passed, but those that failed; others are forgotten."""
        without = set(failed)
        passed = {path: found for path, found in sorted(digests.items()) if path not in without}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._file.with_suffix(".new")
        temporary.write_text(json.dumps(passed))
        temporary.replace(self._file)
