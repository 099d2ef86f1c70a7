"""An output as files: its partitions, the description of its folder, and the mark of a complete one."""

from __future__ import annotations

from typing import Any

import msgspec

from holon.files import Files
from nodes.errors import RunFailed, SettingsError
from nodes.file_sinks.commits import FOLDER
from nodes.file_sinks.dead_rows import inferred
from nodes.file_sinks.folders import Folders
from nodes.file_sinks.formats import format_of
from nodes.file_sinks.partition import BATCH_BYTES, BATCH_ROWS, FileTarget, PartitionFiles
from nodes.file_sinks.stores import FileStore
from nodes.log.contract import Log
from nodes.streams.upstream import upstream_incarnations

SUCCESS = "_SUCCESS"
_DESCRIPTION = f"{FOLDER}/sink.json"
_COLUMNS = f"{FOLDER}/columns"
_VERSION = 1


class _Description(msgspec.Struct, frozen=True):
    """The description of a folder: made once, by the first sink that writes there."""

    job: str
    topic: str
    format: str
    folders: str
    time: str | None
    incarnations: dict[str, int]
    version: int = _VERSION


class FileSink:
    """The files of one output. Call ``turn`` now and then; several processes may do that for the same folder."""

    def __init__(
        self,
        log: Log,
        store: FileStore,
        job: str,
        topic: str,
        files: Files,
        *,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self.topic = topic
        self.files = files
        self._log = log
        self._store = store
        self._job = job
        self._batch_rows = batch_rows
        self._format = format_of(files.format, files.row)
        self._known_columns: bytes | None = None
        self.incarnations = self._described()
        if (declared := self._format.declared()) is not None:
            self._use_columns(declared)
        self._target = FileTarget(
            log,
            topic,
            store,
            Folders(files),
            self._format,
            self.incarnations,
            self._fix_columns,
            self._no_success,
            files.on_error == "dead-letter",
            batch_rows,
            batch_bytes,
        )
        self._partitions: list[PartitionFiles] = []
        self._since_s: dict[int, float] = {}
        self._may_have_success = True

    @property
    def rows_written(self) -> int:
        """Rows that this process has written, also again."""
        return sum(each.rows_written for each in self._partitions)

    @property
    def files_written(self) -> int:
        return sum(each.files_written for each in self._partitions)

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(each.totals[0] for each in self._partitions)

    @property
    def file_count(self) -> int:
        """Files, also of other processes."""
        return sum(each.totals[1] for each in self._partitions)

    @property
    def dead(self) -> int:
        """Rows that fit no file."""
        return sum(each.dead for each in self._partitions)

    @property
    def offsets(self) -> list[int]:
        """Where to go on, by partition."""
        return [each.next_offset for each in self._partitions]

    def behind(self) -> int:
        """Offsets of the topic that are in no commit yet."""
        return sum(
            max(0, self._log.end_offset(self.topic, number) - each.next_offset)
            for number, each in enumerate(self._partitions)
        )

    def turn(self, now_s: float, *, flush: bool = False) -> bool:
        """Commit what is due: rows that have waited, a whole batch, what was there at the start; ``flush``: all.

        True if anything was committed.
        """
        self._attach()
        moved = False
        for number, partition in enumerate(self._partitions):
            end = self._log.end_offset(self.topic, number)
            if end <= partition.next_offset:
                self._since_s.pop(number, None)
                partition.commit(end)
                continue
            waited_ms = (now_s - self._since_s.setdefault(number, now_s)) * 1000
            is_due = flush or waited_ms >= self.files.commit_after_ms
            while (at := partition.next_offset) < end and (is_due or end - at >= self._batch_rows):
                partition.commit(end)
                if partition.next_offset == at:  # an open transaction hides the rows
                    break
                moved = True
            if end <= partition.next_offset:
                self._since_s.pop(number, None)
        return moved

    def caught_up(self) -> bool:
        """Whether all that was acknowledged by now is in files; an open transaction may hide some of it."""
        return all(
            each.next_offset >= self._log.high_watermark(self.topic, number)
            for number, each in enumerate(self._partitions)
        )

    def succeed(self) -> None:
        """Mark the folder as complete; to be called when no row can come any more and all are written."""
        content = {"job": self._job, "topic": self.topic, "ends": self.offsets, "rows": self.rows}
        counts = {"files": self.file_count, "dead": self.dead}
        self._store.put(SUCCESS, msgspec.json.encode({**content, **counts}))
        self._may_have_success = True

    def _attach(self) -> None:
        """The partitions that the topic has now. Of one that is seen first, all that is there is due."""
        for number in range(len(self._partitions), self._log.partitions(self.topic)):
            partition = PartitionFiles(self._target, number)
            partition.resume()
            self._partitions.append(partition)
            self._since_s[number] = float("-inf")

    def _no_success(self) -> None:
        """The folder is not complete any more: a job was continued behind the end of its input."""
        if self._may_have_success:
            self._store.delete(SUCCESS)
            self._may_have_success = False

    def _described(self) -> dict[str, int]:
        """The incarnations whose rows count, as the folder's first sink has found them."""
        given = self.files
        made = _Description(
            self._job,
            self.topic,
            given.format,
            given.folders,
            given.time,
            upstream_incarnations(self._log, self.topic),
        )
        if self._store.read(_DESCRIPTION) is None:
            self._store.create(_DESCRIPTION, msgspec.json.encode(made))
        data = self._store.read(_DESCRIPTION)
        where = f"{self._store.where}/{_DESCRIPTION}"
        try:
            found = msgspec.json.decode(data or b"", type=_Description)
        except msgspec.DecodeError as error:
            raise RunFailed(f"{where} is damaged ({error}): write to a new folder") from error
        if found.version != _VERSION:
            raise RunFailed(f"{where} has version {found.version}; this release reads version {_VERSION}")
        for name in ("job", "topic", "format", "folders", "time"):
            before, now = getattr(found, name), getattr(made, name)
            if before != now:
                raise SettingsError(
                    f"the files in {self._store.where} have {name} {before!r}, and {now!r} was given: write to a new "
                    f"folder"
                )
        return found.incarnations

    def _fix_columns(self, payloads: list[bytes], sets_aside: bool) -> bool:
        """Columns are those of the first rows, of whatever partition, if nothing is declared."""
        if self._known_columns is None:
            columns = self._store.read(_COLUMNS)
            if columns is None:
                columns = inferred(self._format, payloads) if sets_aside else self._format.inferred(payloads)
            if columns is not None:
                self._use_columns(columns)
        return self._known_columns is not None

    def _use_columns(self, columns: bytes) -> None:
        """The first columns that any process gives stay."""
        if (known := self._store.read(_COLUMNS)) is None:
            self._store.create(_COLUMNS, columns)
            known = self._store.read(_COLUMNS)
        assert known is not None
        self._known_columns = known
        try:
            self._format.use(known)
        except SettingsError as error:
            raise SettingsError(f"{self._store.where}: {error}; write to a new folder") from error


def summary(sink: FileSink, name: str, *, complete: bool) -> dict[str, Any]:
    """The state of a sink, for people and programs."""
    return {
        "output": name,
        "topic": sink.topic,
        "to": sink.files.path,
        "format": sink.files.format,
        "rows": sink.rows,
        "files": sink.file_count,
        "dead": sink.dead,
        "rows_written": sink.rows_written,
        "files_written": sink.files_written,
        "offsets": sink.offsets,
        "complete": complete,
    }
