"""Is the node alive, and is it ready? Pure answers from its figures; the server gives them over HTTP."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.metrics.figures import MetricFigures


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """How long a loop may not turn, how long the log may be silent, and what lag of the input counts as caught up."""

    turn_s: float
    log_s: float
    lag_s: float


@dataclass(frozen=True, slots=True)
class Health:
    """``problems`` is empty where all is well."""

    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


def live(stuck_s: float, limits: HealthLimits) -> Health:
    """The process's loop turns. ``stuck_s``: time without a turn in which the job's code did not get on either."""
    if stuck_s < limits.turn_s:
        return Health()
    return Health((f"the node's loop has not turned for {stuck_s:.1f} s",))


def ready(alive: Health, figures: MetricFigures, log_silent_s: float, limits: HealthLimits) -> Health:
    """Alive, without problems, joined, its partitions loaded, caught up with the input, and the log answers."""
    problems = [*alive.problems, *figures.problems]
    if not figures.joined:
        problems.append("the node has not joined the job")
    if figures.loading:
        problems.append(f"partitions {', '.join(map(str, figures.loading))} are being loaded")
    if figures.lag_s >= limits.lag_s:
        problems.append(f"the input is {figures.lag_s:.1f} s behind")
    if log_silent_s >= limits.log_s:
        problems.append(f"the log has not acknowledged anything for {log_silent_s:.1f} s")
    return Health(tuple(problems))
