"""Duplicates in the input: what another Holon job has written again is recognised by its identity, and passed over.

One pair is kept for each source partition and track of each upstream job, and the incarnation that counts. This state
belongs to the record track: it is a function of the input partition's prefix, and of what the job's start recorded.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import starmap

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.errors import UpstreamReset
from holon.outputs.identity import NOTHING_SEEN, IdentityError, LastSeen, OutputId

_HEAD_BYTES = 10
"""Of an identity: version, incarnation, source partition and track; position and n follow, then the job's name."""
_PLACE = struct.Struct(">qI")
_NAME_AT = _HEAD_BYTES + _PLACE.size
FEW = 32
"""Up to so many headers are read one by one."""

Kept = NDArray[np.bool_]


class LastOutput(msgspec.Struct, array_like=True, frozen=True, order=True):
    """The newest identity of one track of an upstream job's source partition, of those in this input partition."""

    job: str
    partition: int
    track: int
    position: int
    n: int


class SeenOutputs(msgspec.Struct, array_like=True, frozen=True):
    """All that is known of the outputs in a prefix; in order, so that equal states give equal bytes."""

    last: list[LastOutput] = []
    incarnations: dict[str, int] = {}


class _Track:
    """One upstream track; ``stale``: its incarnation is an older one."""

    __slots__ = ("last", "stale")

    def __init__(self, last: LastSeen, stale: bool) -> None:
        self.last = last
        self.stale = stale


class Duplicates:
    """Recognises outputs of other jobs that are in the input already.

    Args: ``upstream``: the incarnation of each upstream job that counted when this job's incarnation started; None
    where that was not recorded: then nothing is recognised, as the incarnation began so.
    """

    def __init__(self, upstream: Mapping[str, int] | None) -> None:
        self.recognises = upstream is not None
        self._incarnations = dict(upstream or {})
        self._tracks: dict[tuple[str, int, int], _Track] = {}  # of incarnations that count
        self._known: dict[bytes, _Track] = {}  # by the parts of a header that its track has in common

    def jobs(self) -> set[str]:
        """The jobs whose outputs count in this prefix."""
        return {job for job, _, _ in self._tracks}

    def seen(self) -> SeenOutputs:
        """The state to save."""
        last = sorted(starmap(_last_output, ((key, track.last) for key, track in self._tracks.items())))
        return SeenOutputs(last, dict(sorted(self._incarnations.items()))) if self.recognises else SeenOutputs()

    def restore(self, seen: SeenOutputs) -> None:
        """Go on from what ``seen`` gave."""
        self._known.clear()
        self._incarnations.update(seen.incarnations)
        self._tracks = {(x.job, x.partition, x.track): _Track((x.position, x.n), False) for x in seen.last}

    def first_copies(self, headers: Sequence[bytes]) -> Kept | None:
        """Which records are no duplicates; None: all of them. Later records are judged by these too.

        Raises ``UpstreamReset`` where an upstream job has begun again since its results were counted here.
        """
        if not self.recognises:
            return None
        if len(headers) > FEW and self._ascends(headers):
            return None
        kept = np.fromiter(map(self._is_first, headers), np.bool_, len(headers))
        return None if kept.all() else kept

    def _is_first(self, header: bytes) -> bool:
        track = self._track(header)
        if track is None:
            return True
        if track.stale:
            return False
        place: LastSeen = _PLACE.unpack_from(header, _HEAD_BYTES)  # type: ignore[assignment]
        if place <= track.last:
            return False
        track.last = place
        return True

    def _ascends(self, headers: Sequence[bytes]) -> bool:
        """The common case without checking each: one track's identities, all of them new and in order."""
        track = self._track(headers[0])
        if track is None or track.stale:
            return False
        width = len(headers[0])
        joined = b"".join(headers)
        if len(joined) != width * len(headers):
            return False
        rows = np.frombuffer(joined, np.uint8).reshape(-1, width)
        if (rows[:, :_HEAD_BYTES] != rows[0, :_HEAD_BYTES]).any() or (rows[:, _NAME_AT:] != rows[0, _NAME_AT:]).any():
            return False
        places = np.frombuffer(rows[:, _HEAD_BYTES:_NAME_AT].tobytes(), np.dtype([("at", ">i8"), ("n", ">u4")]))
        at, n = places["at"].astype(np.int64), places["n"].astype(np.int64)
        if not ((at[1:] > at[:-1]) | ((at[1:] == at[:-1]) & (n[1:] > n[:-1]))).all():
            return False
        if (int(at[0]), int(n[0])) <= track.last:
            return False
        track.last = int(at[-1]), int(n[-1])
        return True

    def _track(self, header: bytes) -> _Track | None:
        """None: no output of a Holon job."""
        if len(header) <= _NAME_AT:
            return None
        head = header[:_HEAD_BYTES] + header[_NAME_AT:]
        track = self._known.get(head) or self._found(header)
        if track is not None:
            self._known[head] = track
        return track

    def _found(self, header: bytes) -> _Track | None:
        try:
            identity = OutputId.from_bytes(header)
        except IdentityError:
            return None
        current = self._incarnations.setdefault(identity.job, identity.incarnation)
        if identity.incarnation > current:
            raise UpstreamReset(
                f"job {identity.job!r}, whose output this is, has begun again (incarnation {identity.incarnation}; "
                f"results of incarnation {current} are counted here): start this job again with --reset, so that each "
                f"result counts once"
            )
        if identity.incarnation < current:
            return _Track(NOTHING_SEEN, True)
        key = (identity.job, identity.partition, int(identity.track))
        return self._tracks.setdefault(key, _Track(NOTHING_SEEN, False))


def _last_output(key: tuple[str, int, int], last: LastSeen) -> LastOutput:
    return LastOutput(*key, *last)
