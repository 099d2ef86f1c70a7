"""The options of a benchmark run, checked before anything starts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from holon import Job
from nexmark.flows import FLOWS, nexmark_flow
from nexmark.queries import QUERIES, nexmark_job
from nodes.api import SettingsError, UnknownName

Generator = Literal["auto", "spark", "plain"]
Validator = Literal["auto", "spark", "plain"]
RecordFormat = Literal["json", "arrow"]
"""One event a record in JSON, or atoms: batches of events as Arrow IPC streams."""

Api = Literal["procedural", "dataflow"]
"""A query as a processing function, or as a flow."""

TITLES = {name: query.title for name, query in (FLOWS | QUERIES).items()}
"""All queries: those of either form."""
NOT_YET = tuple(f"q{n}" for n in range(23) if f"q{n}" not in TITLES)
_KILL = re.compile(r"(\d+)@(0?\.\d+|1\.0*|[01])")


@dataclass(frozen=True, slots=True)
class Kill:
    """``kill -9`` of a node once the fleet has consumed this share of the input."""

    node: int
    fraction: float


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run. ``rate`` (events a second of real time) is None where the whole input is there before the start.

    ``dirty``: so many corrupt, late and future records each are added to every partition. ``api`` None: that of
    ``default_api``.
    """

    query: str
    events: int = 1_000_000
    rate: int | None = None
    partitions: int = 8
    nodes: int = 2
    kills: tuple[Kill, ...] = ()
    restart_after_s: float | None = None
    seed: int = 0
    generator: Generator = "auto"
    validator: Validator | None = None
    dirty: int = 0
    max_future_skew_ms: int | None = None
    format: RecordFormat = "json"
    api: Api | None = None

    def __post_init__(self) -> None:
        check_query(self.query, self.form)
        for name, least in (("events", 1), ("partitions", 1), ("nodes", 1)):
            if getattr(self, name) < least:
                raise SettingsError(f"--{name} must be at least {least}, got {getattr(self, name)}")
        if self.format == "arrow" and self.rate is not None:
            raise SettingsError("--format arrow with --rate: an atom is many events at once, so give --events")
        for kill in self.kills:
            if kill.node >= self.nodes:
                raise SettingsError(f"--kill {kill.node}@{kill.fraction}: nodes count from 0 to {self.nodes - 1}")
        if len({kill.node for kill in self.kills}) >= self.nodes and self.restart_after_s is None:
            raise SettingsError("--kill of every node needs --restart-after, or no node is left to finish")

    @property
    def form(self) -> Api:
        """The form of the query that runs."""
        return default_api(self.query) if self.api is None else self.api

    @property
    def job_reference(self) -> str:
        """The job that node processes load."""
        options = "&".join(f"{name}={value}" for name, value in self.job_options.items())
        module = "nexmark.queries" if self.form == "procedural" else "nexmark.flows"
        return f"{module}:{self.query}" + (f"?{options}" if options else "")

    def job(self) -> Job:
        """The same job."""
        if self.form == "procedural":
            return nexmark_job(self.query, **self.job_options)
        return nexmark_flow(self.query, **self.job_options).job

    @property
    def job_options(self) -> dict[str, int]:
        """Arguments of ``nexmark_job`` and ``nexmark_flow``."""
        guard = {} if self.max_future_skew_ms is None else {"max_future_skew_ms": self.max_future_skew_ms}
        return guard | ({"atoms": 1} if self.format == "arrow" else {})


def default_api(query: str) -> Api:
    """The flow of a query, where there is one: each is about as fast as the processing function."""
    return "dataflow" if query in FLOWS else "procedural"


def check_query(query: str, api: Api) -> None:
    """Raises ``UnknownName`` with the nearest names, or reports that a query of the benchmark is not there yet.

    Raises ``SettingsError`` for one that is there in the other form only.
    """
    if query in NOT_YET:
        raise UnknownName("implementation of query", f"{query} (yet)", TITLES)
    if query not in TITLES:
        raise UnknownName("query", query, [*TITLES])
    if api == "procedural" and query not in QUERIES:
        raise SettingsError(f"{query} is there as a flow only: leave --api procedural out")
    if api == "dataflow" and query not in FLOWS:
        raise SettingsError(f"{query} is no flow yet: leave --api dataflow out")


def parse_kill(text: str) -> Kill:
    """``NODE@FRACTION``, e.g. ``1@0.5``."""
    match = _KILL.fullmatch(text)
    if match is None:
        raise SettingsError(f"--kill {text}: expected NODE@FRACTION, e.g. 1@0.5 (fraction between 0 and 1)")
    return Kill(int(match[1]), float(match[2]))
