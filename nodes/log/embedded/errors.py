"""What LMDB and the operating system report, as errors of the log."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import lmdb

from nodes.log.contract import AddressSpaceFull, LogDamaged, LogError, LogFull, LogUnavailable

_DAMAGED = (
    lmdb.InvalidError,
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
    lmdb.BadTxnError,
)
_NEARLY = 1 << 20
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def translate(error: lmdb.Error | OSError, path: Path, where: str) -> LogError:
    """The named error for a failure at ``path``; ``where`` names topic, partition and operation."""
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    if isinstance(error, _DAMAGED):
        return damaged(path / "data.mdb", where, str(error))
    if code in _NO_SPACE or (code == errno.EIO and _is_full(path)):
        return LogFull(
            f"{where}: no space left at {path} ({error}); nothing of this batch was appended. "
            "Free space, or delete old records (delete_before works on a full disk), then try again"
        )
    if isinstance(error, lmdb.PanicError):
        return LogUnavailable(
            f"{where}: {path} is closed to this process, since a write of its newest state has failed ({error}). "
            "Nothing that was acknowledged is lost. Free space or check the disk, then start the process again"
        )
    if isinstance(error, lmdb.MapFullError) or code == errno.ENOMEM:
        return AddressSpaceFull(f"{where}: the address space for {path} is used up ({error}); raise `ulimit -v`")
    if code in (errno.EMFILE, errno.ENFILE):
        return LogUnavailable(f"{where}: too many open files; raise `ulimit -n` (5 a partition are needed)")
    if isinstance(error, lmdb.ReadersFullError):
        return LogUnavailable(f"{where}: too many processes read {path} at once; close some of them")
    return LogUnavailable(f"{where}: {path} cannot be used: {error}. Check that it exists and may be read and written")


def damaged(file: Path, where: str, reason: str) -> LogDamaged:
    """The error for bytes that cannot be what was written."""
    return LogDamaged(
        f"{where}: {file} is damaged: {reason}. Nothing was changed. Restore the file from a copy, "
        "rescue what can be read (docs/log.md), or move the folder away and start a new log"
    )


def _is_full(path: Path) -> bool:
    # A write that is cut short by a full disk or a limit reaches us as EIO: LMDB has no other name for it.
    try:
        space = os.statvfs(path)
        size = (path / "data.mdb").stat().st_size
    except OSError:
        return False
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return space.f_bavail * space.f_frsize < _NEARLY or (limit != resource.RLIM_INFINITY and size + _NEARLY > limit)
