"""Lines of logs with free text and ISO times: by service, how many lines there are and how many are of errors.

Records are folded in one loop. Runs in the environment of a peer.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec


class Line(msgspec.Struct, gc=False):
    time: str
    service: str
    level: str
    message: str


decode = msgspec.json.Decoder(Line).decode
starts: dict[str, int] = {}


def start_of(text: str) -> int:
    """The window of a time; parsed once for each second."""
    found = starts.get(second := text[:19])
    if found is None:
        at_ms = int(datetime.fromisoformat(second).replace(tzinfo=UTC).timestamp()) * 1000
        found = starts[second] = at_ms - at_ms % 10_000
    return found


def folded(payloads: Iterable[bytes], found: dict) -> None:
    """Add records to the states by window and key."""
    for payload in payloads:
        event = decode(payload)
        key, error = (start_of(event.time), event.service), event.level == "ERROR"
        state = found.get(key)
        if state is None:
            found[key] = [1, int(error)]
            continue
        state[0] += 1
        state[1] += error


def merged(one: list, other: list) -> list:
    """Two parts of a state together."""
    return [one[0] + other[0], one[1] + other[1]]


def row(start_ms: int, key: str, state: list) -> dict:
    """A result."""
    return {"window_start": start_ms, "service": key, "count": state[0], "errors": state[1]}
