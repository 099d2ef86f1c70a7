"""Files as a sink: which files hold the rows of an output, and when they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, Literal

from holon.errors import JobError
from wcrdt.windows.durations import duration_ms

FileFormat = Literal["csv", "jsonl", "parquet"]
FORMATS: tuple[FileFormat, ...] = ("csv", "jsonl", "parquet")
TIMES = ("year", "month", "day", "hour")
"""Placeholders of the time of a row; all others are fields of it."""


@dataclass(frozen=True)
class Files:
    """The rows of an output as files, each row once: ``stream.sink(Files("out/{day}", "parquet"))``.

    The job writes rows to a topic, and ``holon sink`` writes the files from there.

    Args:
        path: a folder, or the URL of one in an object store (``s3://``, ``gs://``, ``az://``). With placeholders it
            names a folder for each row. ``{year}``, ``{month}``, ``{day}`` and ``{hour}`` are of its time (UTC). Any
            other name is a field of the row, as ``{country}``.
        format: ``csv``, ``jsonl`` (JSON lines) or ``parquet``, which needs the extra ``arrow``.
        partition_by: fields of the row, or its ``day`` and the like, that become folders below, ``NAME=VALUE``.
        commit_after: how long after it is on the log, at the latest, a row is in a file.
        time: the field with the time of a row: epoch ms, or a text of a date and time (ISO 8601). None: the last
            millisecond of the row's window.
        row: the type of rows, which decides the columns of CSV and Parquet. None: that of the flow's stream if it is
            known, else what the first rows have.
        topic: the topic between job and files; None: ``FLOW.files.N`` for the n-th such sink of a flow.
        on_error: what a row does that fits no file: stop ``holon sink``, or go to the folder ``_dead`` with the reason.
    """

    path: str
    format: FileFormat = "jsonl"
    partition_by: Sequence[str] = ()
    commit_after: int | str = "1m"
    time: str | None = None
    row: Any = None
    topic: str | None = None
    on_error: Literal["fail", "dead-letter"] = "fail"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise JobError(f"files are {', '.join(FORMATS)}, got {self.format!r}")
        if self.on_error not in ("fail", "dead-letter"):
            raise JobError(f'on_error must be "fail" or "dead-letter", got {self.on_error!r}')
        if isinstance(self.partition_by, str) or not all(self.partition_by):
            raise JobError(f"partition_by is a list of fields, got {self.partition_by!r}")
        object.__setattr__(self, "partition_by", tuple(self.partition_by))
        try:
            wait_ms = duration_ms(self.commit_after)
        except (TypeError, ValueError) as error:
            raise JobError(f"commit_after: {error}") from error
        if wait_ms < 0:
            raise JobError(f"commit_after must be 0 or more, got {self.commit_after!r}")
        if not (self.root.partition("://")[2] if "://" in self.path else self.root):
            raise JobError(f"{self.path!r}: begin the path with a folder that has no placeholder, as in 'out/{{day}}'")
        self.placeholders  # noqa: B018  # a wrong template is better known here

    @property
    def commit_after_ms(self) -> int:
        return duration_ms(self.commit_after)

    @property
    def root(self) -> str:
        """The folder of all files: the path before its first placeholder."""
        return self._split()[0]

    @property
    def folders(self) -> str:
        """The template of folders below the root; empty for none."""
        template = self._split()[1]
        fields = [f"{name.replace('{', '').replace('}', '')}={{{name}}}" for name in self.partition_by]
        return "/".join([*([template] if template else []), *fields])

    @property
    def placeholders(self) -> tuple[tuple[str, str | None], ...]:
        """The template of folders in pieces: a text, and the placeholder behind it (None at the end)."""
        try:
            pieces = list(Formatter().parse(self.folders))
        except ValueError as error:
            raise JobError(f"{self.path!r} is no template of a path: {error}") from error
        for _, name, spec, conversion in pieces:
            if name is not None and (not name or spec or conversion):
                raise JobError(f"{self.path!r}: a placeholder is {', '.join(TIMES)} or the name of a field")
        return tuple((text, name) for text, name, _, _ in pieces)

    @property
    def needs_time(self) -> bool:
        """Whether the folder of a row depends on its time."""
        return any(name in TIMES for _, name in self.placeholders)

    def _split(self) -> tuple[str, str]:
        parts = self.path.rstrip("/").split("/")
        fixed = next((at for at, part in enumerate(parts) if "{" in part or "}" in part), len(parts))
        return "/".join(parts[:fixed]), "/".join(parts[fixed:])
