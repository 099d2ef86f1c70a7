"""Records, files and requests that were made to harm; a seed decides which."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from random import Random

DEEP = 50_000
BOMB_BYTES = 4 << 20


def hostile(samples: Sequence[bytes], count: int, seed: int, *, flips: bool = True) -> list[bytes]:
    """``count`` byte strings, many of them spoilt ``samples``.

    ``flips``: also such as may be a record of the same kind with another number in it.
    """
    draw = Random(seed)
    found: list[bytes] = []
    while len(found) < count:
        sample = draw.choice(samples) if samples else draw.randbytes(200)
        ways = [_garbage, _cut, _bomb, _deep, _twice] + ([_flipped, _flipped, _spliced, _filled] if flips else [])
        made = draw.choice(ways)(draw, sample)
        if made not in samples:
            found.append(made)
    return found


def _garbage(draw: Random, sample: bytes) -> bytes:
    return draw.randbytes(draw.choice([0, 1, 5, 16, 300, 20_000]))


def _cut(draw: Random, sample: bytes) -> bytes:
    return sample[: draw.randrange(len(sample))] if sample else b""


def _bomb(draw: Random, sample: bytes) -> bytes:
    """Bytes that inflate without end, for code that inflates anything of that form."""
    packed = zlib.compress(bytes(BOMB_BYTES), 9)
    return draw.choice([packed, gzip.compress(bytes(BOMB_BYTES)), sample + packed])


def _deep(draw: Random, sample: bytes) -> bytes:
    """Nested without end, in JSON and in MessagePack; arrays and maps that claim to be huge."""
    choices = [
        b"[" * DEEP,
        b'{"a":' * DEEP,
        b"\x91" * DEEP,
        b"\x81\xa1a" * DEEP,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff" + sample,
        b"\xc6\xff\xff\xff\xff" + sample,
        b"\x93\xa5piece" + b"\xcf" + b"\xff" * 8,
    ]
    return draw.choice(choices)


def _twice(draw: Random, sample: bytes) -> bytes:
    return sample + sample if sample else b"\x00"


def _filled(draw: Random, sample: bytes) -> bytes:
    """A part becomes zeros."""
    at = draw.randrange(len(sample) + 1)
    return sample[:at] + bytes(draw.randint(1, 64))


def _flipped(draw: Random, sample: bytes) -> bytes:
    """One to three bits of it."""
    made = bytearray(sample or b"\x00")
    for _ in range(draw.randint(1, 3)):
        made[draw.randrange(len(made))] ^= 1 << draw.randrange(8)
    return bytes(made)


def _spliced(draw: Random, sample: bytes) -> bytes:
    """A part of it somewhere else."""
    first, second = sorted((draw.randrange(len(sample) + 1), draw.randrange(len(sample) + 1)))
    at = draw.randrange(len(sample) + 1)
    return sample[:at] + sample[first:second] + sample[at:] + b"\xc1"


_TARGETS = [
    "/v1/call",
    "/v1/id",
    "/healthz",
    "/openapi.json",
    "/",
    "*",
    "/v1/call/../id",
    "/%00",
    "//x",
    "http://x/v1/id",
]
_METHODS = ["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PRI", "\x00"]
_HEADERS = [
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: identity",
    "Content-Length: 5",
    "Content-Length: -1",
    "Content-Length: 99999999999999999999",
    "Content-Length: 5, 5",
    "Host: evil.example",
    "Host: localhost",
    "Host: [::1",
    "Origin: null",
    "Expect: 100-continue",
    "Upgrade: websocket",
    "Connection: upgrade",
    "Upgrade: h2c",
    "Authorization: Bearer \xff\xfe",
    "Authorization: Basic Og==",
    "Idempotency-Key: " + "x" * 300,
    "Content-Type: application/json; charset=utf-7",
    "X: " + "y" * 20_000,
    " folded: yes",
    "No-Colon",
    "Cookie: a=b",
]


def requests(good: bytes, count: int, seed: int) -> list[bytes]:
    """HTTP as no client speaks it."""
    draw = Random(seed)
    found: list[bytes] = []
    for _ in range(count):
        if draw.random() < 0.5:
            found += hostile([good], 1, draw.randrange(2**32))
            continue
        line = f"{draw.choice(_METHODS)} {draw.choice(_TARGETS)} HTTP/{draw.choice(['1.1', '1.0', '2', '1.1.1', '9'])}"
        lines = [line, *draw.sample(_HEADERS, draw.randint(0, 6))]
        body = draw.choice(
            [b"", b"5\r\nhello\r\n0\r\n\r\n", b"{}", b"[" * DEEP, draw.randbytes(100), b"ffffffffffff\r\n"]
        )
        found.append(draw.choice(["\r\n", "\r\n", "\n"]).join(lines).encode("latin-1") + b"\r\n\r\n" + body)
    return found
