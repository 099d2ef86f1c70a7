"""The files of one partition of an output: batches of its rows, one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from nodes.errors import RunFailed
from nodes.file_sinks.commits import Commit, Commits
from nodes.file_sinks.folders import Folders, Unplaceable
from nodes.file_sinks.formats import RowFormat
from nodes.file_sinks.rows import Misfit
from nodes.file_sinks.stores import FileStore
from nodes.log.contract import Log, OffsetOutOfRange
from nodes.results.reader import Output, OutputReader

BATCH_ROWS = 1_000_000
BATCH_BYTES = 64 << 20
"""A batch is in memory as a whole: it ends with the row that reaches one of these."""
_NOTHING: dict[str, Any] = {"last": [], "incarnations": []}


@dataclass(frozen=True, slots=True)
class FileTarget:
    """The common part of the partitions of an output.

    ``incarnations``: by job, which one's rows count. ``fix_columns`` is called with the first rows of a format with
    columns.
    """

    log: Log
    topic: str
    store: FileStore
    folders: Folders
    format: RowFormat
    incarnations: Mapping[str, int]
    fix_columns: Callable[[list[bytes]], None]
    before_rows: Callable[[], None]
    batch_rows: int = BATCH_ROWS
    batch_bytes: int = BATCH_BYTES


@dataclass(slots=True)
class _Batch:
    first: int
    end: int
    before: dict[str, Any]
    after: dict[str, Any]
    rows: list[Output[bytes]]


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
        """Rows and files of all commits, also of those of other processes."""
        return (0, 0) if self._last is None else (self._last.rows, self._last.files)

    def resume(self) -> None:
        """Go on behind the newest commit, whose files are written first if that is not known to be done."""
        found = self._commits.last()
        if found is None:
            self._start = self._target.log.start_offset(self._target.topic, self._partition)
            return
        if not self._commits.is_finished(found):
            batch = self._read(found.first, found.end, found.before, whole=True)
            self._write(batch, self._files(batch))
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
        files = self._files(batch)  # a row that fits no file stops the sink before the batch is promised
        rows, count = self.totals
        number = 0 if self._last is None else self._last.number + 1
        made = Commit(
            number, batch.first, batch.end, batch.before, batch.after, rows + len(batch.rows), count + len(files)
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

    def _files(self, batch: _Batch) -> dict[str, bytes]:
        """The files of a batch by name: one for each folder."""
        target = self._target
        if not batch.rows:
            return {}
        if target.format.has_columns:
            self._checked(batch.rows, target.fix_columns)
        by_folder: dict[str, list[Output[bytes]]] = defaultdict(list)
        for output in batch.rows:
            by_folder[self._folder(output)].append(output)
        name = f"part-{self._partition:05d}-{batch.first:012d}-{batch.end - 1:012d}.{target.format.suffix}"
        return {folder + name: self._checked(rows, target.format.encode) for folder, rows in sorted(by_folder.items())}

    def _folder(self, output: Output[bytes]) -> str:
        folders = self._target.folders
        try:
            row = msgspec.json.decode(output.value) if folders.fields else None
            return folders.of(row, output.identity)
        except (Unplaceable, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RunFailed(f"{self._where(output.offset)} has no folder: {error}") from error

    def _checked(self, rows: list[Output[bytes]], make: Callable[[list[bytes]], Any]) -> Any:
        try:
            return make([output.value for output in rows])
        except Misfit as misfit:
            where = self._where(rows[misfit.place].offset)
            raise RunFailed(f"{where} does not fit a {self._target.format.suffix} file: {misfit}") from misfit

    def _where(self, offset: int) -> str:
        return f"{self._target.topic}[{self._partition}] offset {offset}"

    def _write(self, batch: _Batch, files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            self._target.store.put(name, data)
        self.rows_written += len(batch.rows)
        self.files_written += len(files)
