"""Checks that dropped duplicates equal the outputs that were handed out first, byte for byte."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

from holon.outputs.identity import OutputId


class DuplicateCheck:
    """Remembers digests of the newest ``capacity`` outputs, about 250 bytes each.

    ``differing`` duplicates prove a function that is not deterministic. ``unknown`` ones have no original in memory:
    it was evicted, lies before the reader's saved position, or never existed. The last means that an output came after
    a later one of its sequence and was lost. A reader that began at the start and evicted nothing must count none.
    """

    def __init__(self, capacity: int = 100_000) -> None:
        self._digests: OrderedDict[tuple[int, OutputId], bytes] = OrderedDict()
        self._capacity = capacity
        self.verified = 0
        self.differing = 0
        self.unknown = 0
        self.first_difference: str | None = None

    def saw(self, partition: int, identity: OutputId, key: bytes | None, payload: bytes, *, first: bool) -> None:
        """Remember an original, or compare a duplicate with it."""
        digest = _digest(key, payload)
        if first:
            self._digests[(partition, identity)] = digest
            if len(self._digests) > self._capacity:
                self._digests.popitem(last=False)
            return
        remembered = self._digests.get((partition, identity))
        if remembered is None:
            self.unknown += 1
        elif remembered == digest:
            self.verified += 1
        else:
            self.differing += 1
            if self.first_difference is None:
                self.first_difference = f"output partition {partition}: {identity} was written with different bytes"


def _digest(key: bytes | None, payload: bytes) -> bytes:
    digest = blake2b(b"-" if key is None else b"%d:%b" % (len(key), key), digest_size=16)
    digest.update(payload)
    return digest.digest()
