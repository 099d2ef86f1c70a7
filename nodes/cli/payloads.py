"""How records are shown: as lines for people and pipes, as values in JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holon.outputs.identity import IdentityError, OutputId
from nodes.cli.output import printable

if TYPE_CHECKING:
    from nodes.log import FetchedRecords


class ShownRecord(NamedTuple):
    """A record of the log with its place."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    header: bytes
    payload: bytes

    def line(self) -> bytes:
        """Partition, offset, log time, key (- for none) and payload, separated by tabs."""
        time = datetime.fromtimestamp(self.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
        key = b"-" if self.key is None else printable(self.key)
        return b"%d\t%d\t%b\t%b\t%b\n" % (self.partition, self.offset, time.encode(), key, printable(self.payload))

    def shown(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "partition": self.partition,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "key": None if self.key is None else text_value(self.key),
            "identity": _identity(self.header),
            "value": json_value(self.payload),
        }


def records(chunk: FetchedRecords, partition: int) -> list[ShownRecord]:
    """The rows of a chunk."""
    keys = chunk.keys if chunk.keys is not None else [None] * len(chunk)
    columns = (chunk.offsets.tolist(), chunk.timestamps_ms.tolist(), keys, chunk.headers, chunk.values)
    return [ShownRecord(partition, *row) for row in zip(*columns, strict=True)]


def json_value(payload: bytes) -> Any:
    """A payload that is JSON as that value (numbers as written), else its text, else ``{"base64": ...}``."""
    try:
        payload.decode()
        return msgspec.Raw(msgspec.json.format(payload, indent=-1))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return text_value(payload)


def text_value(payload: bytes) -> str | dict[str, bytes]:
    """UTF-8 text, or ``{"base64": ...}``."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return {"base64": payload}  # msgspec writes bytes as base64


def identity_text(identity: OutputId) -> str:
    """One word: job/incarnation/partition/track/position/n."""
    return "/".join(str(part) for part in (*identity[:3], identity.track.name.lower(), *identity[4:]))


def _identity(header: bytes) -> str | None:
    try:
        return identity_text(OutputId.from_bytes(header))
    except IdentityError:
        return None
