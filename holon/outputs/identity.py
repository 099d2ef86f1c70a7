"""Output identities: the name of each output, by what caused it.

Every output is named by what caused it, so that each node that computes it gives it the same name and the same bytes.
Per source partition, track, topic and output partition the identities only grow: one pair is all that a reader keeps
(Holon, section 3.3: "a map from partitions to window numbers").
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import PAD_BYTES, BinaryColumn

_FORMAT = struct.Struct(">BIIBqI")
_PLACE = struct.Struct(">qI")  # position and n, with which it ends
_TRACK_AND_PLACE = struct.Struct(">BqI")
_TRACK_AT = _FORMAT.size - _TRACK_AND_PLACE.size
_VERSION = 1


class Track(IntEnum):
    """The cause of an output: a record of the input, or a completed window."""

    RECORD = 0
    WINDOW = 1


class IdentityError(Exception):
    """A record of an output topic carries no identity that this version can read."""


class OutputId(NamedTuple):
    """``position`` is the input offset (record track) or the window's end in ms (window track); ``n`` counts from 0."""

    job: str
    incarnation: int
    partition: int
    track: Track
    position: int
    n: int

    def to_bytes(self) -> bytes:
        """The record's header on the log."""
        head = _FORMAT.pack(_VERSION, self.incarnation, self.partition, self.track, self.position, self.n)
        return head + self.job.encode()

    @classmethod
    def from_bytes(cls, header: bytes) -> OutputId:
        """Raises ``IdentityError`` on a header that Holon did not write."""
        try:
            version, incarnation, partition, track, position, n = _FORMAT.unpack_from(header)
            if version != _VERSION:
                raise IdentityError(f"output identity of version {version}; this release reads version {_VERSION}")
            return cls(header[_FORMAT.size :].decode(), incarnation, partition, Track(track), position, n)
        except (struct.error, ValueError) as error:
            raise IdentityError(f"a record without a Holon output identity (header {header[:32]!r})") from error


def newest_incarnations(headers: Iterable[bytes]) -> dict[str, int]:
    """Job -> newest incarnation among the headers; those without an identity are passed over."""
    newest: dict[str, int] = {}
    # A job's incarnation differs in version, incarnation and name only: one header of each is parsed, not all.
    for header in {header[:5] + header[_FORMAT.size :]: header for header in headers}.values():
        try:
            identity = OutputId.from_bytes(header)
        except IdentityError:
            continue
        newest[identity.job] = max(identity.incarnation, newest.get(identity.job, 0))
    return newest


class IdentityStamp:
    """Makes the headers of one partition's track without building an ``OutputId`` for each."""

    __slots__ = ("_head", "_job")

    def __init__(self, job: str, incarnation: int, partition: int, track: Track) -> None:
        self._head = _FORMAT.pack(_VERSION, incarnation, partition, int(track), 0, 0)[: -_PLACE.size]
        self._job = job.encode()

    def __call__(self, position: int, n: int) -> bytes:
        return self._head + _PLACE.pack(position, n) + self._job

    def column(self, positions: Iterable[int], numbers: Iterable[int] | None = None) -> list[bytes]:
        """The headers of the n-th outputs at positions; ``numbers`` None: of the first ones (n = 0)."""
        head, pack, job = self._head, _PLACE.pack, self._job
        if numbers is None:
            return [head + pack(position, 0) + job for position in positions]
        return [head + pack(position, n) + job for position, n in zip(positions, numbers, strict=True)]

    def columns(self, positions: NDArray[np.int64], numbers: NDArray[np.int64] | None = None) -> BinaryColumn:
        """The same in one buffer."""
        head, job, count = len(self._head), self._job, len(positions)
        width = head + _PLACE.size + len(job)
        buffer = np.zeros(count * width + PAD_BYTES, np.uint8)
        rows = buffer[: count * width].reshape(count, width)
        rows[:, :head] = np.frombuffer(self._head, np.uint8)
        rows[:, head : head + 8] = positions.astype(">i8").view(np.uint8).reshape(count, 8)
        if numbers is not None:
            rows[:, head + 8 : head + _PLACE.size] = numbers.astype(">u4").view(np.uint8).reshape(count, 4)
        rows[:, head + _PLACE.size :] = np.frombuffer(job, np.uint8)
        starts = np.arange(count, dtype=np.int64) * width
        return BinaryColumn(buffer, starts, starts + width)


LastSeen = tuple[int, int]
"""``(position, n)`` of the newest output of one source partition and track."""

NOTHING_SEEN: LastSeen = (-(2**63), -1)


Ascent = tuple[LastSeen, LastSeen]
"""First and last of a run of identities that ascends."""


def place_of(header: bytes) -> tuple[int, LastSeen]:
    """Track, and position and n, of a header that this job has made."""
    track, position, n = _TRACK_AND_PLACE.unpack_from(header, _TRACK_AT)
    return track, (position, n)


def ascents(headers: Iterable[bytes], job: str, incarnation: int) -> dict[tuple[int, int], list[Ascent]]:
    """(source partition, track) -> the runs in which this job's identities ascend.

    More than one run shows that something was written again. A record of another author is passed over.
    """
    found: dict[tuple[int, int], list[Ascent]] = {}
    name, unpack, size = job.encode(), _FORMAT.unpack_from, _FORMAT.size
    for header in headers:
        if header[size:] != name or header[0] != _VERSION:
            continue
        _, of, partition, track, position, n = unpack(header)
        if of != incarnation:
            continue
        place = (position, n)
        runs = found.setdefault((partition, track), [])
        if runs and place > runs[-1][1]:
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    return found
