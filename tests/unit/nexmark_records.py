"""Records for tests of the oracles and of the engine: good ones, unusual ones, and ones that nobody can use."""

from __future__ import annotations

import json

START_MS = 1_735_689_600_000
"""2025-01-01 00:00:00 UTC."""


def bid(
    price: int = 100, at: str = "00:00:01.000", auction: int = 1, date: str = "2025-01-01", **more: object
) -> bytes:
    """A bid as the generator writes it, with fewer fields and blanks between."""
    fields = {"auction": auction, "bidder": 7, "price": price, "dateTime": f"{date} {at}", "extra": "x"}
    fields |= {"channel": "Google", "url": "https://a/b/c/d"}
    return json.dumps({"event_type": 2, "person": None, "auction": None, "bid": fields | more}).encode()


def auction(number: int, at: str, expires: str, category: int = 10, seller: int = 7) -> bytes:
    """An auction with the fields of q3, q4 and q8."""
    times = {"dateTime": f"2025-01-01 {at}", "expires": f"2025-01-01 {expires}"}
    fields = {"id": number, "category": category, "seller": seller, **times}
    return json.dumps({"event_type": 1, "auction": fields}).encode()


def person(at: str = "00:00:01.000", number: int = 7, name: str = "ann") -> bytes:
    """A person with the fields of q3 and q8."""
    fields = {"id": number, "name": name, "city": "Boise", "state": "ID", "dateTime": f"2025-01-01 {at}"}
    return json.dumps({"event_type": 0, "person": fields}).encode()


GOOD = bid()
DEAD = {
    "empty": b"",
    "not JSON": b"bid",
    "null": b"null",
    "a list": b"[" + GOOD + b"]",
    "two documents": GOOD + GOOD,
    "a comma at the end": GOOD[:-1] + b",}",
    "a mark of byte order": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "broken UTF-8 in a field nobody needs": GOOD.replace(b'"bidder": 7', b'"other": "\xff", "bidder": 7'),
    "NaN in a field nobody needs": GOOD.replace(b'"bidder": 7', b'"other": NaN, "bidder": 7'),
    "half a surrogate pair": bid(extra="\ud800"),
    "a control character": GOOD.replace(b'"x"', b'"\x01"'),
    "nested deeply": GOOD.replace(b'"x"', b'"x", "y": ' + b"[" * 100_000 + b"]" * 100_000),
    "no kind": GOOD.replace(b"event_type", b"event_kind"),
    "an unknown kind": GOOD.replace(b'"event_type": 2', b'"event_type": 3'),
    "a kind as text": GOOD.replace(b'"event_type": 2', b'"event_type": "2"'),
    "a kind as float": GOOD.replace(b'"event_type": 2', b'"event_type": 2.0'),
    "a kind as truth value": GOOD.replace(b'"event_type": 2', b'"event_type": true'),
    "no bid": b'{"event_type": 2, "person": null, "auction": null}',
    "a bid that is null": b'{"event_type": 2, "bid": null}',
    "a bid that is a list": b'{"event_type": 2, "bid": []}',
    "a price as float": GOOD.replace(b"100", b"100.0"),
    "a price with an exponent": GOOD.replace(b"100", b"1e2"),
    "a price as text": GOOD.replace(b"100", b'"100"'),
    "a price as truth value": GOOD.replace(b"100", b"true"),
    "a price beyond 64 bits": bid(2**63),
    "a price far beyond 64 bits": GOOD.replace(b"100", b"9" * 6000),
    "a null price": GOOD.replace(b"100", b"null"),
    "a missing price": GOOD.replace(b'"price"', b'"prize"'),
    "a repeated price of which the last is wrong": GOOD.replace(b'"extra"', b'"price": null, "extra"'),
    "a null text": GOOD.replace(b'"x"', b"null"),
    "a number as text": GOOD.replace(b'"x"', b"5"),
    "a time as number": GOOD.replace(b'"2025-01-01 00:00:01.000"', b"1735689601000"),
    "a time with a T": GOOD.replace(b"01 00", b"01T00"),
    "a time with a zone": GOOD.replace(b".000", b".000Z"),
    "a time with four digits of fraction": GOOD.replace(b".000", b".0000"),
    "a time without digits of fraction": GOOD.replace(b".000", b"."),
    "a day that does not exist": GOOD.replace(b"2025-01-01", b"2025-02-29"),
    "a leap second": GOOD.replace(b"00:00:01", b"23:59:60"),
    "year 0": GOOD.replace(b"2025", b"0000"),
}
ALIVE = {
    "blanks around it": b" \t\r\n" + GOOD + b"\n",
    "escapes": GOOD.replace(b"event_type", b"\\u0065vent_type"),
    "a surrogate pair": bid(extra="\U0001f600"),
    "further fields of any kind": GOOD.replace(b'"x"', b'"x", "y": [1e999, {"z": null}], "n": ' + b"9" * 6000),
    "another kind that is no object": GOOD.replace(b'"auction": null', b'"auction": 5'),
    "a repeated price of which the last is right": GOOD.replace(b'"price": 100', b'"price": "a", "price": 100'),
    "a time with one digit of fraction": GOOD.replace(b".000", b".0"),
    "a time without fraction": GOOD.replace(b".000", b""),
    "the smallest price": bid(-(2**63)),
    "minus nought": GOOD.replace(b"100", b"-0"),
}
