"""Strings of the generator: pools of random characters, and the channels with their URLs.

Deviation: the reference draws names and descriptions character by character. Here every string is a random substring of
a seeded pool of 1 MiB whose characters have the same distribution (as the reference does for `extra` only). Each string
alone is distributed as there; long strings of one stream may overlap.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nexmark.generator.draws import draw, field_state, high_below, low_below

POOL_BITS = 20
_POOL_SLACK = 1024  # longer than any string, so that a substring never runs over the end
_SPECIAL_SHARE = 13  # one character in 13 is the special one

HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CACHED_CHANNELS = 10_000

# Fields of the pools, apart from those of the events in `events.py`.
_LETTERS, _WORDS, _URL_CHARACTERS, _URL_LENGTHS, _URL_TAILS = range(1000, 1005)


class Channel(NamedTuple):
    """Where bids come from."""

    name: str
    url: str


@lru_cache(maxsize=4)
def letters(seed: int) -> str:
    """The pool of `extra`: a-z."""
    return _decoded(_letter_codes(draw(field_state(seed, _LETTERS), _counter((1 << POOL_BITS) + _POOL_SLACK))))


@lru_cache(maxsize=4)
def words(seed: int) -> str:
    """The pool of names and descriptions: a-z, one character in 13 a blank."""
    return _decoded(_codes_with(" ", draw(field_state(seed, _WORDS), _counter((1 << POOL_BITS) + _POOL_SLACK))))


def filler(seed: int, bits: NDArray[np.uint64], room: NDArray[np.int64]) -> list[str]:
    """Letters, uniformly 0.8 to 1.2 times as many as there is room (characters); none where that is negative."""
    room = np.maximum(room, 0)
    spread = (2 * room + 5) // 10  # round(0.2 * room); a tie is impossible
    length = room - spread + high_below(bits, 2 * spread)
    return _substrings(letters(seed), bits, length)


def phrases(seed: int, bits: NDArray[np.uint64], limit: int) -> list[str]:
    """Strings of 3 to limit - 1 characters, then trimmed (so that a blank at an edge makes one shorter, even empty)."""
    return [text.strip(" ") for text in _substrings(words(seed), bits, 3 + high_below(bits, limit - 3))]


@lru_cache(maxsize=4)
def channels(seed: int) -> tuple[Channel, ...]:
    """The cached channels by number, then the hot ones."""
    count = CACHED_CHANNELS + len(HOT_CHANNELS)
    slots = count * 3
    lengths = 3 + high_below(draw(field_state(seed, _URL_LENGTHS), _counter(slots)), 2)
    text = _decoded(_codes_with("_", draw(field_state(seed, _URL_CHARACTERS), _counter(slots * 4))))
    parts = [text[4 * slot : 4 * slot + length] for slot, length in enumerate(lengths.tolist())]
    tails = high_below(draw(field_state(seed, _URL_TAILS), _counter(count)), 10) > 0
    found = []
    for entry in range(count):
        path = "/".join(parts[3 * entry : 3 * entry + 3])
        url = f"https://www.nexmark.com/{path}/item.htm?query=1"
        if entry >= CACHED_CHANNELS:
            found.append(Channel(HOT_CHANNELS[entry - CACHED_CHANNELS], url))
        else:
            tail = f"&channel_id={_java_abs_reverse(entry)}" if tails[entry] else ""
            found.append(Channel(f"channel-{entry}", url + tail))
    return tuple(found)


def _substrings(pool: str, bits: NDArray[np.uint64], lengths: NDArray[np.int64]) -> list[str]:
    starts = low_below(bits, 1 << POOL_BITS)
    return [pool[start:end] for start, end in zip(starts.tolist(), (starts + lengths).tolist(), strict=True)]


def _letter_codes(bits: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return (high_below(bits, 26) + ord("a")).astype(np.uint8)


def _codes_with(special: str, bits: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return np.where(low_below(bits, _SPECIAL_SHARE) == 0, np.uint8(ord(special)), _letter_codes(bits))


def _decoded(codes: NDArray[np.uint8]) -> str:
    return codes.tobytes().decode("ascii")


def _counter(count: int) -> NDArray[np.int64]:
    return np.arange(count, dtype=np.int64)


def _java_abs_reverse(number: int) -> int:
    """Java's `Math.abs(Integer.reverse(number))`; the one value without a positive counterpart stays negative."""
    reverse = int(f"{number:032b}"[::-1], 2)
    signed = reverse - (1 << 32) if reverse >= 1 << 31 else reverse
    return signed if signed == -(1 << 31) else abs(signed)
