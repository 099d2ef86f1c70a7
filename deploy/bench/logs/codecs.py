"""Costs of checksums and compression: the compiled loops of ``nodes/log/codecs`` and kept libraries, in turn.

    python deploy/bench/logs/codecs.py [--rounds N] [--json]

A pair is ours and a library's (google-crc32c, cramjam, zlib) on the same bytes, A B A B; medians of nanoseconds of CPU
time for a byte, and their ratio. The bytes are a batch of records as Nexmark writes them, in three sizes. The lock file
has no google-crc32c: ``pip install google-crc32c`` for this.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from nodes.compiled import loading as compiled  # noqa: E402
from nodes.log.codecs.crc32c_tables import tables  # noqa: E402
from nodes.log.codecs.lz4_layout import TABLE_BYTES, frame_room  # noqa: E402

SIZES = {"1 KB": 1 << 10, "64 KB": 64 << 10, "1 MB": 1 << 20}
_PAD = 32
_BATCH_S = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [row for name, size in SIZES.items() for row in measured(name, _records(size), options.rounds)]
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(
            f"{row['what']:24} {row['size']:>6}",
            *(f"{name} {row[name]:>8.3f}" for name in ("ours", "library", "ratio")),
        )


def _records(size: int) -> bytes:
    """Bids of an auction as JSON; every fifth has a text that is not repeated."""
    dice, found = random.Random(1), bytearray()
    while len(found) < size:
        bid = {"auction": 1000 + dice.randrange(500), "bidder": dice.randrange(9999), "price": dice.randrange(10**6)}
        bid |= {"url": f"https://www.example.com/item{dice.randrange(100)}", "at": 1_700_000_000_000 + len(found)}
        found += json.dumps(bid | ({"extra": dice.randbytes(60).hex()} if dice.random() < 0.2 else {})).encode()
    return bytes(found[:size])


def measured(name: str, data: bytes, rounds: int) -> list[dict[str, float | str]]:
    """A row for each pair."""
    import cramjam
    import google_crc32c  # pyright: ignore[reportMissingImports] - not in the lock file, see above

    assert compiled.ensure()
    loops = compiled.loops()
    assert loops is not None
    padded = np.frombuffer(data + bytes(_PAD), np.uint8).copy()
    out = np.empty(frame_room(len(data)) + _PAD, np.uint8)
    places, sums = np.zeros(TABLE_BYTES, np.uint8), tables()
    state = np.zeros(16, np.uint8)
    at, pieces = padded.ctypes.data, len(data) // 128

    def copied() -> None:
        loops.copy_folding(at, out.ctypes.data, pieces, 0xFFFFFFFF, state.ctypes.data)

    def copied_by_zlib() -> None:
        out[: len(data)] = padded[: len(data)]
        zlib.crc32(data)

    def ours_lz4() -> int:
        return loops.lz4_frame(at, len(data), out.ctypes.data, places.ctypes.data)

    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "crc32c": (lambda: loops.crc32c(at, len(data), sums.ctypes.data), lambda: google_crc32c.value(data)),
        "crc32 with a copy": (copied, copied_by_zlib),
        "lz4 frame": (ours_lz4, lambda: cramjam.lz4.compress(data, level=1)),
        "lz4 block of 64 KB": (
            ours_lz4,
            lambda: [
                cramjam.lz4.compress_block(data[k : k + (64 << 10)], store_size=False, acceleration=1)
                for k in range(0, len(data), 64 << 10)
            ],
        ),
    }
    assert loops.crc32c(at, len(data), sums.ctypes.data) == google_crc32c.value(data)
    size = ours_lz4()
    assert bytes(cramjam.lz4.decompress(out[:size].tobytes())) == data
    sizes = {"lz4 frame": (size, len(cramjam.lz4.compress(data, level=1)))}
    rows: list[dict[str, float | str]] = []
    for what, (ours, library) in pairs.items():
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            for call, taken in zip((ours, library), times, strict=True):
                taken.append(_each_ns(call) / len(data))
        own, other = (statistics.median(taken) for taken in times)
        rows.append({"what": what, "size": name, "ours": own, "library": other, "ratio": other / own})
        if what in sizes:
            one, another = sizes[what]
            rows.append({"what": "its bytes", "size": name, "ours": one, "library": another, "ratio": another / one})
    return rows


def _each_ns(call: Callable[[], object]) -> float:
    count, began = 0, time.process_time()
    while (passed := time.process_time() - began) < _BATCH_S:
        for _ in range(4):
            call()
        count += 4
    return passed / count * 1e9


if __name__ == "__main__":
    main()
