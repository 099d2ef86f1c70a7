"""Records that no job can take, and some that only look so."""

from __future__ import annotations

import json
import random

import msgspec

from tests.integration.jobs_mixed import Event

DEEP = 10**6


def good(number: int) -> bytes:
    return msgspec.json.encode(Event(ts=number * 10, id=number, amount=number % 7))


BAD: dict[str, bytes] = {
    "empty": b"",
    "only blanks": b" \n\t ",
    "bad UTF-8": b'{"ts":1,"id":1,"amount":1,"poison":"\xff\xfe"}',
    "UTF-16": good(1).decode().encode("utf-16"),
    "a mark of byte order": b"\xef\xbb\xbf" + good(1),
    "magic byte of a schema registry": b"\x00\x00\x00\x00\x07" + good(1),
    "magic byte of Avro": b"Obj\x01" + good(1),
    "NaN": b'{"ts":NaN,"id":1,"amount":1}',
    "infinity": b'{"ts":1e999,"id":1,"amount":1}',
    "a float for a time": b'{"ts":1.5,"id":1,"amount":1}',
    "a huge int": b'{"ts":' + b"9" * 400 + b',"id":1,"amount":1}',
    "an int of 65 bits": b'{"ts":18446744073709551616,"id":1,"amount":1}',
    "null for a time": b'{"ts":null,"id":1,"amount":1}',
    "another shape": b"[1,2,3]",
    "a field too few": b'{"ts":1,"id":1}',
    "cut off": good(1)[:-3],
    "two at once": good(1) + good(2),
    "deep lists": b"[" * DEEP,
    "deep and closed": b'{"ts":1,"id":1,"amount":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep maps": b'{"a":' * DEEP,
    "zeros": bytes(64),
    "a tombstone's stand-in": b"null",
}
GOOD: dict[str, bytes] = {
    "duplicate keys, the last counts": b'{"ts":1,"id":0,"ts":10,"id":1,"amount":1}',
    "an unknown field": b'{"ts":20,"id":2,"amount":2,"more":[[[]]]}',
    "blanks around": b'  {"ts": 30, "id": 3, "amount": 3}  ',
    "escapes": b'{"ts":40,"id":4,"amount":4,"poison":"\\u0000\\ud83d\\ude00"}',
}


def fuzzed(count: int, seed: int) -> list[bytes]:
    """Good records with bytes changed, cut, doubled and swapped; the seed decides."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        row = bytearray(good(number))
        for _ in range(chance.randint(1, 2)):
            at = chance.randrange(len(row) + 1)
            match chance.randrange(4):
                case 0:
                    row[at : at + 1] = bytes([chance.randrange(256)])
                case 1:
                    del row[at : at + chance.randint(1, 9)]
                case 2:
                    row[at:at] = row[: chance.randint(0, len(row))]
                case _:
                    row[at:at] = chance.choice([b"\x00", b'"', b"{", b"}", b"1e9", b"-", b"\xc3\x28", b"null", b"\\u"])
        found.append(bytes(row))
    return found


def is_event(row: bytes) -> bool:
    """By the standard library, which shares no code with the engine's decoder.

    Of a field that the job does not have, the engine does not look at the name: bad UTF-8 may stand there.
    """
    try:
        value = json.loads(row.decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict):
        return False
    ints = all(type(value.get(name)) is int and -(2**63) <= value[name] < 2**63 for name in ("ts", "id", "amount"))
    text = value.get("poison", "")
    return ints and isinstance(text, str) and text.isprintable()
