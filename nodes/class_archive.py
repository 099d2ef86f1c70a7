"""Classes that a JVM has loaded, kept in a file: with it, the next one starts in half the time or less.

Java 17 writes such an archive at the end of a process if an option requests it. An archive fits one Java and one class
path only. A JVM ignores one that does not fit, so what is wrong here costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from contextlib import suppress
from pathlib import Path

OWN = "classes.jsa"
SUFFIX = ".jsa"
KEPT = 3
"""So many archives stay in a folder, the newest; each has 40 to 150 MB."""


class ClassArchive:
    """The archive of the classes in the folder ``jars``, and the place where a JVM writes it first.

    ``base``: the cache that it stays in; ``folder``: the JVM's own, which exists until ``keep``.
    """

    def __init__(self, base: Path, java: str, jars: Path, folder: Path) -> None:
        made = os.stat(os.path.realpath(java))
        fits = f"{made.st_size} {made.st_mtime_ns} {jars} {jars.stat().st_mtime_ns}"
        digest = hashlib.blake2b(fits.encode(), digest_size=8).hexdigest()
        self._archive, self.own = base / f"{jars.name}-{digest}{SUFFIX}", folder / OWN

    def option(self) -> str:
        """The option of Java that loads the archive, or has it made."""
        if self._archive.exists():
            return f"-XX:SharedArchiveFile={self._archive}"
        return f"-XX:ArchiveClassesAtExit={self.own}"

    def keep(self) -> None:
        """After a JVM has ended in order: let others use what it has written, if it has."""
        if not self.own.exists():
            return
        temporary = self._archive.with_suffix(f".{uuid.uuid4().hex}")
        try:
            self._archive.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(self.own.read_bytes())
            temporary.replace(self._archive)
            self._drop_oldest()
        except OSError:
            with suppress(OSError):  # a cache that cannot be written costs time only
                temporary.unlink()
        self.own.unlink()

    def _drop_oldest(self) -> None:
        found = sorted(self._archive.parent.glob(f"*{SUFFIX}"), key=lambda each: each.stat().st_mtime_ns)
        for old in found[:-KEPT]:
            with suppress(OSError):  # somebody else's JVM may use it, and another process may have dropped it
                old.unlink()
