"""Checks of a data file against what a power failure, a full disk or a copy cut short may have done to it."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

import lmdb

from nodes.log.contract import LogError
from nodes.log.embedded import block
from nodes.log.embedded.errors import damaged, translate

_COMMIT = struct.Struct("<Q")
_COMMIT_AT = 144
"""In a meta page of LMDB 0.9 on 64 bits, behind the page's head, sizes, two trees, and the last page's number."""


def check_meta_pages(data: Path, where: str) -> None:
    """Raise ``LogDamaged`` if a meta page names a commit that belongs on the other one: LMDB would read an older state.

    Even commits are on page 0, odd ones on page 1; both begin with commit 0.
    """
    try:
        with data.open("rb") as file:
            head = file.read(2 * mmap.PAGESIZE)
    except OSError as error:
        raise translate(error, data.parent, where) from error
    for page in (0, 1):
        (commit,) = _COMMIT.unpack_from(head, page * mmap.PAGESIZE + _COMMIT_AT)
        if commit and commit % 2 != page:
            raise damaged(data, where, f"meta page {page} names commit {commit}")


def check_length(env: lmdb.Environment, data: Path, where: str) -> None:
    """Raise ``LogDamaged`` if pages that are in use lie beyond the end of the file.

    Reading them would kill the process (SIGBUS). LMDB itself may leave the last pages unwritten if they became free in
    the transaction that made them. So a short file is made longer, under the write lock, and read as a whole.
    """
    try:
        page_bytes = env.stat()["psize"]
        if data.stat().st_size >= (env.info()["last_pgno"] + 1) * page_bytes:
            return
        with env.begin(write=True):  # nobody else changes the length
            size, needed = data.stat().st_size, (env.info()["last_pgno"] + 1) * page_bytes
            if size >= needed:
                return
            os.truncate(data, needed)
            try:
                read_all(env, data, where)
            except LogError:
                os.truncate(data, size)  # leave it as it was found
                raise
    except (lmdb.Error, OSError) as error:
        raise translate(error, data.parent, where) from error


def read_all(env: lmdb.Environment, data: Path, where: str) -> tuple[int, int]:
    """Decode every block and follow the offsets; returns start and end offset. Raises ``LogDamaged``."""
    start = expected = None
    try:
        with env.begin(buffers=True) as txn, txn.cursor() as cursor:
            for _, value in cursor:
                head = block.decode(value).head
                if expected is not None and head.first != expected:
                    raise damaged(data, where, f"offset {expected} is missing, {head.first} comes next")
                expected = head.end
                if start is None:
                    start = head.end if head.anchor else head.first
    except block.BadBlock as error:
        raise damaged(data, where, f"{error} (the file is {data.stat().st_size} bytes long)") from error
    except lmdb.Error as error:
        raise translate(error, data.parent, where) from error
    return start or 0, expected or 0
