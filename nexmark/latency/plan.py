"""The options of a measurement of latency, checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodes.api import SettingsError, UnknownName

QUERIES = ("q7max", "query1")
KILL_AT = 0.3
"""Share of the measured time after which the first node is killed."""
SCENARIOS = ("single", "concurrent", "subsequent", "crash")
RESTART_AFTER_S = 10.0
SUBSEQUENT_S = 4.0
"""The paper's second failure comes within 5 s of the first (Holon, section 5.2)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """``kill -9`` of nodes so many seconds into the measured time; they start again, or (None) never."""

    at_s: float
    nodes: tuple[int, ...]
    restart_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """One run at a steady rate (events a second). ``warmup_s`` comes before ``seconds`` and is not measured."""

    query: str
    rate: int
    seconds: float
    nodes: int = 3
    replicas: int = 1
    window_ms: int = 100
    partitions: int = 6
    warmup_s: float = 5.0
    seed: int = 0
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        if self.query not in QUERIES:
            raise UnknownName("windowed query", self.query, QUERIES)
        for name in ("rate", "seconds", "nodes", "replicas", "window_ms", "partitions"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} must be above 0, got {getattr(self, name)}")
        if self.replicas > self.nodes:
            raise SettingsError(f"--replicas {self.replicas}: {self.nodes} nodes cannot keep so many replicas")
        if self.warmup_s < 0:
            raise SettingsError(f"--warmup {self.warmup_s} must not be below 0")
        for fault in self.faults:
            if max(fault.nodes) >= self.nodes or len(fault.nodes) >= self.nodes:
                raise SettingsError(f"--nodes {self.nodes} are too few: {len(fault.nodes)} of them are to be killed")
            if fault.at_s >= self.seconds:
                raise SettingsError(f"--seconds {self.seconds} are over before a kill after {fault.at_s:.1f} s")

    @property
    def events(self) -> int:
        """All of them, warm-up included."""
        return max(1, int(self.rate * (self.warmup_s + self.seconds)))

    def reference(self, run: int) -> str:
        """The job that node processes load."""
        return f"nexmark.latency.jobs:{self.query}?window_ms={self.window_ms}&run={run}"


def with_scenario(plan: LatencyPlan, scenario: str) -> LatencyPlan:
    """The plan with its failures: those of the paper's section 5.2, or a single kill."""
    if scenario not in SCENARIOS:
        raise UnknownName("scenario", scenario, SCENARIOS)
    first_s = plan.seconds * KILL_AT
    faults = {
        "single": (Fault(first_s, (1,)),),
        "concurrent": (Fault(first_s, (1, 2), RESTART_AFTER_S),),
        "subsequent": (
            Fault(first_s, (1,), RESTART_AFTER_S),
            Fault(first_s + SUBSEQUENT_S, (2,), RESTART_AFTER_S),
        ),
        "crash": (Fault(first_s, (1, 2)),),
    }[scenario]
    return replace(plan, faults=faults)
