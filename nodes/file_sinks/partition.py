"""The files of one partition of an output: batches of its rows, one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from nodes.errors import RunFailed
from nodes.file_sinks.commits import Commit, Commits
from nodes.file_sinks.dead_rows import DEAD_FOLDER, DeadRow, dead_row, encoded, lines_of, why_no_columns
from nodes.file_sinks.folders import Folders, Unplaceable
from nodes.file_sinks.formats import RowFormat
from nodes.file_sinks.rows import Misfit
from nodes.file_sinks.stores import FileStore
from nodes.log.contract import Log, OffsetOutOfRange
from nodes.results.reader import Output, OutputReader

BATCH_ROWS = 1_000_000
BATCH_BYTES = 64 << 20
"""A batch is in memory as a whole: it ends with the row that reaches one of these."""
_REMEDY = "--on-error dead-letter, or Files(on_error=), sets such rows aside"
_NOTHING: dict[str, Any] = {"last": [], "incarnations": []}


@dataclass(frozen=True, slots=True)
class FileTarget:
    """The common part of the partitions of an output.

    ``incarnations``: by job, which one's rows count. ``fix_columns`` is called with the rows of each batch of a format
    with columns, and whether rows may be dead; False: none of them has columns, and none are known. ``sets_aside``:
    rows that fit no file are dead, and the sink goes on.
    """

    log: Log
    topic: str
    store: FileStore
    folders: Folders
    format: RowFormat
    incarnations: Mapping[str, int]
    fix_columns: Callable[[list[bytes], bool], bool]
    before_rows: Callable[[], None]
    sets_aside: bool = False
    batch_rows: int = BATCH_ROWS
    batch_bytes: int = BATCH_BYTES


@dataclass(slots=True)
class _Batch:
    first: int
    end: int
    before: dict[str, Any]
    after: dict[str, Any]
    rows: list[Output[bytes]]


@dataclass(slots=True)
class _Made:
    """The files of a batch by name, with that of its dead rows."""

    files: dict[str, bytes]
    dead: list[DeadRow]

    @property
    def with_rows(self) -> int:
        """Files of rows that fit."""
        return len(self.files) - bool(self.dead)


class PartitionFiles:
    """Call ``resume`` once, then ``commit`` again and again."""

    def __init__(self, target: FileTarget, partition: int) -> None:
        self._target = target
        self._partition = partition
        self._commits = Commits(target.store, partition)
        self._last: Commit | None = None
        self._start = 0
        self.rows_written = 0
        self.files_written = 0

    @property
    def next_offset(self) -> int:
        """The first offset that is in no commit."""
        return self._start if self._last is None else self._last.end

    @property
    def totals(self) -> tuple[int, int]:
        """Rows and files of all commits, also of those of other processes; dead rows and their files are others."""
        return (0, 0) if self._last is None else (self._last.rows, self._last.files)

    @property
    def dead(self) -> int:
        """Rows of all commits that fit no file."""
        return 0 if self._last is None else self._last.dead

    def resume(self) -> None:
        """Go on behind the newest commit, whose files are written first if that is not known to be done."""
        found = self._commits.last()
        if found is None:
            self._start = self._target.log.start_offset(self._target.topic, self._partition)
            return
        if not self._commits.is_finished(found):
            batch = self._read(found.first, found.end, found.before, whole=True)
            self._write(batch, self._files(batch, found.sets_aside))
            self._commits.finish(found)
        self._last = found

    def commit(self, end: int) -> bool:
        """Commit a batch of the rows before ``end`` and write its files; False where another's counts."""
        at = self.next_offset
        if end <= at:
            self._require_known(end, at)
            return False
        batch = self._read(at, end, _NOTHING if self._last is None else self._last.after)
        if batch.end == at:
            return False
        sets_aside = self._target.sets_aside
        files = self._files(batch, sets_aside)  # a row that stops the sink does so before the batch is promised
        rows, count = self.totals
        number = 0 if self._last is None else self._last.number + 1
        made = Commit(
            number,
            batch.first,
            batch.end,
            batch.before,
            batch.after,
            rows + len(batch.rows) - len(files.dead),
            count + files.with_rows,
            self.dead + len(files.dead),
            sets_aside,
        )
        if batch.rows:
            self._target.before_rows()
        if not self._commits.add(made):
            self.resume()
            return False
        self._write(batch, files)
        self._commits.finish(made)
        self._last = made
        return True

    def _read(self, first: int, end: int, before: dict[str, Any], *, whole: bool = False) -> _Batch:
        target, partition = self._target, self._partition
        offsets = [0] * target.log.partitions(target.topic)
        offsets[partition] = first
        position = {"version": 1, "topic": target.topic, "offsets": offsets, "filter": before}
        reader = OutputReader(target.log, target.topic, position=position)
        incarnations = dict(target.incarnations) | dict(before["incarnations"])
        rows: list[Output[bytes]] = []
        size = 0
        try:
            for output in reader.read_partition(partition, end, incarnations):
                self._require_current(output, incarnations)
                rows.append(output)
                size += len(output.value)
                if not whole and (len(rows) >= target.batch_rows or size >= target.batch_bytes):
                    break
        except OffsetOutOfRange as error:
            raise RunFailed(
                f"{target.topic}[{partition}]: rows from offset {first} on were deleted before they were in a file "
                f"({error}); what is left can be written to a new folder"
            ) from error
        after = reader.position()
        return _Batch(first, after["offsets"][partition], before, after["filter"], rows)

    def _require_current(self, output: Output[bytes], incarnations: dict[str, int]) -> None:
        identity = output.identity
        assert identity is not None, "records without an identity are refused"
        counted = incarnations.setdefault(identity.job, identity.incarnation)
        if identity.incarnation > counted:
            raise RunFailed(
                f"{self._where(output.offset)}: job {identity.job!r} began anew (incarnation {identity.incarnation}), "
                f"and the files in {self._target.store.where} are of incarnation {counted}: write to a new folder, or "
                f"empty this one first"
            )

    def _require_known(self, end: int, at: int) -> None:
        if end < at:
            raise RunFailed(
                f"{self._target.topic}[{self._partition}] ends at offset {end}, and the files in "
                f"{self._target.store.where} have its rows up to {at}: the log is another one, or has lost its end; "
                f"write to a new folder"
            )

    def _files(self, batch: _Batch, sets_aside: bool) -> _Made:
        """The files of a batch: one for each folder, and one of the dead rows."""
        target = self._target
        dead: dict[int, str] = {}
        kept = batch.rows
        if kept and target.format.has_columns and not self._fix_columns(kept, sets_aside):
            reasons = {output.offset: why_no_columns(target.format, output.value) for output in kept}
            dead, kept = {at: why for at, why in reasons.items() if why is not None}, []
        by_folder: dict[str, list[Output[bytes]]] = defaultdict(list)
        for output in kept:
            try:
                by_folder[self._folder(output)].append(output)
            except (Unplaceable, msgspec.DecodeError, UnicodeDecodeError) as error:
                if not sets_aside:
                    raise RunFailed(f"{self._where(output.offset)} has no folder: {error}; {_REMEDY}") from error
                dead[output.offset] = f"it has no folder: {error}"
        name = f"part-{self._partition:05d}-{batch.first:012d}-{batch.end - 1:012d}"
        files: dict[str, bytes] = {}
        for folder, rows in sorted(by_folder.items()):
            data, unfit = self._encoded(rows, sets_aside)
            dead |= unfit
            if data is not None:
                files[f"{folder}{name}.{target.format.suffix}"] = data
        lines = [
            dead_row(target.topic, self._partition, output.offset, dead[output.offset], output.value)
            for output in batch.rows
            if output.offset in dead
        ]
        if lines:
            files[f"{DEAD_FOLDER}/{name}.jsonl"] = lines_of(lines)
        return _Made(files, lines)

    def _folder(self, output: Output[bytes]) -> str:
        folders = self._target.folders
        row = msgspec.json.decode(output.value) if folders.fields else None
        return folders.of(row, output.identity)

    def _fix_columns(self, rows: Sequence[Output[bytes]], sets_aside: bool) -> bool:
        with self._named_misfits(rows):
            return self._target.fix_columns([output.value for output in rows], sets_aside)

    def _encoded(self, rows: Sequence[Output[bytes]], sets_aside: bool) -> tuple[bytes | None, dict[int, str]]:
        """The file of these rows, and why others are dead, by offset."""
        payloads = [output.value for output in rows]
        if sets_aside:
            data, dead = encoded(self._target.format, payloads)
            return data, {rows[place].offset: why for place, why in dead.items()}
        with self._named_misfits(rows):
            return self._target.format.encode(payloads), {}

    @contextmanager
    def _named_misfits(self, rows: Sequence[Output[bytes]]) -> Iterator[None]:
        try:
            yield
        except Misfit as misfit:
            where = self._where(rows[misfit.place].offset)
            kind = self._target.format.suffix
            raise RunFailed(f"{where} does not fit a {kind} file: {misfit}; {_REMEDY}") from misfit

    def _where(self, offset: int) -> str:
        return f"{self._target.topic}[{self._partition}] offset {offset}"

    def _write(self, batch: _Batch, made: _Made) -> None:
        for name, data in made.files.items():
            self._target.store.put(name, data)
        self.rows_written += len(batch.rows) - len(made.dead)
        self.files_written += made.with_rows
