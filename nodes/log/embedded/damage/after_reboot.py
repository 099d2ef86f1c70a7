"""After a restart of the machine a log is read as a whole, once, before it is used.

Without an fsync for each commit, a power failure may leave LMDB's pages written in any order. Most often the last
second is missing and nothing else; at worst a partition cannot be read. That is found out here, in a process of its
own: LMDB trusts its pages, and wrong ones may make it crash.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import subprocess
import sys
from pathlib import Path

from nodes.log.contract import LogError
from nodes.log.embedded.environment import DAMAGE_NOTE, Environment
from nodes.log.embedded.errors import translate
from nodes.log.embedded.folder import LogFolder, boot_id

_log = logging.getLogger("holon.log")
_CHILD = "from nodes.log.embedded.damage.after_reboot import verify; verify()"


def verify_once_a_boot(folder: LogFolder) -> None:
    """Check all partitions if the machine has started anew since somebody did; damaged ones get a note."""
    boot = boot_id()
    try:
        if not boot or folder.verified_boot() == boot:
            return
        with open(folder.root / "tmp" / "verifying", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of all that start at the same time one does it
            if folder.verified_boot() == boot:
                return
            paths = folder.all_partitions()
            _log.info("embedded log %s: the machine was restarted, checking %d partitions", folder.root, len(paths))
            for path, reason in _find_damage(paths).items():
                _log.error("%s: %s", path, reason)
                (path / DAMAGE_NOTE).write_text(f"{reason} (found after a restart of the machine)")
            folder.note_verified(boot)
    except OSError as error:
        raise translate(error, folder.root, f"embedded log {folder.root}: check after a restart") from error


def verify_at_next_opening(root: Path) -> None:
    """Request a check at the log's next opening, after a signal that wrong pages may have caused ended a process."""
    with contextlib.suppress(OSError):
        LogFolder.forget_verified(root)


def _find_damage(paths: list[Path]) -> dict[Path, str]:
    """The faults of partitions; a reader that crashes is started again behind the one it crashed on."""
    damage: dict[Path, str] = {}
    left = list(paths)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    while left:
        command = [sys.executable, "-P", "-c", _CHILD, *map(str, left)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        lines = done.stdout.splitlines()
        damage |= {path: line for path, line in zip(left, lines, strict=False) if line != "fine"}
        left = left[len(lines) :]
        if left:
            damage[left.pop(0)] = f"reading it ended the reader with {done.returncode}"
    return damage


def verify() -> None:
    """In the process that may crash: a line for each partition, ``fine`` or what is wrong."""
    for path in map(Path, sys.argv[1:]):
        try:
            environment = Environment(path, path.name, sync_commits=False, may_lack_commits=True)
            try:
                environment.verify()
            finally:
                environment.close()
            line = "fine"
        except LogError as error:
            line = str(error).replace("\n", " ")
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
