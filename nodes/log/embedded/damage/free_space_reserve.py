"""Space kept aside so that records can be deleted from a log whose disk is full.

LMDB writes new pages even to delete, so without it a full log could only be freed by freeing something else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RESERVE_BYTES = 1 << 20
_PIECE = bytes(64 << 10)


class FreeSpaceReserve:
    """A file that is truncated while a write needs its space, and filled again afterwards as far as the disk allows."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def fill(self) -> None:
        """As far as the disk has space; bytes are written, since a hole would keep nothing."""
        try:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError:
            return
        try:
            size = os.fstat(descriptor).st_size
            while size < RESERVE_BYTES:
                written = os.pwrite(descriptor, _PIECE[: RESERVE_BYTES - size], size)
                size += written
                if not written:
                    break
        except OSError:
            pass  # the disk is full: what is there is what we have
        finally:
            os.close(descriptor)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Free the space for the writes within, then fill the file again."""
        try:
            os.truncate(self._file, 0)
            yield
        finally:
            self.fill()
