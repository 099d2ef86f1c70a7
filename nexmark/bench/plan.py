"""The options of a comparison, checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from nexmark.runs.plan import Generator, RecordFormat
from nodes.api import SettingsError, UnknownName

QUERIES = ("q0", "q1", "q2", "q4", "q5", "q7", "q7max", "q8")
PYTHON_PEERS: dict[str, tuple[str, str, bool]] = {
    "bytewax": ("bytewax", "folded", True),
    "bytewax-windows": ("bytewax", "windows", True),
    "pathway": ("pathway", "", False),
}
"""Peers in Python: whose environment, its style, and whether its workers are processes (or threads of one)."""
PYTHON_QUERIES = ("q7max",)
"""Queries that peers in Python are measured on."""
COLLECTORS = ("G1", "Parallel")
"""Of Java, for Flink's task manager. Its own scripts choose the first."""
ENGINES = ("holon", "flink", *PYTHON_PEERS)
CHECKPOINTED = ("q0", "q4", "q7max")
"""Queries that are also measured against a peer with checkpoints."""
CHECKPOINTS_S = 1.0
"""Between checkpoints, where there are any."""

BROKER_WARMUP_S = 20.0
"""Traffic of no engine before the first one runs."""

Sink = Literal["none", "kafka"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of the comparison for each engine.

    ``checkpoints``: of the peer; Holon always makes them.
    """

    query: str
    sink: Sink = "none"
    checkpoints: bool = False

    @property
    def key(self) -> str:
        """Its name among the ratios."""
        return self.query + (":kafka" if self.sink == "kafka" else "") + (":checkpoints" if self.checkpoints else "")


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """``pairs``: how often each engine runs, in turn. ``cores``: which ones everything is pinned to (empty: all)."""

    engines: tuple[str, ...] = ("holon", "flink")
    queries: tuple[str, ...] = QUERIES
    events: int = 4_000_000
    partitions: int = 4
    nodes: int = 2
    pairs: int = 3
    memory_mb: int = 8192
    seed: int = 0
    cores: tuple[int, ...] = ()
    generator: Generator = "auto"
    checks: bool = True
    collector: str = COLLECTORS[0]
    broker_warmup_s: float = BROKER_WARMUP_S
    format: RecordFormat = "json"

    def __post_init__(self) -> None:
        for engine in self.engines:
            if engine not in ENGINES:
                raise UnknownName("engine", engine, ENGINES)
        for query in self.queries:
            if query not in QUERIES:
                raise UnknownName("query of the comparison", query, QUERIES)
        if self.collector not in COLLECTORS:
            raise UnknownName("garbage collector", self.collector, COLLECTORS)
        for name in ("events", "partitions", "nodes", "pairs", "memory_mb"):
            if getattr(self, name) < 1:
                raise SettingsError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")
        if self.format not in get_args(RecordFormat):
            raise UnknownName("format", self.format, get_args(RecordFormat))
        if self.format == "arrow" and set(self.engines) != {"holon"}:
            raise SettingsError("--format arrow needs --engines holon: the peers read one JSON event a record")
        if not self.broker_warmup_s >= 0:
            raise SettingsError(f"--broker-warmup must be at least 0 (seconds), got {self.broker_warmup_s}")
        if not self.engines or not self.queries:
            raise SettingsError("nothing to measure: name engines and queries")

    @property
    def variants(self) -> list[Variant]:
        """Every query to nowhere; q0 also with its output; q4 and q7max also against a peer with checkpoints."""
        found = [Variant(query) for query in self.queries]
        found += [Variant(query, "kafka") for query in self.queries if query == "q0"]
        if "flink" in self.engines:
            found += [Variant(query, checkpoints=True) for query in self.queries if query in CHECKPOINTED]
        return found


def listed(text: str) -> tuple[str, ...]:
    """The names of a list with commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def cores_of(text: str | None) -> tuple[int, ...]:
    """Numbers of cores from ``0,1``; empty for None."""
    if text is None:
        return ()
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise SettingsError(f"--cores {text}: expected numbers of cores, e.g. 0,1") from error
