"""Everything that one seed decides before the run begins: the job, the fleet, the input and the rates of faults."""

from __future__ import annotations

from dataclasses import asdict, dataclass

ISOLATIONS = ("whole", "appends", "control", "heartbeats")
"""A node that only reads nothing is not here: its heartbeats arrive, and it counts as alive."""


TRUNCATIONS = ("input", "output", "broadcast", "control")


@dataclass(frozen=True, slots=True)
class Faults:
    """Rates are chances for one occasion: a turn, an append, a read, a save. 0 switches a fault off.

    ``churn_ms``: so often one node leaves or dies and another one joins. ``kill_promoted``: of a node that has taken a
    partition over. ``pressure``: of a spell in which the turns of some nodes take 0.1 to 5 s each.
    ``full``: of one in which the log has no room for what one node writes, or any.
    """

    crash_at_point: float = 0.0
    crash_all: float = 0.0
    restart: float = 0.0
    join: float = 0.0
    stop_one: float = 0.0
    pause: float = 0.0
    preempt: float = 0.0
    preempt_max_ms: int = 0
    clock_jump: float = 0.0
    clock_rates: bool = False
    stale_reads: float = 0.0
    cut: float = 0.0
    churn_ms: int = 0
    refuse: float = 0.0
    ack_lost: float = 0.0
    delta_lost: float = 0.0
    delta_repeated: float = 0.0
    delta_swapped: float = 0.0
    delta_corrupt: float = 0.0
    delta_rotten: float = 0.0
    checkpoint_damaged: float = 0.0
    checkpoints_lost: float = 0.0
    store_unavailable: float = 0.0
    stop_all: float = 0.0
    reset: float = 0.0
    kill_one: float = 0.0
    kill_promoted: float = 0.0
    pressure: float = 0.0
    full: float = 0.0


@dataclass(frozen=True, slots=True)
class Options:
    """One run. Times in virtual ms, event times in ms.

    ``arrival``: the chance of all that was sent to a partition of the log to be there at the sender's next turn.
    ``truncation``: what loses its end once, at ``truncation_ms``, while nodes run or while none does.
    ``upstream``: the input is another job's output, and so much of it was written again or before that job's reset.
    ``isolation``: how one node is cut off while nothing else happens; empty where anything may happen.
    ``idle_timeout_ms`` 0: as long as a suspicion. ``starved``: the chance of a turn to take up to 5 s.
    ``continued``: so often the job goes on behind the end of its input; ``continued_early``: while nodes are still
    there; ``bounded``: nodes know the end before it is declared, and records come behind it at once.
    ``most_parts``: so many checkpoints in a row hold what has changed (0: none); ``parts_pause`` whole ones follow one
    that is large. ``code_changes``: the chance of a step to meet other code of the job. ``registry``: records name
    schemas of a registry, so many of them one that is registered late or never.
    ``waiting_bytes``: of contributions, by the node's number, and again from the first on; (): the same for all nodes.
    ``columns_in_memory``: bytes of columns that are in no file; None: no column is. ``columns_disk_full``: the chance
    of a column to find no room there.
    ``fewest_rows``: of a run that goes by columns, by the node's number alike (0: none does); (): none on any node.
    """

    seed: int
    case: str
    nodes: int
    max_nodes: int
    partitions: int
    output_partitions: int
    records: int
    empty_partitions: int
    poison: float
    late: float
    future: float
    marked: float
    keys: int
    window_ms: int
    spread_ms: int
    delay_ms: int
    feed_ms: int
    preloaded: float
    batch_max_records: int
    heartbeat_interval_ms: int
    failure_timeout_ms: int
    broadcast_interval_ms: int
    checkpoint_interval_ms: int
    max_watermark_drift_ms: int
    tick_ms: int
    safety_ms: int
    same_names: bool
    faults: Faults
    arrival: float = 1.0
    isolation: str = ""
    truncation: str = ""
    truncation_ms: int = 0
    truncation_alive: bool = False
    merged_checkpoint_interval_ms: int = 0
    trims: bool = False
    forget_after_ms: int = 60_000
    group_heartbeats_above: int = 32
    replicas: int = 1
    standby_after_ms: int = 30
    load_ms: int = 0
    save_ms: int = 0
    idle_timeout_ms: int = 0
    record_cost_ms: float = 0.0
    starved: float = 0.0
    upstream: float = 0.0
    continued: int = 0
    continued_early: bool = False
    bounded: bool = False
    code_changes: float = 0.0
    most_parts: int = 0
    parts_pause: int = 0
    registry: float = 0.0
    waiting_bytes: tuple[int, ...] = ()
    fewest_rows: tuple[int, ...] = ()
    columns_in_memory: int | None = None
    columns_disk_full: float = 0.0

    def describe(self) -> dict[str, object]:
        """All that was drawn; what is switched off is left out."""
        shown = asdict(self)
        shown["faults"] = {name: rate for name, rate in shown["faults"].items() if rate}
        return shown
