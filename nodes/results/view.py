"""Results of completed windows: what a view keeps of an output topic, whatever it is kept in.

Two rules for this file. The content of a view does not depend on the order in which results come, nor on how often. A
window is either kept whole or dropped whole.

A result is found by window end and key. Where several outputs of one window have the same key, the last one counts: by
n, then by source partition (identities grow along these).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from holon.outputs.identity import Track
from nodes.results.reader import Output


class ViewResult(NamedTuple):
    """One result; ``field`` is the record's key, or ``#PARTITION.N`` of its identity where it has none."""

    job: str
    incarnation: int
    end_ms: int
    field: bytes
    n: int
    partition: int
    value: bytes


class WindowResults(NamedTuple):
    """One completed window of a job: field -> payload, in the order of the fields."""

    job: str
    incarnation: int
    end_ms: int
    results: dict[bytes, bytes]


def result_of(output: Output[bytes]) -> ViewResult | None:
    """None for what no window gave: outputs of single records, and records of others."""
    identity = output.identity
    if identity is None or identity.track is not Track.WINDOW:
        return None
    at = output.key if output.key is not None else b"#%d.%d" % (identity.partition, identity.n)
    return ViewResult(
        identity.job, identity.incarnation, identity.position, at, identity.n, identity.partition, output.value
    )


class WindowTable:
    """A view in memory: of each job's newest incarnation, the newest ``keep_windows`` windows."""

    def __init__(self, keep_windows: int) -> None:
        assert keep_windows > 0
        self._keep = keep_windows
        self._jobs: dict[str, _Job] = {}

    def add(self, result: ViewResult) -> bool:
        """True if that changed anything."""
        job = self._jobs.get(result.job)
        if job is None or result.incarnation > job.incarnation:
            job = self._jobs[result.job] = _Job(result.incarnation)
        elif result.incarnation < job.incarnation:
            return False
        if job.floor_ms is not None and result.end_ms <= job.floor_ms:
            return False
        window = job.windows.setdefault(result.end_ms, {})
        known = window.get(result.field)
        if known is not None and (known.n, known.partition) >= (result.n, result.partition):
            return False
        window[result.field] = result
        if len(job.windows) > self._keep:
            job.floor_ms = min(job.windows)
            del job.windows[job.floor_ms]
        return True

    def newest(self, count: int) -> list[WindowResults]:
        """The newest windows of each job, oldest first."""
        found: list[WindowResults] = []
        for name, job in sorted(self._jobs.items()):
            for end_ms, window in sorted(job.windows.items())[-count:]:
                values = {field: result.value for field, result in sorted(window.items())}
                found.append(WindowResults(name, job.incarnation, end_ms, values))
        return found


@dataclass(slots=True)
class _Job:
    """One incarnation of a job; ``floor_ms`` is the newest window end that was dropped."""

    incarnation: int
    windows: dict[int, dict[bytes, ViewResult]] = field(default_factory=dict)
    floor_ms: int | None = None
