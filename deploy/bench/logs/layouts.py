"""Ways to lay records out in LMDB, compared: records a CPU second written and read into lists of bytes.

    python deploy/bench/logs/layouts.py

The choice and the figures are in docs/design/embedded-log.md.
"""

from __future__ import annotations

import random
import shutil
import struct
import tempfile
import time
import zlib
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import lmdb
import msgspec

RECORDS, BATCH, SIZE = 400_000, 2000, 250
HEAD = struct.Struct(">qII")
BLOCK = struct.Struct(">IIq")
encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(tuple[list[bytes], list[bytes] | None]).decode
batch = [random.Random(at).randbytes(SIZE) for at in range(BATCH)]
key = struct.Struct(">Q").pack

Items = list[tuple[bytes, bytes]]


def one_by_one(first: int) -> Items:
    """An entry for each record, its time and lengths in front."""
    return [(key(first + at), HEAD.pack(1, 0, 0) + value) for at, value in enumerate(batch)]


def in_blocks(records: int, checksum: bool) -> Callable[[int], Items]:
    """An entry for so many records."""

    def items(first: int) -> Items:
        made = []
        for start in range(0, BATCH, records):
            body = encode((batch[start : start + records], None))
            crc = zlib.crc32(body) if checksum else 0
            made.append((key(first + start), BLOCK.pack(len(batch[start : start + records]), crc, 1) + body))
        return made

    return items


def read_values(cursor: lmdb.Cursor[bytes]) -> list[bytes]:
    return [value[16:] for value in islice(cursor.iternext(keys=False), BATCH)]


def read_views(cursor: lmdb.Cursor[memoryview]) -> list[bytes]:
    return [bytes(value[16:]) for value in islice(cursor.iternext(keys=False), BATCH)]


def read_blocks(checksum: bool) -> Callable[[lmdb.Cursor[memoryview]], list[bytes]]:
    def read(cursor: lmdb.Cursor[memoryview]) -> list[bytes]:
        found: list[bytes] = []
        for value in cursor.iternext(keys=False):
            body = value[BLOCK.size :]
            if checksum and zlib.crc32(body) != BLOCK.unpack_from(value)[1]:
                raise AssertionError("checksum")
            found += decode(body)[0]
            if len(found) >= BATCH:
                return found
        return found

    return read


def measure(name: str, items: Callable[[int], Items], reads: list[tuple[str, Callable, bool]]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="layouts-"))
    env = lmdb.open(str(folder), map_size=1 << 30, sync=False)
    try:
        before = time.process_time()
        for first in range(0, RECORDS, BATCH):
            with env.begin(write=True) as txn:
                txn.cursor().putmulti(items(first), append=True, dupdata=False)
        written = RECORDS / (time.process_time() - before) / 1e6
        for how, read, buffers in reads:
            rates = []
            for _ in range(3):
                before = time.process_time()
                for first in range(0, RECORDS, BATCH):
                    with env.begin(buffers=buffers) as txn, txn.cursor() as cursor:
                        cursor.set_range(key(first))
                        assert len(read(cursor)) == BATCH
                rates.append(RECORDS / (time.process_time() - before) / 1e6)
            print(f"{name:34} {how:18} write {written:5.2f} M/s   read {sorted(rates)[1]:5.2f} M/s")
    finally:
        env.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    measure("one entry a record", one_by_one, [("bytes, sliced", read_values, False), ("views", read_views, True)])
    for records in (16, 64, 256, 1000):
        for checksum in (False, True):
            name = f"blocks of {records}{', with checksum' if checksum else ''}"
            measure(name, in_blocks(records, checksum), [("one decoder call", read_blocks(checksum), True)])
