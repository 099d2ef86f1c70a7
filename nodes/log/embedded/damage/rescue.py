"""The readable blocks of a damaged partition, without LMDB: blocks carry their offset, length and checksum.

The file is searched for blocks wherever they lie, so a lost tree is no loss. Blocks that were deleted but not yet
overwritten are found too: rescued records may start before the last ``delete_before``.
"""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Iterator
from pathlib import Path

import lmdb

from nodes.log.embedded import block
from nodes.log.embedded.errors import damaged, translate
from nodes.log.embedded.folder import ENGINE, LogFolder, build_partition

_COMMIT_BLOCKS = 256


def rescue_partition(folder: LogFolder, topic: str, partition: int) -> tuple[int, int]:
    """Replace a damaged partition by its longest readable run of records; returns its first offset and its end.

    No process may have the log open. The damaged files are kept in ``<root>/damaged``. Raises ``LogDamaged`` if nothing
    is readable; then nothing is changed.
    """
    path = folder.partition_path(topic, partition)
    where = f"topic {topic!r} partition {partition}"
    try:
        if (path / "data.mdb").stat().st_size == 0:
            raise damaged(path / "data.mdb", where, "nothing in it is readable")
        with open(path / "data.mdb", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            run = longest_run(find_blocks(content))
            if not run:
                raise damaged(path / "data.mdb", where, "nothing in it is readable")
            rescued = folder.root / "tmp" / f"rescue-{topic}-{partition}"
            shutil.rmtree(rescued, ignore_errors=True)
            build_partition(rescued)
            _store(rescued, content, run)
        kept = folder.root / "damaged"
        kept.mkdir(mode=0o700, exist_ok=True)
        number = sum(entry.name.startswith(f"{topic}-{partition}-") for entry in kept.iterdir())
        path.rename(kept / f"{topic}-{partition}-{number}")
        rescued.rename(path)
    except (OSError, lmdb.Error) as error:
        raise translate(error, path, f"{where}: rescue") from error
    return run[0][0].first, run[-1][0].end


def find_blocks(content: mmap.mmap | bytes) -> Iterator[tuple[block.Head, int, int]]:
    """Every whole block in the bytes of a file: its head, where it starts and how long it is."""
    with memoryview(content) as view:
        at = content.find(block.MAGIC)
        while at >= 0:
            if len(view) - at > block.HEADER_BYTES:
                size = block.stored_bytes(view[at:])
                try:
                    head = block.decode(view[at : at + size]).head
                except block.BadBlock:
                    pass  # torn, or these four bytes inside of a record
                else:
                    if not head.anchor:
                        yield head, at, size
            at = content.find(block.MAGIC, at + 1)


def longest_run(blocks: Iterator[tuple[block.Head, int, int]]) -> list[tuple[block.Head, int, int]]:
    """The blocks that follow each other for most records; the earliest run of several. Old versions are left out."""
    best: list[tuple[block.Head, int, int]] = []
    run: list[tuple[block.Head, int, int]] = []
    for found in sorted(blocks, key=lambda found: (found[0].first, -found[0].end)):
        head = found[0]
        if run and head.first < run[-1][0].end:
            continue
        if run and head.first == run[-1][0].end:
            run.append(found)
        else:
            run = [found]
        if not best or run[-1][0].end - run[0][0].first > best[-1][0].end - best[0][0].first:
            best = run
    return best


def _store(folder: Path, content: mmap.mmap, run: list[tuple[block.Head, int, int]]) -> None:
    size = sum(size for _, _, size in run)
    env = lmdb.open(str(folder), map_size=2 * size + (64 << 20), lib_version=ENGINE)
    try:
        for start in range(0, len(run), _COMMIT_BLOCKS):
            with env.begin(write=True) as txn:
                for head, at, length in run[start : start + _COMMIT_BLOCKS]:
                    txn.put(head.first.to_bytes(8, "big"), content[at : at + length], append=True)
    finally:
        env.close()
