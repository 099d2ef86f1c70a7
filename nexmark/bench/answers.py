"""The rows of a topic of results, read as columns: millions of them in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from holon.outputs.identity import OutputId
from nodes.api import Log, OutputReader, Settings, open_job_log, use_columns
from nodes.log.contract import FetchedRecords

_PLACE = np.dtype([("version", "u1"), ("incarnation", ">u4"), ("partition", ">u4"), ("track", "u1"),
                   ("position", ">i8"), ("n", ">u4")])  # fmt: skip
"""An identity's fixed part, as ``holon/outputs/identity.py`` lays it out; the job's name follows."""
_Ends = dict[tuple[int, int], tuple[int, int]]
"""Of each source partition and track the last position and n."""


@contextmanager
def open_columns(settings: Settings) -> Iterator[Log]:
    """The settings' log, read as columns where that is possible here."""
    with open_job_log(settings) as log:
        use_columns(log)
        yield log


def plain_rows(log: Log, topic: str) -> list[bytes]:
    """All values, partition by partition."""
    return [value for partition in range(log.partitions(topic)) for chunk in chunks(log, topic, partition)
            for value in chunk.values]  # fmt: skip


def last_rows(log: Log, topic: str) -> list[bytes]:
    """Of a changelog the last value of each key that was not deleted. Raises ``ValueError`` where there is no key."""
    keyed: dict[bytes | None, bytes] = {}
    for partition in range(log.partitions(topic)):
        for chunk in chunks(log, topic, partition):
            if chunk.keys is None or None in chunk.keys:
                raise ValueError(f"{topic}[{partition}] before offset {chunk.next_offset}: a row without a key")
            keyed.update(zip(chunk.keys, chunk.values, strict=True))
    return [row for row in keyed.values() if row]


def once_rows(log: Log, topic: str) -> list[bytes]:
    """The records that ``OutputReader`` gives of a job's output.

    Where every identity is a new one that is all there is.
    """
    rows: list[bytes] = []
    jobs: set[bytes] = set()
    for partition in range(log.partitions(topic)):
        ends: _Ends = {}
        for chunk in chunks(log, topic, partition):
            if not _all_new(chunk.headers, ends, jobs):
                return [output.value for output in OutputReader(log, topic).read_available()]
            rows += chunk.values
    return rows


def chunks(log: Log, topic: str, partition: int) -> Iterator[FetchedRecords]:
    """The records of a partition now, without empty chunks."""
    offset, end = log.start_offset(topic, partition), log.end_offset(topic, partition)
    while offset < end:
        chunk = log.read(topic, partition, offset).before(end)
        if len(chunk):
            yield chunk
        offset = chunk.next_offset


def _all_new(headers: list[bytes], ends: _Ends, jobs: set[bytes]) -> bool:
    """Whether these are of one incarnation of one job and ascend in each sequence; False where more has to be read."""
    width, count = len(headers[0]), len(headers)
    joined = b"".join(headers)
    if width < _PLACE.itemsize or len(joined) != width * count or set(map(len, headers)) != {width}:
        return False
    cells = np.frombuffer(joined, np.uint8).reshape(count, width)
    if not (
        (cells[:, :5] == cells[0, :5]).all() and (cells[:, _PLACE.itemsize :] == cells[0, _PLACE.itemsize :]).all()
    ):
        return False
    first = OutputId.from_bytes(headers[0])  # raises where there is none
    jobs.add(headers[0][:5] + first.job.encode())
    places = np.ascontiguousarray(cells[:, : _PLACE.itemsize]).view(_PLACE).ravel()
    sequences = places["partition"].astype(np.int64) * 256 + places["track"]
    return len(jobs) == 1 and all(
        _ascends(places[sequences == which], ends) for which in np.unique(sequences).tolist()
    )  # fmt: skip


def _ascends(places: NDArray[np.void], ends: _Ends) -> bool:
    positions, numbers = places["position"].astype(np.int64), places["n"].astype(np.int64)
    sequence = int(places["partition"][0]), int(places["track"][0])
    first, last = (int(positions[0]), int(numbers[0])), (int(positions[-1]), int(numbers[-1]))
    before, ends[sequence] = ends.get(sequence), last
    later = (positions[1:] > positions[:-1]) | ((positions[1:] == positions[:-1]) & (numbers[1:] > numbers[:-1]))
    return bool(later.all()) and (before is None or first > before)
