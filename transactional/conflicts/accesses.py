"""The keys that one transaction has touched at one place: its reads, writes and scans, and whose writes it has read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn, Protocol

from transactional.context import CallChain
from transactional.errors import Aborted, NotShipped
from transactional.operators import StateKey

_SEVERAL: Final[CallChain] = ((-1,),)
_NO_SCANS: Final[Mapping[tuple[str, str], CallChain]] = {}


class _Versions(Protocol):
    def under(self, operator: str, prefix: str) -> Iterable[StateKey]: ...


class _Base(Protocol):
    @property
    def read(self) -> Any: ...
    def scan(self, operator: str, prefix: str) -> list[tuple[str, bytes]]: ...


class AccessedSite(Protocol):
    """The part that accesses use of the site where a transaction runs (``execution/site.py``)."""

    @property
    def written(self) -> dict[StateKey, Accesses]: ...
    @property
    def versions(self) -> _Versions | None: ...
    @property
    def base(self) -> _Base: ...
    @property
    def max_bytes(self) -> int: ...


class Accesses:
    """``reads``, ``writes`` and ``scans`` are what conflicts are found by; ``race``: two call chains met at a key here.

    ``sources``: of what it has read of lower TIDs, the TID and the value. ``missed``: it wanted what is not here.
    """

    __slots__ = (
        "_call_chain",
        "_site",
        "_stopping",
        "_writers",
        "bytes",
        "failures",
        "missed",
        "race",
        "reads",
        "scans",
        "sources",
        "tid",
        "writes",
    )  # fmt: skip

    def __init__(self, site: AccessedSite, tid: int) -> None:
        self._site = site
        self.tid = tid
        self._stopping = False  # over, missed, closed, or a call chain was ended
        self.missed = self.race = False
        self.bytes = 0  # that its calls have handed over and got back here, and that it has written
        self.failures: list[tuple[CallChain, Aborted]] | None = None
        self.reads: dict[StateKey, CallChain] = {}
        self.writes: dict[StateKey, bytes | None] = {}
        self._call_chain: CallChain | None = None  # the only one that has written so far
        self._writers: dict[StateKey, CallChain] | None = None  # from the second one on
        self.scans: Mapping[tuple[str, str], CallChain] = _NO_SCANS
        self.sources: dict[StateKey, tuple[int, bytes | None]] | None = None

    def forget(self) -> None:
        """Nothing of it counts."""
        self.reads, self.writes, self._writers, self.scans, self.sources = {}, {}, None, _NO_SCANS, None
        self._call_chain = None
        self.race, self.failures = False, None

    def read(self, call_chain: CallChain, key: StateKey) -> bytes | None:
        """The own write, else what a lower TID has written here, else the state; what is read again is the same."""
        if self._stopping:
            self._check(call_chain)
        reads = self.reads
        is_first = key not in reads
        if is_first:
            reads[key] = call_chain
        elif reads[key] != call_chain:
            reads[key] = _SEVERAL
        if key in self.writes:
            self.race |= self._writer(key) != call_chain
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

    def write(self, call_chain: CallChain, key: StateKey, value: bytes | None) -> None:
        """Kept until the epoch is decided."""
        if self._stopping:
            self._check(call_chain)
        if self._call_chain is not call_chain:
            self._write_of(call_chain, key)
        if self.reads.get(key, call_chain) != call_chain:
            self.race = True
        if self.scans:
            for (operator, prefix), scanner in self.scans.items():
                self.race |= scanner != call_chain and operator == key[0] and key[1].startswith(prefix)
        if self._site.versions is None:
            self._site.written[key] = self
        self.writes[key] = value
        if value is not None:
            self._add_bytes(len(value))

    def _write_of(self, call_chain: CallChain, key: StateKey) -> None:
        """The first call chain that writes needs no account of its keys; from the second one on there is one of all."""
        if self._call_chain is None and self._writers is None:
            self._call_chain = call_chain
            return
        if self._writers is None:
            assert self._call_chain is not None
            self._writers, self._call_chain = dict.fromkeys(self.writes, self._call_chain), None
        if self._writers.setdefault(key, call_chain) != call_chain:
            self.race = True
            self._writers[key] = _SEVERAL

    def _writer(self, key: StateKey) -> CallChain | None:
        return self._call_chain if self._writers is None else self._writers[key]

    def scan(self, call_chain: CallChain, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        """In order of the keys."""
        if self._stopping:
            self._check(call_chain)
        scanner = self.scans.get((operator, prefix), call_chain)
        self.scans = {**self.scans, (operator, prefix): call_chain if scanner == call_chain else _SEVERAL}
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
                self.race |= self._writer((other, key)) != call_chain
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

    def _check(self, call_chain: CallChain) -> None:
        """Raises where the call chain is over."""
        raise NotImplementedError

    def _add_bytes(self, size: int) -> None:
        """Ends it where that is too much."""
        self.bytes += size
        if self.bytes > self._site.max_bytes:
            self._too_many_bytes()

    def _too_many_bytes(self) -> NoReturn:
        """Ends it."""
        raise NotImplementedError
