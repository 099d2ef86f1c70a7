"""One failure scenario on one or more engines: each runs without failures and with them, on the same broker."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nexmark.flink.home import flink_home
from nexmark.flink.profiles import Profile
from nexmark.latency.flink import measure_flink
from nexmark.latency.measure import Measured, Say, measure
from nexmark.latency.place import Place, measuring_place
from nexmark.latency.plan import Plan
from nexmark.latency.report import FailoverRow, failover_row
from nodes.api import MissingDependency, Settings, Unreachable


@dataclass(slots=True)
class Done:
    """A row for each engine (and each way in which a peer is set up); ``runs``: those with failures, for the plot."""

    rows: list[FailoverRow] = field(default_factory=list)
    runs: list[tuple[str, Measured]] = field(default_factory=list)
    baselines: list[Measured] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def baseline(self) -> Measured:
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
    healthy: Plan
    failing: Plan
    log: str

    def run(
        self,
        engines: Sequence[str],
        profiles: Sequence[Profile],
        bootstrap: str | None,
        load: Callable[[list[str]], Settings],
        say: Say,
    ) -> Done:
        """Engines one after the other; a peer that cannot run here is left out, with its reason."""
        done = Done()
        with measuring_place(self.log, bootstrap, say) as place:
            settings = load(place.definitions)
            for engine in engines:
                if engine == "holon":
                    self._holon(done, settings, say, place)
                    continue
                try:
                    flink_home()
                except (MissingDependency, Unreachable) as error:
                    say(f"{engine} is left out: {error}")
                    done.missing[engine] = str(error)
                    continue
                for profile in profiles:
                    self._flink(done, profile, settings, say, place)
        return done

    def _holon(self, done: Done, settings: Settings, say: Say, place: Place) -> None:
        baseline, measured = (measure(plan, settings, say, place.broker) for plan in (self.healthy, self.failing))
        done.rows.append(failover_row(measured, baseline, self.log, self.name))
        done.runs.append((f"holon, {self.name}", measured))
        done.baselines.append(baseline)

    def _flink(self, done: Done, profile: Profile, settings: Settings, say: Say, place: Place) -> None:
        with tempfile.TemporaryDirectory(prefix="holon-flink-") as folder:
            baseline, failed = (
                measure_flink(plan, profile, settings, Path(folder), say, place.broker)
                for plan in (self.healthy, self.failing)
            )
        row = failover_row(
            failed.measured, baseline.measured, self.log, self.name, engine="flink", profile=profile.title,
            unfinished=failed.unfinished,
        )  # fmt: skip
        done.rows.append(row)
        done.runs.append((f"flink {profile.title}, {self.name}", failed.measured))
        done.baselines.append(baseline.measured)
