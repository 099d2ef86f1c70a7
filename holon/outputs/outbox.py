"""The outbox: results of one partition, in order, with their identities, until the runtime takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import BinaryColumn
from holon.errors import JobError
from holon.input_layout import InputPlace
from holon.job import DEAD, LATE, UNSTABLE, Job, Output, encode_json, encode_json_column
from holon.outputs.identity import IdentityStamp, Track
from holon.outputs.letters import row_letter
from holon.outputs.partitioner import partition_of
from holon.outputs.runs import OutputRun
from wcrdt.windows.assigners import Window

Runs = dict[tuple[str, int], OutputRun]
"""By (output, output partition)."""
_NOWHERE = -1
"""No record has this offset."""


class _BatchOutputs(NamedTuple):
    """The outputs of one call in a batch function, encoded; ``rows`` None: one for each row of the batch."""

    rows: NDArray[np.intp] | list[int] | None  # a list where single results were collected
    values: Sequence[bytes]  # a list where single results were collected
    keys: Sequence[bytes | None] | None

    def entries(self) -> Iterable[tuple[int, bytes, bytes | None]]:
        """(row, value, key) of each."""
        rows = range(len(self.values)) if self.rows is None else self.rows
        rows = rows.tolist() if isinstance(rows, np.ndarray) else rows
        keys = [None] * len(self.values) if self.keys is None else self.keys
        return zip(rows, self.values, keys, strict=True)

    @property
    def ascends(self) -> bool:
        """True if no row has two values and none comes before an earlier one."""
        return self.rows is None or bool(np.all(np.diff(self.rows) > 0))


class HeldEnd:
    """The outputs of stages for one window end that later stages have not answered yet."""

    __slots__ = ("counts", "runs")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.runs: Runs = {}


class HeldPart(msgspec.Struct, array_like=True, frozen=True):
    """Results of a window end that some stages have answered: how many, and each run with its place."""

    end_ms: int
    counts: dict[str, int]
    runs: list[tuple[str, int, list[bytes], list[bytes], list[bytes | None]]]


class KeptOutputs(NamedTuple):
    """How much was emitted for a window end, and in all, by (output, output partition); counts by output."""

    of_end: dict[tuple[str, int], int]
    of_all: dict[tuple[str, int], int]
    counts: dict[str, int]


class Outbox:
    """Collects what one partition emits.

    An identity is (position, n) with n counted per output: by record, or on the window track by window end. The events
    of an atom are one record: it is never processed in part, so what they emit is numbered in the order of its places.
    """

    def __init__(
        self, job: Job, incarnation: int, partition: int, partitions: Mapping[str, int], place: InputPlace
    ) -> None:
        self.outputs = job.outputs
        self.on_error: Literal["fail", "dead-letter"] = job.on_error
        self._place = place
        self.partition = partition
        self.partitions = partitions
        self.runs: Runs = {}
        self._record_stamp = IdentityStamp(job.name, incarnation, partition, Track.RECORD)
        self._window_stamp = IdentityStamp(job.name, incarnation, partition, Track.WINDOW)
        self._stamp = self._record_stamp
        self.position = 0
        """The record in hand, or the end of the window in hand."""
        self._counts: dict[str, int] = {}
        self._record_at = _NOWHERE
        self._record_counts: dict[str, int] = {}
        self._record_runs: list[OutputRun] = []
        self.last_stage = job.program.last_stage
        self.window_end_ms = -(2**63)
        self.window_counts: dict[str, int] = {}
        self.held: dict[int, HeldEnd] = {}
        self._held_ends: list[int] = []  # a heap
        self._into = self.runs
        self._batch: NDArray[np.int64] | None = None
        self.filtered = self.late = 0  # rows of the last batch, as its function has counted them
        self._pieces: dict[str, list[_BatchOutputs]] = {}

    # --- the position of the code ---------------------------------------------------------------------------------

    def enter_record(self, offset: int) -> None:
        self._into = self.runs
        if offset != self._record_at:  # else it is the next event of an atom
            self._begin_record(offset)
        self._stamp, self.position, self._counts, self._batch = self._record_stamp, offset, self._record_counts, None

    def _begin_record(self, offset: int) -> None:
        self._record_at, self._record_counts, self._record_runs = offset, {}, []
        self._counts = self._record_counts

    def _in_record(self) -> bool:
        """Whether a record is in hand. Behind one that was entered, only ``position`` is set for each."""
        if self._stamp is not self._record_stamp or self._batch is not None:
            return False
        if self.position != self._record_at:
            self._begin_record(self.position)
        return True

    def undo_record(self) -> None:
        """Forget what the record in hand has emitted; nothing of it may have been taken."""
        if self.position == self._record_at:
            for run in reversed(self._record_runs):
                run.keep(len(run) - 1)
            self._record_at = _NOWHERE

    def resume_record(self, offset: int, counts: dict[str, int]) -> None:
        self._record_at, self._record_counts = offset, dict(counts)
        self.enter_record(offset)

    def record_counts(self) -> dict[str, int]:
        """How much the record in hand has emitted, by output."""
        self._in_record()
        return dict(self._counts)

    def enter_batch(self, offsets: NDArray[np.int64]) -> None:
        self._into = self.runs
        self._stamp, self._batch, self._pieces = self._record_stamp, offsets, {}
        self.filtered = self.late = 0

    def enter_window(self, end_ms: int) -> None:
        """A handler runs for a window with this end."""
        if self.last_stage == 0:
            if end_ms != self.window_end_ms:
                self.window_end_ms, self.window_counts = end_ms, {}
            self._into, counts = self.runs, self.window_counts
        else:
            held = self.held.get(end_ms) or self._hold(end_ms)
            self._into, counts = held.runs, held.counts
        self._stamp, self.position, self._counts, self._batch = self._window_stamp, end_ms, counts, None

    def keep_window(self) -> KeptOutputs:
        """Remember how much was emitted before the handler that begins now."""
        return KeptOutputs(_lengths(self._into), _lengths(self.runs), dict(self._counts))

    def cut_back_window(self, kept: KeptOutputs) -> None:
        """Forget what the handler in hand has emitted."""
        _cut_back(self._into, kept.of_end)
        _cut_back(self.runs, kept.of_all)
        self._counts.clear()
        self._counts.update(kept.counts)

    def release_windows(self, through_ms: int) -> None:
        """All stages have answered the windows through this end: their results leave in the order of their ends.

        So the order on the log, and with it n, does not depend on how far one stage was ahead of the next.
        """
        while self._held_ends and self._held_ends[0] <= through_ms:
            for to, run in self.held.pop(heappop(self._held_ends)).runs.items():
                self.runs.setdefault(to, OutputRun()).extend(run.values, run.headers, run.keys)

    def _hold(self, end_ms: int) -> HeldEnd:
        held = self.held[end_ms] = HeldEnd()
        heappush(self._held_ends, end_ms)
        return held

    def held_parts(self) -> list[HeldPart]:
        """The outputs that wait for later stages, for a snapshot."""
        return [
            HeldPart(
                end_ms,
                dict(sorted(held.counts.items())),
                [(*to, list(run.values), list(run.headers), list(run.keys)) for to, run in sorted(held.runs.items())],
            )
            for end_ms, held in sorted(self.held.items())
        ]

    def hold_again(self, parts: Iterable[HeldPart]) -> None:
        """Become what ``held_parts`` described."""
        self.held, self._held_ends = {}, []
        for part in parts:
            held = self._hold(part.end_ms)
            held.counts = dict(part.counts)
            for output, partition, values, headers, keys in part.runs:
                held.runs.setdefault((output, partition), OutputRun()).extend(values, headers, keys)

    def leave_batch(self) -> None:
        """Number what the batch emitted in the order of its rows, whatever the order of the calls."""
        assert self._batch is not None
        for output, pieces in self._pieces.items():
            if len(pieces) == 1 and pieces[0].ascends and not self.outputs[output].route_by_key:
                self._add_column(output, pieces[0], self._batch)
            else:
                self._add_rows(output, pieces, self._batch)
        self._batch, self._pieces = None, {}

    def abandon_batch(self) -> None:
        """Forget what the batch has emitted so far."""
        self._batch, self._pieces = None, {}

    def _add_column(self, output: str, piece: _BatchOutputs, offsets: NDArray[np.int64]) -> None:
        """The fast way for what is in row order already: no sorting."""
        positions = offsets if piece.rows is None else offsets[piece.rows]
        run = self.runs.setdefault((output, self.partition), OutputRun())
        numbers, values = _numbers(positions), piece.values
        if isinstance(values, BinaryColumn):
            run.add_columns(values, self._record_stamp.columns(positions, numbers), piece.keys)
        else:
            named = self._record_stamp.column(positions.tolist(), None if numbers is None else numbers.tolist())
            run.extend(values, named, piece.keys)

    def _add_rows(self, output: str, pieces: list[_BatchOutputs], offsets: NDArray[np.int64]) -> None:
        emitted = sorted((entry for piece in pieces for entry in piece.entries()), key=lambda entry: entry[0])
        last, n = _NOWHERE, 0
        for row, value, key in emitted:
            offset = int(offsets[row])
            n = n + 1 if offset == last else 0
            last = offset
            self._add(self.runs, output, value, self._record_stamp(offset, n), key)

    # --- emitting -------------------------------------------------------------------------------------------------

    def emit(self, output: str, value: Any, key: bytes | None, row: int | None) -> None:
        declared = self._declared(output)
        if declared.route_by_key and key is None:
            raise JobError(f"output {output!r} routes by key: emit needs key=")
        if self._batch is not None:
            if row is None:
                raise JobError("emit in a batch function needs row=, the batch row that the result comes from")
            if not 0 <= row < len(self._batch):
                raise JobError(f"row {row} of a batch of {len(self._batch)} rows: they are counted from 0")
            self._collect(output, row, declared.encode(value), key)
            return
        if row is not None:
            raise JobError("row= names a row of a batch; here the result comes from the record or window in hand")
        in_record, encoded = self._in_record(), declared.encode(value)
        run = self._add(self._into, output, encoded, self._stamp(self.position, self._next(output)), key)
        if in_record:
            self._record_runs.append(run)

    def _collect(self, output: str, row: int, value: bytes, key: bytes | None) -> None:
        pieces = self._pieces.setdefault(output, [])
        if not pieces or not isinstance(pieces[-1].rows, list):
            pieces.append(_BatchOutputs([], [], []))
        rows, values, keys = pieces[-1]
        assert isinstance(rows, list) and isinstance(values, list) and isinstance(keys, list)
        rows.append(row)
        values.append(value)
        keys.append(key)

    def emit_many(
        self, output: str, values: Sequence[Any], rows: NDArray[np.intp] | None, keys: Sequence[bytes | None] | None
    ) -> None:
        values = values.tolist() if isinstance(values, np.ndarray) else values
        if keys is not None and len(keys) != len(values):
            raise JobError(f"emit_many of {len(values)} values got {len(keys)} keys")
        if self._batch is None:
            if rows is not None:
                raise JobError("rows= names rows of a batch; here results come from the record or window in hand")
            for index, value in enumerate(values):
                self.emit(output, value, None if keys is None else keys[index], None)
            return
        declared = self._declared(output)
        if declared.route_by_key and (keys is None or None in keys):
            raise JobError(f"output {output!r} routes by key: emit_many needs keys=, none of them None")
        if rows is None and len(values) != len(self._batch):
            raise JobError(f"emit_many of {len(values)} values for {len(self._batch)} rows needs rows=")
        if rows is not None:
            rows = _checked(np.asarray(rows), len(values), len(self._batch))
        self._pieces.setdefault(output, []).append(_BatchOutputs(rows, _encode_column(declared.encode, values), keys))

    def count_filtered(self, rows: int) -> None:
        """As ``Context.count_filtered``."""
        self.filtered += self._countable("count_filtered", rows)

    def count_late(self, rows: int) -> None:
        """As ``Context.count_late``."""
        self.late += self._countable("count_late", rows)

    def _countable(self, what: str, rows: int) -> int:
        left = 0 if self._batch is None else len(self._batch) - self.filtered - self.late
        if self._batch is None or not 0 <= rows <= left:
            raise JobError(f"{what}({rows}): a batch function counts rows of its batch, each once; {left} are left")
        return rows

    def emit_nondeterministic(self, value: Any) -> None:
        run = self.runs.setdefault((UNSTABLE, self.partition), OutputRun())
        run.add(self.outputs[UNSTABLE].encode(value), b"", None)
        if self._in_record():
            self._record_runs.append(run)

    def _next(self, output: str) -> int:
        n = self._counts.get(output, 0)
        self._counts[output] = n + 1
        return n

    def emit_dead(self, value: Any, window: Window, step: str, key: Any, reason: str) -> None:
        """As ``Context.emit_dead``."""
        if self._stamp is not self._window_stamp:
            raise JobError("emit_dead belongs into an on_window handler; a record is dead where the function raises")
        n = self._next(DEAD)
        letter = row_letter(*self._place, window, n, value, step, key, reason)
        self._add(self._into, DEAD, letter, self._stamp(self.position, n), None)

    def divert(self, output: str, offsets: list[int], numbers: list[int], values: Sequence[bytes]) -> None:
        """Late or dead events, each the n-th of the record at its offset."""
        run = self.runs.setdefault((output, self.partition), OutputRun())
        run.extend(values, self._record_stamp.column(offsets, numbers), None)

    def _add(self, into: Runs, output: str, value: bytes, header: bytes, key: bytes | None) -> OutputRun:
        run = into.setdefault((output, self._route(output, key)), OutputRun())
        run.add(value, header, key)
        return run

    def _route(self, output: str, key: bytes | None) -> int:
        if not self.outputs[output].route_by_key or key is None:
            return self.partition
        return partition_of(key, self.partitions[output])

    def _declared(self, output: str) -> Output:
        """An output that the job's code may emit to."""
        declared = self.outputs.get(output)
        if declared is None or output in (LATE, DEAD, UNSTABLE):
            names = [name for name in self.outputs if name not in (LATE, DEAD, UNSTABLE)]
            raise JobError(
                f"emit to {output!r}, but the job's outputs are {', '.join(names) or 'none'}: "
                f"declare it with Job(output=...) or Job(side_outputs=...)"
            )
        return declared

    def lengths(self) -> dict[tuple[str, int], int]:
        """How much waits to be taken, by (output, output partition)."""
        return _lengths(self.runs)

    def cut_back(self, lengths: Mapping[tuple[str, int], int]) -> None:
        """Forget what was emitted beyond these lengths (a record's results are rolled back with it)."""
        self._record_at = _NOWHERE
        _cut_back(self.runs, lengths)

    # --- taking ---------------------------------------------------------------------------------------------------

    def take(self) -> dict[tuple[str, int], OutputRun]:
        """The outputs emitted since the last call, by (output, output partition)."""
        taken, self.runs = self.runs, {}
        self._into = self.runs
        return taken


