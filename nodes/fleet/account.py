"""The account of a run: what became of every record, how many results there are, and whether the numbers add up."""

from __future__ import annotations

from enum import Enum

import msgspec

from holon.job import DEAD, LATE, UNSTABLE, Job
from nodes.fleet.held_frontier import held_frontier
from nodes.fleet.monitor import Monitor
from nodes.fleet.watermarks import Watermarks
from nodes.log.contract import Log
from nodes.machine.config import JobRun
from nodes.machine.workload import SLOW_RECORDS
from nodes.results.dead_letters import dead_letters
from nodes.results.reader import OutputReader
from nodes.streams.held_frontier import HeldFrontier

SHOWN_REASON = 500


class RunEnding(Enum):
    """Why a run is over."""

    DONE = "done"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class RunAccount(msgspec.Struct, kw_only=True):
    """The account of a run. Counts are those of the job's whole incarnation; steals, suppressed, restarts of this run.

    ``taken``: records of the input up to the checkpoints, by the log's offsets. ``outputs``: results on the output
    topics, each once, without late and dead letters. ``late_inserts``, ``late_by_state``: see ``AdmissionCounts``.
    ``metrics_ports``: the port at which each node served its metrics.
    ``frontier_held``: the partitions that windows have waited for, if none was completed in the last seconds.
    ``first_dead``: partition, offset and reason of the first dead letter of the lowest partition that has one.
    ``dead_rows``: dead letters about complete windows: of rows behind them, and of handlers that raised.
    ``unread``: by partition, records behind the end of the input that was declared before this run.
    ``slow_records``: records that compiled loops left to msgspec, counted by each node that has decoded them.
    """

    job: str
    incarnation: int
    nodes: int
    partitions: int
    outputs: int
    accepted: int
    filtered: int
    late: int
    dead: int
    duplicates: int
    late_inserts: int = 0
    late_by_state: dict[str, int] = {}
    taken: int
    conserved: bool
    steals: int
    ending: RunEnding
    wall_s: float
    suppressed: int = 0
    slow_records: int = 0
    repeats_dropped: int = 0
    restarts: int = 0
    already_done: bool = False
    error: str | None = None
    outputs_by_topic: dict[str, int] = {}
    metrics_ports: dict[int, int] = {}
    unread: dict[int, int] = {}
    first_dead: str | None = None
    dead_rows: int = 0
    frontier_held: HeldFrontier | None = None

    @property
    def all_dead(self) -> bool:
        """True if there was input, and nothing of it could be used."""
        return self.dead > 0 and not (self.accepted or self.filtered or self.late)


def account(
    log: Log, run: JobRun, monitor: Monitor, nodes: int, ending: RunEnding, wall_s: float, restarts: int = 0
) -> RunAccount:
    """The counts of the run, and whether the conservation identity holds on the log."""
    monitor.poll()
    counts, conserved = monitor.counts(), monitor.conserved()
    outputs, duplicates = count_outputs(log, run)
    dead_rows = count_dead_rows(log, run.job)
    return RunAccount(
        job=run.job.name,
        incarnation=run.incarnation,
        nodes=nodes,
        partitions=run.partitions,
        outputs=sum(outputs.values()),
        outputs_by_topic=outputs,
        repeats_dropped=duplicates,
        accepted=counts.accepted,
        filtered=counts.filtered,
        late=counts.late,
        dead=counts.dead,
        duplicates=counts.duplicates,
        late_inserts=counts.late_inserts,
        late_by_state=counts.late_by_state,
        # Where the log has offsets without records, and the account holds, the records are those that were counted.
        taken=counts.taken if conserved else sum(monitor.taken()),
        conserved=conserved,
        steals=monitor.steals,
        suppressed=sum(int(view.stats.get("suppressed", 0)) for view in monitor.nodes.values()),
        slow_records=sum(int(view.stats.get(SLOW_RECORDS, 0)) for view in monitor.nodes.values()),
        metrics_ports=monitor.metrics_ports(),
        restarts=restarts,
        ending=ending,
        wall_s=round(wall_s, 3),
        error=monitor.failure,
        first_dead=first_dead(log, run.job) if counts.dead or dead_rows else None,
        dead_rows=dead_rows,
        frontier_held=None if monitor.done else held_frontier(monitor, Watermarks(monitor).read()),
    )


def first_dead(log: Log, job: Job) -> str | None:
    """Place and reason of a dead letter, for people."""
    letter = next(dead_letters(log, job), None)
    if letter is None:
        return None
    at = f"window {letter.window}, {letter.step}" if letter.is_row else f"offset {letter.offset}"
    return f"{letter.topic}[{letter.partition}] {at}: {letter.reason[:SHOWN_REASON]}"


def count_dead_rows(log: Log, job: Job) -> int:
    """Rows behind windows at which functions failed: they are no records, so the account has them apart."""
    if job.on_error == "fail" or not job.program.handlers:
        return 0
    return sum(letter.is_row for letter in dead_letters(log, job))


def count_outputs(log: Log, run: JobRun) -> tuple[dict[str, int], int]:
    """Results by topic, each once, as the reader gives them; and how many duplicates it dropped."""
    found: dict[str, int] = {}
    duplicates = 0
    for name, output in run.job.outputs.items():
        if name in (LATE, DEAD, UNSTABLE):
            continue
        reader = OutputReader(log, output.topic, without_identity="pass")
        ours = (run.job.name, run.origin)
        found[output.topic] = sum(
            o.identity is not None and (o.identity.job, o.identity.incarnation) == ours for o in reader.read_available()
        )
        duplicates += reader.repeats_dropped
    return found, duplicates
