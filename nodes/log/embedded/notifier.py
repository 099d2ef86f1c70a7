"""Waking readers in other processes: one shared word that writers change and readers sleep on.

A futex on a shared mapping: no descriptor a reader, nothing to clean up after a kill -9, no cost while idle. Where the
kernel has none, readers poll the word every millisecond. Neither is needed for correctness: sleepers also check
the log from time to time, so that a writer killed before it notifies costs at most one ``SLICE_S``.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
import time
from pathlib import Path

SLICE_S = 0.05
"""Longest sleep between two checks of the log."""
POLL_S = 0.001
FILE_BYTES = 4096

_FUTEX_WAIT, _FUTEX_WAKE, _EVERYBODY = 0, 1, 0x7FFFFFFF
_FUTEX_CALL = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}


class _TimeSpec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def _find_futex():
    number = _FUTEX_CALL.get(platform.machine())
    if sys.platform != "linux" or number is None or sys.maxsize < 2**32:
        return None
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.argtypes = [
        ctypes.c_long,
        ctypes.c_void_p,
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_long,
    ]
    syscall.restype = ctypes.c_long
    return lambda address, what, value, until: syscall(number, address, what, value, until, None, 0)


_futex = _find_futex()


def create_notifier_file(path: Path) -> None:
    """Make the file. Its bytes are written, not left sparse: a store into a hole of a full disk would kill us."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_size < FILE_BYTES:
            os.pwrite(descriptor, bytes(FILE_BYTES), 0)
    finally:
        os.close(descriptor)


class Notifier:
    """A word shared by all processes that have the file open. Safe to use from several threads."""

    def __init__(self, path: Path, *, futex: bool = True) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), FILE_BYTES)
        self._word = ctypes.c_uint32.from_buffer(self._map)
        self._address = ctypes.addressof(self._word)
        self._futex = _futex if futex else None
        # Each notification stores another value than any other process does; an increment could get lost.
        self._next = os.getpid() * 2654435761 & 0xFFFFFFFF

    def sample(self) -> int:
        """The value to wait on; take it *before* checking for records to read."""
        return self._word.value

    def notify(self) -> None:
        """Wake everybody who sleeps."""
        self._next = self._next + 40503 & 0xFFFFFFFF
        self._word.value = self._next
        if self._futex is not None:
            self._futex(self._address, _FUTEX_WAKE, _EVERYBODY, None)

    def wait(self, seen: int, timeout_s: float) -> None:
        """Return when somebody has notified since ``seen`` was taken, at the latest after ``timeout_s``; or earlier."""
        if self._futex is not None:
            whole = int(timeout_s)
            until = _TimeSpec(whole, int((timeout_s - whole) * 1e9))
            self._futex(self._address, _FUTEX_WAIT, seen, ctypes.byref(until))
            return
        deadline = time.monotonic() + timeout_s
        while self._word.value == seen and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(POLL_S, left))

    def close(self) -> None:
        """Unmap the file. A reader that sleeps at this moment wakes when its time is over."""
        self._word = ctypes.c_uint32(0)
        self._address = ctypes.addressof(self._word)
        self._map.close()
