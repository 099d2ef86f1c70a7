"""The outbox: results of one partition, in order, with their identities, until the runtime takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.errors import JobError
from holon.identity import IdentityStamp, Track
from holon.job import UNSTABLE, Job, Output
from holon.murmur import murmur2


class Run:
    """Records for one output partition, in order."""

    __slots__ = ("headers", "keys", "values")

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.headers: list[bytes] = []
        self.keys: list[bytes | None] = []


class Outbox:
    """Collects what one partition emits.

    An identity is (position, n) with n counted per output: by record, or on the window track by window end.
    """

    def __init__(self, job: Job, incarnation: int, partition: int, partitions: Mapping[str, int]) -> None:
        self.outputs = job.outputs
        self.partition = partition
        self.partitions = partitions
        self.runs: dict[tuple[str, int], Run] = {}
        self._record_stamp = IdentityStamp(job.name, incarnation, partition, Track.RECORD)
        self._window_stamp = IdentityStamp(job.name, incarnation, partition, Track.WINDOW)
        self._stamp = self._record_stamp
        self._position = 0
        self._counts: dict[str, int] = {}
        self.window_end_ms = -(2**63)
        self.window_counts: dict[str, int] = {}
        self._batch: NDArray[np.int64] | None = None
        self._rows: dict[str, list[tuple[int, Any, bytes | None]]] = {}

    # --- where the code stands ------------------------------------------------------------------------------------

    def enter_record(self, offset: int) -> None:
        self._stamp, self._position, self._counts, self._batch = self._record_stamp, offset, {}, None

    def resume_record(self, offset: int, counts: dict[str, int]) -> None:
        self.enter_record(offset)
        self._counts = dict(counts)

    def record_counts(self) -> dict[str, int]:
        """How much the record in hand has emitted, by output."""
        return dict(self._counts)

    def enter_batch(self, offsets: NDArray[np.int64]) -> None:
        self._stamp, self._batch, self._rows = self._record_stamp, offsets, {}

    def enter_window(self, end_ms: int) -> None:
        if end_ms != self.window_end_ms:
            self.window_end_ms, self.window_counts = end_ms, {}
        self._stamp, self._position, self._counts, self._batch = self._window_stamp, end_ms, self.window_counts, None

    def leave_batch(self) -> None:
        """Number what the batch emitted in the order of its rows, whatever the order of the calls."""
        assert self._batch is not None
        offsets = self._batch.tolist()
        for output, emitted in self._rows.items():
            encode = self._output(output).encode
            emitted.sort(key=_row)
            last, n = -1, 0
            for row, value, key in emitted:
                n = n + 1 if row == last else 0
                last = row
                self._add(output, encode(value), self._record_stamp(offsets[row], n), key)
        self._batch, self._rows = None, {}

    # --- emitting -------------------------------------------------------------------------------------------------

    def emit(self, output: str, value: Any, key: bytes | None, row: int | None) -> None:
        if self._batch is not None:
            if row is None:
                raise JobError("emit in a batch function needs row=, the batch row that the result comes from")
            self._rows.setdefault(output, []).append((_checked(row, len(self._batch)), value, key))
            return
        n = self._counts.get(output, 0)
        self._counts[output] = n + 1
        self._add(output, self._output(output).encode(value), self._stamp(self._position, n), key)

    def emit_many(
        self, output: str, values: Sequence[Any], rows: NDArray[np.intp] | None, keys: Sequence[bytes | None] | None
    ) -> None:
        if self._batch is None:
            for index, value in enumerate(values):
                self.emit(output, value, None if keys is None else keys[index], None)
            return
        if rows is None and len(values) != len(self._batch):
            raise JobError(f"emit_many of {len(values)} values for {len(self._batch)} rows needs rows=")
        if rows is not None and len(rows) != len(values):
            raise JobError(f"emit_many of {len(values)} values got {len(rows)} rows")
        if rows is not None and len(rows):
            _checked(int(np.min(rows)), len(self._batch))
            _checked(int(np.max(rows)), len(self._batch))
        if self._emit_in_order(output, values, rows, keys):
            return
        index = range(len(values)) if rows is None else rows.tolist()
        per_key = [None] * len(values) if keys is None else keys
        self._rows.setdefault(output, []).extend(zip(index, values, per_key, strict=True))

    def _emit_in_order(
        self, output: str, values: Sequence[Any], rows: NDArray[np.intp] | None, keys: Sequence[bytes | None] | None
    ) -> bool:
        """The fast way for what is already in row order, once, unrouted: no sorting, n = 0."""
        declared = self._output(output)
        ordered = rows is None or len(rows) < 2 or bool(np.all(rows[1:] > rows[:-1]))
        if keys is not None or declared.route_by_key or not ordered or output in self._rows:
            return False
        assert self._batch is not None
        offsets = (self._batch if rows is None else self._batch[rows]).tolist()
        stamp, encode = self._record_stamp, declared.encode
        self._rows[output] = _Sealed()
        run = self.runs.setdefault((output, self.partition), Run())
        run.values += [encode(value) for value in values]
        run.headers += [stamp(offset, 0) for offset in offsets]
        run.keys += [None] * len(offsets)
        return True

    def emit_unstable(self, value: Any) -> None:
        run = self.runs.setdefault((UNSTABLE, self.partition), Run())
        run.values.append(self._output(UNSTABLE).encode(value))
        run.headers.append(b"")
        run.keys.append(None)

    def divert(self, output: str, offset: int, value: bytes) -> None:
        """A late or dead record, under the identity of its offset."""
        self._add(output, value, self._record_stamp(offset, 0), None)

    def _add(self, output: str, value: bytes, header: bytes, key: bytes | None) -> None:
        run = self.runs.setdefault((output, self._route(output, key)), Run())
        run.values.append(value)
        run.headers.append(header)
        run.keys.append(key)

    def _route(self, output: str, key: bytes | None) -> int:
        if not self._output(output).route_by_key:
            return self.partition
        if key is None:
            raise JobError(f"output {output!r} routes by key: emit needs key=")
        return (murmur2(key) & 0x7FFFFFFF) % self.partitions[output]

    def _output(self, output: str) -> Output:
        try:
            return self.outputs[output]
        except KeyError:
            raise JobError(f"no output {output!r}; declared: {', '.join(self.outputs)}") from None

    def cut_back(self, lengths: Mapping[tuple[str, int], int]) -> None:
        """Forget what was emitted beyond these lengths (a record's results are rolled back with it)."""
        for key, run in self.runs.items():
            keep = lengths.get(key, 0)
            del run.values[keep:], run.headers[keep:], run.keys[keep:]

    # --- taking ---------------------------------------------------------------------------------------------------

    def take(self) -> dict[tuple[str, int], Run]:
        """What was emitted since the last call, by (output, output partition)."""
        taken, self.runs = self.runs, {}
        return taken


class _Sealed(list[Any]):
    """Marks an output that a batch already emitted to on the fast way; a second emission must not overtake it."""

    def extend(self, _: Any) -> None:
        raise JobError("emit the results of a batch for one output in one emit_many, or all of them with emit(row=)")

    append = extend


def _row(emitted: tuple[int, Any, bytes | None]) -> int:
    return emitted[0]


def _checked(row: int, rows: int) -> int:
    if not 0 <= row < rows:
        raise JobError(f"row {row} of a batch of {rows} rows")
    return row