def _lengths(runs: Runs) -> dict[tuple[str, int], int]:
    return {to: len(run) for to, run in runs.items()}


def _cut_back(runs: Runs, lengths: Mapping[tuple[str, int], int]) -> None:
    for to, run in runs.items():
        run.keep(lengths.get(to, 0))


def _encode_column(encode: Callable[[Any], bytes], values: Sequence[Any]) -> Sequence[bytes]:
    if encode is encode_json and isinstance(values, BinaryColumn):
        return values
    return encode_json_column(values) if encode is encode_json else [encode(value) for value in values]


def _numbers(positions: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """How many equal ones come before each of these ascending positions; None if all differ."""
    same = positions[1:] == positions[:-1]
    if not same.any():
        return None
    place = np.arange(len(positions))
    first = np.concatenate([[0], np.where(same, 0, place[1:])])
    return place - np.maximum.accumulate(first)


def _checked(rows: NDArray[Any], values: int, height: int) -> NDArray[np.intp]:
    """Rows of a batch of this height, one a value."""
    if len(rows) != values:
        raise JobError(f"emit_many of {values} values got {len(rows)} rows")
    if len(rows) and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= height):
        raise JobError(f"rows {rows.min()} to {rows.max()} of a batch of {height} rows: they are counted from 0")
    return rows.astype(np.intp, copy=False)
