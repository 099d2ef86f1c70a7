"""One failure scenario on one or more engines: each runs without failures and with them, on the same broker."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nexmark.flink.home import flink_home
from nexmark.flink.profiles import FlinkProfile
from nexmark.latency.flink import FlinkMeasured, measure_flink
from nexmark.latency.measure import LatencyOutcome, Report, measure
from nexmark.latency.plan import LatencyPlan
from nexmark.latency.report import FailoverRow, as_text, failover_row
from nexmark.latency.run_log import MeasurementBroker, measuring_place
from nodes.api import MissingDependency, RunFailed, Settings, Unreachable


@dataclass(slots=True)
class Done:
    """A row for each engine (and each way in which a peer is set up); ``runs``: those with failures, for the plot."""

    rows: list[FailoverRow] = field(default_factory=list)
    runs: list[tuple[str, LatencyOutcome]] = field(default_factory=list)
    baselines: list[LatencyOutcome] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """A peer's runs that have no row, with the reason; the others are measured all the same."""

    @property
    def baseline(self) -> LatencyOutcome:
        """The first engine's."""
        return self.baselines[0]

    @property
    def baseline_differences(self) -> int:
        """Of all runs without failures."""
        return sum(baseline.differences for baseline in self.baselines)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario by name: the plan without its failures, and with them."""

    name: str
    healthy: LatencyPlan
    failing: LatencyPlan
    log: str

    def run(
        self,
        engines: Sequence[str],
        profiles: Sequence[FlinkProfile],
        bootstrap: str | None,
        load: Callable[[list[str]], Settings],
        report: Report,
    ) -> Done:
        """Engines one after the other; a peer that cannot run here is left out, with its reason."""
        done = Done()
        with measuring_place(self.log, bootstrap, report) as place:
            settings = load(place.definitions)
            for engine in engines:
                if engine == "holon":
                    self._holon(done, settings, report, place)
                    continue
                try:
                    flink_home()
                except (MissingDependency, Unreachable) as error:
                    report(f"{engine} is left out: {error}")
                    done.missing[engine] = str(error)
                    continue
                self._profiles(done, profiles, settings, report, place)
        return done

    def _profiles(
        self, done: Done, profiles: Sequence[FlinkProfile], settings: Settings, report: Report, place: MeasurementBroker
    ) -> None:
        """Ways to set Flink up that differ in what is to spare share the run without failures, which needs nothing to
        spare."""
        healthy: dict[str, LatencyOutcome] = {}
        for profile in profiles:
            try:
                with tempfile.TemporaryDirectory(prefix="holon-flink-") as folder:
                    self._flink(done, profile, healthy, _Flink(settings, Path(folder), report, place.broker))
            except (RunFailed, Unreachable) as error:
                report(f"flink {profile.title} has failed: {error}")
                done.failed[f"flink {profile.title}"] = str(error)

    def _holon(self, done: Done, settings: Settings, report: Report, place: MeasurementBroker) -> None:
        baseline, measured = (measure(plan, settings, report, place.broker) for plan in (self.healthy, self.failing))
        done.rows.append(failover_row(measured, baseline, self.log, self.name))
        report(as_text(done.rows[-1]))
        done.runs.append((f"holon, {self.name}", measured))
        done.baselines.append(baseline)

    def _flink(self, done: Done, profile: FlinkProfile, healthy: dict[str, LatencyOutcome], flink: _Flink) -> None:
        baseline = healthy.get(profile.name)
        if baseline is None:
            baseline = healthy[profile.name] = flink.run(self.healthy, profile).measured
            done.baselines.append(baseline)
        failed = flink.run(self.failing, profile)
        row = failover_row(
            failed.measured, baseline, self.log, self.name, engine="flink", profile=profile.title,
            unfinished=failed.unfinished,
        )  # fmt: skip
        done.rows.append(row)
        flink.report(as_text(row))
        done.runs.append((f"flink {profile.title}, {self.name}", failed.measured))


@dataclass(frozen=True, slots=True)
class _Flink:
    """The requirements of each of its runs."""

    settings: Settings
    folder: Path
    report: Report
    broker: int | None

    def run(self, plan: LatencyPlan, profile: FlinkProfile) -> FlinkMeasured:
        return measure_flink(plan, profile, self.settings, self.folder, self.report, self.broker)
