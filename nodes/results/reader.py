"""The reader of output topics that "exactly once" is promised behind: it drops duplicates and older incarnations.

It keeps one pair for each source partition, track and output partition (Holon, section 3.3), whatever it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

from holon.outputs.deduplicator import Deduplicator
from holon.outputs.identity import IdentityError, OutputId, newest_incarnations
from nodes.log.contract import FetchedRecords, Log, TopicPartition
from nodes.results.duplicate_check import DuplicateCheck
from nodes.streams.upstream import started_incarnations

T = TypeVar("T")
_VERSION = 1


class PositionError(Exception):
    """A saved position that does not belong to this topic or that this version cannot read."""


class Output(NamedTuple, Generic[T]):
    """One output. ``partition``, ``offset`` and ``timestamp_ms`` are those of its record on the output topic."""

    partition: int
    offset: int
    timestamp_ms: int
    identity: OutputId | None
    value: T
    key: bytes | None = None


class OutputReader(Generic[T]):
    """Hands out each output of a topic once, in the order of its partition.

    ``decode`` turns a payload into a value. If it raises, the next call goes on after that record. A record without an
    identity raises ``IdentityError``; with ``without_identity="pass"`` it is handed out with identity None (a duplicate
    is not recognized). ``position`` goes on where ``position()`` was taken, also in another process.

    ``verify_repeats`` compares dropped duplicates with the originals, byte for byte by digest: see ``check``.
    """

    @overload
    def __init__(
        self: OutputReader[bytes],
        log: Log,
        topic: str,
        *,
        position: Mapping[str, Any] | None = None,
        without_identity: Literal["refuse", "pass"] = "refuse",
        verify_repeats: bool = False,
    ) -> None: ...

    @overload
    def __init__(
        self,
        log: Log,
        topic: str,
        *,
        decode: Callable[[bytes], T],
        position: Mapping[str, Any] | None = None,
        without_identity: Literal["refuse", "pass"] = "refuse",
        verify_repeats: bool = False,
    ) -> None: ...

    def __init__(
        self,
        log: Log,
        topic: str,
        *,
        decode: Callable[[bytes], Any] | None = None,
        position: Mapping[str, Any] | None = None,
        without_identity: Literal["refuse", "pass"] = "refuse",
        verify_repeats: bool = False,
    ) -> None:
        self._log = log
        self._topic = topic
        self._decode = decode
        self._newest: dict[str, int] = {}
        self._refuse = without_identity == "refuse"
        partitions = log.partitions(topic)
        if position is None:
            self._next = [log.start_offset(topic, partition) for partition in range(partitions)]
            self._filter = Deduplicator()
        else:
            self._next, self._filter = _restored(position, topic, partitions)
        self.check = DuplicateCheck() if verify_repeats else None

    @property
    def repeats_dropped(self) -> int:
        """Duplicates of outputs that had been handed out, since this reader was made."""
        return self._filter.repeats

    @property
    def stale_dropped(self) -> int:
        """Outputs of an incarnation older than the newest, since this reader was made."""
        return self._filter.stale

    @property
    def differing_repeats(self) -> int:
        """Duplicates whose bytes differ from the original's; 0 without ``verify_repeats``."""
        return self.check.differing if self.check is not None else 0

    def position(self) -> dict[str, Any]:
        """Where to go on after what was handed out so far; plain lists and scalars, for JSON.

        Save it after the outputs before it have taken effect: those after it are handed out again.
        """
        return {
            "version": _VERSION,
            "topic": self._topic,
            "offsets": list(self._next),
            "filter": self._filter.to_wire(),
        }

    def read_available(self) -> Iterator[Output[T]]:
        """The records in the topic now, partition by partition, then end. Only of each job's newest incarnation.

        The topic is read twice: that an incarnation is old shows only when a newer one is seen, maybe elsewhere. One
        that has written nothing here yet is known by its job's broadcast topics, where this reader may see them.
        """
        ends = self._ends()
        self._newest = self._newest_incarnations(ends)
        for partition, end in enumerate(ends):
            for chunk in self._chunks(partition, end):
                yield from self._hand_out(partition, chunk, end)

    def read_partition(self, partition: int, end: int, newest: Mapping[str, int]) -> Iterator[Output[T]]:
        """The records of one partition from its position up to ``end``, of these incarnations of jobs, or newer ones.

        So what is handed out depends on the position, the end and ``newest`` alone, whenever that is.
        """
        self._newest = dict(newest)
        for chunk in self._chunks(partition, end):
            yield from self._hand_out(partition, chunk, end)

    def follow(self, stop: Callable[[], bool] = lambda: False, *, wait_s: float = 0.5) -> Iterator[Output[T]]:
        """Available records, then arriving ones, until ``stop()``, which is called at least every ``wait_s``.

        When a job's next incarnation starts, its outputs follow those of the one before.
        """
        for output in self.read_available():
            yield output
            if stop():
                return
        while not stop():
            arrived = False
            for partition, end in enumerate(self._ends()):
                for chunk in self._chunks(partition, end):
                    arrived = arrived or len(chunk) > 0
                    yield from self._hand_out(partition, chunk, end)
                    if stop():
                        return
            if not arrived:
                waiting = {TopicPartition(self._topic, partition): at for partition, at in enumerate(self._next)}
                self._log.wait(waiting, wait_s)

    def skip_available(self) -> None:
        """Pass over the topic's present records, but learn their identities, so that later duplicates are dropped."""
        repeats, stale = self._filter.repeats, self._filter.stale
        for partition, end in enumerate(self._ends()):
            for chunk in self._chunks(partition, end):
                for row, header in enumerate(chunk.headers):
                    identity = self._identity(partition, int(chunk.offsets[row]), header)
                    if chunk.offsets[row] < end and identity is not None:
                        self._filter.is_new(partition, identity)
                self._next[partition] = min(chunk.next_offset, end)
        self._filter.repeats, self._filter.stale = repeats, stale

    def _ends(self) -> list[int]:
        return [self._log.end_offset(self._topic, partition) for partition in range(len(self._next))]

    def _chunks(self, partition: int, end: int) -> Iterator[FetchedRecords]:
        """Chunks from the partition's position up to ``end``; the last may reach beyond it."""
        offset = self._next[partition]
        while offset < end:
            chunk = self._log.read(self._topic, partition, offset)
            yield chunk
            if chunk.next_offset <= offset:
                return
            offset = chunk.next_offset

    def _newest_incarnations(self, ends: list[int]) -> dict[str, int]:
        newest = started_incarnations(self._log)
        for partition, end in enumerate(ends):
            for chunk in self._chunks(partition, end):
                for job, incarnation in newest_incarnations(chunk.headers).items():
                    newest[job] = max(incarnation, newest.get(job, 0))
        return newest

    def _hand_out(self, partition: int, chunk: FetchedRecords, end: int) -> Iterator[Output[T]]:
        rows = zip(chunk.offsets.tolist(), chunk.timestamps_ms.tolist(), chunk.headers, chunk.values, strict=True)
        for row, (offset, timestamp_ms, header, payload) in enumerate(rows):
            if offset >= end:
                self._next[partition] = end
                return
            identity = self._identity(partition, offset, header)
            # The position passes the record before it is handed out: a reader that stops here goes on after it.
            self._next[partition] = offset + 1
            if identity is not None and not self._is_wanted(partition, identity, chunk, row):
                continue
            value: Any = payload if self._decode is None else self._decode(payload)
            key = chunk.keys[row] if chunk.keys is not None else None
            yield Output(partition, offset, timestamp_ms, identity, value, key)
        self._next[partition] = min(chunk.next_offset, end)

    def _is_wanted(self, partition: int, identity: OutputId, chunk: FetchedRecords, row: int) -> bool:
        if identity.incarnation < self._newest.get(identity.job, -1):
            self._filter.stale += 1
            return False
        stale = self._filter.stale
        wanted = self._filter.is_new(partition, identity)
        if self.check is not None and self._filter.stale == stale:
            key = chunk.keys[row] if chunk.keys is not None else None
            self.check.saw(partition, identity, key, chunk.values[row], first=wanted)
        return wanted

    def _identity(self, partition: int, offset: int, header: bytes) -> OutputId | None:
        try:
            return OutputId.from_bytes(header)
        except IdentityError as error:
            if not self._refuse:
                return None
            raise IdentityError(
                f"{self._topic}[{partition}] offset {offset}: {error}; is this an output topic of a Holon job?"
            ) from error


def _restored(position: Mapping[str, Any], topic: str, partitions: int) -> tuple[list[int], Deduplicator]:
    if position.get("version") != _VERSION:
        raise PositionError(f"a saved position of version {position.get('version')}; this release reads {_VERSION}")
    if position.get("topic") != topic:
        raise PositionError(f"a saved position of topic {position.get('topic')!r}, used for {topic!r}")
    offsets = position.get("offsets")
    if not isinstance(offsets, list) or len(offsets) != partitions:
        raise PositionError(f"topic {topic!r} has {partitions} partitions, the saved position is {offsets!r}")
    return [int(offset) for offset in offsets], Deduplicator.from_wire(position.get("filter", {}))
