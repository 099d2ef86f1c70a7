"""What one transaction has touched at one place: its reads, writes and scans, and whose writes it has read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from transactional.context import Strand
from transactional.errors import Aborted, NotShipped
from transactional.operators import StateKey
from transactional.site import Site

_SEVERAL: Final[Strand] = ((-1,),)
_NO_SCANS: Final[Mapping[tuple[str, str], Strand]] = {}


class Accesses:
    """``reads``, ``writes`` and ``scans`` are what conflicts are found by; ``race``: two strands met at a key here.

    ``sources``: of what it has read of lower TIDs, the TID and the value. ``missed``: it wanted what is not here.
    """

    __slots__ = (
        "_site", "_stopping", "_strand", "_writers", "bytes", "failures", "missed", "race", "reads", "scans", "sources",
        "tid", "writes",
    )  # fmt: skip

    def __init__(self, site: Site, tid: int) -> None:
        self._site = site
        self.tid = tid
        self._stopping = False  # over, missed, closed, or a strand was ended
        self.missed = self.race = False
        self.bytes = 0  # that its calls have handed over and got back here, and that it has written
        self.failures: list[tuple[Strand, Aborted]] | None = None
        self.reads: dict[StateKey, Strand] = {}
        self.writes: dict[StateKey, bytes | None] = {}
        self._strand: Strand | None = None  # the only one that has written so far
        self._writers: dict[StateKey, Strand] | None = None  # from the second one on
        self.scans: Mapping[tuple[str, str], Strand] = _NO_SCANS
        self.sources: dict[StateKey, tuple[int, bytes | None]] | None = None

    def forget(self) -> None:
        """Nothing of it counts."""
        self.reads, self.writes, self._writers, self.scans, self.sources = {}, {}, None, _NO_SCANS, None
        self._strand = None
        self.race, self.failures = False, None

    def read(self, strand: Strand, key: StateKey) -> bytes | None:
        """The own write, else what a lower TID has written here, else the state; what is read again is the same."""
        if self._stopping:
            self._check(strand)
        reads = self.reads
        is_first = key not in reads
        if is_first:
            reads[key] = strand
        elif reads[key] != strand:
            reads[key] = _SEVERAL
        if key in self.writes:
            self.race |= self._writer(key) != strand
            return self.writes[key]
        site = self._site
        if self.sources is not None and key in self.sources:
            return self.sources[key][1]
        if is_first:
            writer = site.written.get(key)
            if writer is not None and (site.versions is not None or self._may_read_from(writer, key)):
                return self._read_from(writer, key)
        try:
            return site.base.read(key)
        except NotShipped:
            self.missed = self._stopping = True
            raise

    def write(self, strand: Strand, key: StateKey, value: bytes | None) -> None:
        """Kept until the epoch is decided."""
        if self._stopping:
            self._check(strand)
        if self._strand is not strand:
            self._write_of(strand, key)
        if self.reads.get(key, strand) != strand:
            self.race = True
        if self.scans:
            for (operator, prefix), scanner in self.scans.items():
                self.race |= scanner != strand and operator == key[0] and key[1].startswith(prefix)
        if self._site.versions is None:
            self._site.written[key] = self
        self.writes[key] = value
        if value is not None:
            self._add_bytes(len(value))

    def _write_of(self, strand: Strand, key: StateKey) -> None:
        """The first strand that writes needs no account of its keys; from the second one on there is one of all."""
        if self._strand is None and self._writers is None:
            self._strand = strand
            return
        if self._writers is None:
            assert self._strand is not None
            self._writers, self._strand = dict.fromkeys(self.writes, self._strand), None
        if self._writers.setdefault(key, strand) != strand:
            self.race = True
            self._writers[key] = _SEVERAL

    def _writer(self, key: StateKey) -> Strand | None:
        return self._strand if self._writers is None else self._writers[key]

    def scan(self, strand: Strand, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        """In order of the keys."""
        if self._stopping:
            self._check(strand)
        scanner = self.scans.get((operator, prefix), strand)
        self.scans = {**self.scans, (operator, prefix): strand if scanner == strand else _SEVERAL}
        try:
            found: dict[str, bytes | None] = dict(self._site.base.scan(operator, prefix))
        except NotShipped:
            self.missed = self._stopping = True
            raise
        if self._site.versions is not None:
            for name in self._site.versions.under(operator, prefix):
                self._read_from(self._site.written[name], name)
        for (other, key), (_, value) in (self.sources or {}).items():
            if other == operator and key.startswith(prefix):
                found[key] = value
        for (other, key), value in self.writes.items():
            if other == operator and key.startswith(prefix):
                self.race |= self._writer((other, key)) != strand
                found[key] = value
        return [(key, value) for key, value in sorted(found.items()) if value is not None]

    def _may_read_from(self, writer: Accesses, key: StateKey) -> bool:
        """Whether one that runs in the same round or before may be its source; a scan does not see what these write."""
        return writer.tid < self.tid and not self.scans and not writer.failures and key in writer.writes

    def _read_from(self, writer: Accesses, key: StateKey) -> bytes | None:
        if self.sources is None:
            self.sources = {}
        value = writer.writes[key]
        self.sources[key] = writer.tid, value
        return value

    def _check(self, strand: Strand) -> None:
        """Raises where the strand is over."""
        raise NotImplementedError

    def _add_bytes(self, size: int) -> None:
        """Ends it where that is too much."""
        self.bytes += size
        if self.bytes > self._site.max_bytes:
            self._too_many_bytes()

    def _too_many_bytes(self) -> NoReturn:
        """Ends it."""
        raise NotImplementedError
