"""The end of a bounded input: when it is declared, and what came after the one that was declared before."""

from __future__ import annotations

from holon.input_layout import InputPlace
from nodes.fleet.monitor import Monitor
from nodes.log.contract import Log
from nodes.machine.config import JobRun
from nodes.streams.jobs import declare_end

COUNTED = 100_000
"""So many offsets are checked one by one, as some may hold no record. In a longer input single ones do not matter."""


class Bounds:
    """Where the input ends now, and where its end was declared before. ``monitor`` was polled."""

    def __init__(self, log: Log, run: JobRun, monitor: Monitor) -> None:
        self._log = log
        self._run = run
        layout, partitions = run.layout, range(run.partitions)
        self.ends = [log.end_offset(*place) for place in layout.places()]
        """By partition, where the input ended when this was made."""
        declared = [monitor.ownership.end_offset(partition) for partition in partitions]
        self.declared = None not in declared
        self.unread: dict[int, int] = {}
        """By partition: records behind the end that was declared before; the job will not read them."""
        for partition, end in enumerate(declared):
            found = 0 if end is None else self._records(layout[partition].place, end, self.ends[partition])
            if found:
                self.unread[partition] = found

    def declare(self) -> None:
        """The input ends where it did when this was made. Of each partition the first word counts."""
        if not self.declared:
            declare_end(self._log, self._run, self.ends, reached=True)
            self.declared = True

    def _records(self, place: InputPlace, start: int, end: int) -> int:
        offset = max(start, self._log.start_offset(*place))
        if end - offset > COUNTED:
            return end - offset
        records = 0
        while offset < end and (chunk := self._log.read(*place, offset).before(end)).next_offset > offset:
            records, offset = records + len(chunk), chunk.next_offset
        return records


def unread_text(run: JobRun, unread: dict[int, int]) -> str:
    """The message about records that no node will read, and how to go on."""
    job, topics, name = run.job.name, ", ".join(run.job.topics), run.layout.name
    where = ", ".join(f"{count:,} in partition {name(partition)}" for partition, count in sorted(unread.items()))
    return (
        f"job {job!r} has read {topics} up to the end that was declared before; {sum(unread.values()):,} records "
        f"behind it are unread ({where}). --continue goes on with them from there; --reset starts anew"
    )
