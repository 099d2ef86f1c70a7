"""Pictures of latency over time, by matplotlib (extra ``plots``)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from nexmark.latency.measure import LatencyOutcome
from nexmark.pictures import picture
from nodes.api import MissingDependency, SettingsError

KINDS = (".png", ".svg", ".pdf")


def check_plot(path: Path | None) -> None:
    """Before a run of a minute: whether a picture could be drawn there."""
    if path is None:
        return
    if path.suffix not in KINDS:
        raise SettingsError(f"--plot {path}: the name must end in one of {', '.join(KINDS)}")
    if not path.absolute().parent.is_dir():
        raise SettingsError(f"--plot {path}: there is no folder {path.absolute().parent}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"--plot needs the package matplotlib ({error}); install it: pip install 'holon-streams[plots]'"
        ) from error


def plot_latency(path: Path, measured: LatencyOutcome) -> None:
    """Each result over time, and their distribution."""
    with _axes(path, 2) as (figure, (over_time, distribution)):
        _scatter(over_time, measured, "results")
        values = sorted(measured.found.delays_ms.tolist())
        shares = [(rank + 1) / len(values) for rank in range(len(values))]
        distribution.step(values, shares, where="post")
        distribution.set_xscale("symlog")
        distribution.set_xlabel("latency (ms)")
        distribution.set_ylabel("share of results")
        distribution.grid(alpha=0.3)
        plan = measured.plan
        figure.suptitle(f"{plan.query}: {plan.rate:,} events/s, windows of {plan.window_ms} ms, {plan.nodes} nodes")


def plot_failover(path: Path, runs: Sequence[tuple[str, LatencyOutcome]], baseline: LatencyOutcome) -> None:
    """Latency over time with failures, and without."""
    with _axes(path, len(runs)) as (_, axes):
        for axis, (name, measured) in zip(axes, runs, strict=True):
            _scatter(axis, baseline, "without failures")
            _scatter(axis, measured, "with failures")
            for kill_ms in measured.kills_ms:
                axis.axvline((kill_ms - measured.began_ms) / 1000, color="black", linestyle="--", linewidth=0.8)
            axis.set_yscale("symlog")
            axis.set_ylim(bottom=0)
            axis.set_title(f"{name}, {measured.plan.replicas} replicas: kill -9 at the dashed lines", fontsize=9)
            axis.legend(fontsize=8)


def _axes(path: Path, count: int) -> AbstractContextManager[tuple[Any, Sequence[Any]]]:
    return picture(path, count, 1, (9, 3.5 * count))


def _scatter(axis: Any, measured: LatencyOutcome, label: str) -> None:
    seconds = (measured.found.closed_ms - measured.began_ms) / 1000
    axis.plot(seconds, measured.found.delays_ms, ".", markersize=3, label=label)
    axis.set_xlabel("time (s)")
    axis.set_ylabel("latency (ms)")
    axis.grid(alpha=0.3)
