"""Failures of LMDB and of the system become errors that say what happened, where, and what to do."""

from __future__ import annotations

import errno
from pathlib import Path

import lmdb
import pytest

from nodes.log.contract import AddressSpaceFull, LogDamaged, LogError, LogFull, LogUnavailable
from nodes.log.embedded.errors import translate


@pytest.mark.parametrize(
    ("error", "kind", "advice"),
    [
        (OSError(errno.EFBIG, "File too large"), LogFull, "nothing of this batch was appended"),
        (OSError(errno.ENOSPC, "No space left on device"), LogFull, "Free space"),
        (lmdb.PanicError("MDB_PANIC"), LogUnavailable, "start the process again"),
        (lmdb.CorruptedError("MDB_CORRUPTED"), LogDamaged, "Nothing was changed"),
        (lmdb.MapFullError("MDB_MAP_FULL"), AddressSpaceFull, "ulimit -v"),
        (OSError(errno.EMFILE, "Too many open files"), LogUnavailable, "ulimit -n"),
        (lmdb.ReadersFullError("MDB_READERS_FULL"), LogUnavailable, "too many processes"),
        (OSError(errno.EACCES, "Permission denied"), LogUnavailable, "may be read and written"),
    ],
)
def test_failures_are_named(error: lmdb.Error | OSError, kind: type[LogError], advice: str, tmp_path: Path) -> None:
    found = translate(error, tmp_path, "topic 't' partition 3: append")
    assert type(found) is kind
    assert str(found).startswith("topic 't' partition 3: append: ") and advice in str(found)
