"""The live view of a run: pure functions from a moment's progress to what the terminal shows."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holon.tracks.admission import AdmissionCounts
from nodes.fleet.progress import JobProgress, NodeRow
from nodes.streams.held_frontier import held_text
from nodes.time_texts import duration, event_time, has_ended

MOST_PARTITIONS = 24


def render(progress: JobProgress, most_partitions: int = MOST_PARTITIONS) -> RenderableType:
    """Header, partitions (the ones that lag most, if there are too many) and nodes."""
    return Group(
        _header(progress),
        _partition_table(progress, most_partitions),
        _node_table(progress),
        _hidden(progress, most_partitions),
    )


def one_line(progress: JobProgress) -> str:
    """The same for a log file."""
    lag = sum(row.lag for row in progress.partitions)
    alive = sum(row.silent_ms < progress.silent_after_ms for row in progress.nodes)
    return (
        f"{progress.job}: {identity(progress.taken, progress.counts)}; {progress.rate_per_s:,.0f}/s, "
        f"lag {lag:,} records, frontier {event_time(progress.frontier_ms)}, {alive} nodes, {progress.steals} steals"
        f"{_windows_left(progress)}" + (f"; {held_text(progress.held)}" if progress.held is not None else "")
    )


def _windows_left(progress: JobProgress) -> str:
    left = progress.windows_left
    return f"; the input has ended, {left:,} windows are still to be answered" if left else ""


def identity(taken: int, counts: AdmissionCounts) -> str:
    """The conservation identity, up to the newest checkpoints; duplicates where the input had some."""
    sign = "=" if taken == counts.taken else "!="
    duplicates = f" + duplicates {counts.duplicates:,}" if counts.duplicates else ""
    return (
        f"in {taken:,} {sign} accepted {counts.accepted:,} + filtered {counts.filtered:,} "
        f"+ late {counts.late:,} + dead {counts.dead:,}{duplicates}"
        + (f"; {counts.late_inserts:,} inserts into closed windows were dropped" if counts.late_inserts else "")
        + _late_by_state(counts.late_by_state)
    )


def _late_by_state(late: Mapping[str, int]) -> str:
    each = ", ".join(f"{state} {count:,}" for state, count in sorted(late.items()))
    return f"; late for {each}" if each else ""


def _header(progress: JobProgress) -> Text:
    balanced = progress.taken == progress.counts.taken
    lag = None if any(has_ended(row.watermark_ms) for row in progress.partitions) else progress.frontier_lag_ms
    held = "" if progress.held is None else f"\n{held_text(progress.held)}"
    return Text.assemble(
        (progress.job, "bold"),
        f" incarnation {progress.incarnation}   frontier {event_time(progress.frontier_ms)}",
        f"   frontier lag {duration(lag)}   {progress.rate_per_s:,.0f} records/s   steals {progress.steals}\n",
        (identity(progress.taken, progress.counts), "" if balanced else "bold red"),
        _windows_left(progress),
        (held, "bold yellow"),
    )


def _partition_table(progress: JobProgress, most: int) -> Table:
    """Those that hold the frontier come first, whatever their number is."""
    rows, held = progress.partitions, frozenset(progress.held.numbers if progress.held else ())
    table = Table(box=None, pad_edge=False)
    for name in ("partition", "owner", "version", "offset", "end", "lag", "rate/s", "watermark", "ahead"):
        table.add_column(name, justify="left" if name == "watermark" else "right", no_wrap=True)
    shown = sorted(rows, key=lambda row: (row.partition not in held, -row.lag))[:most] if len(rows) > most else rows
    for row in sorted(shown, key=lambda row: (row.partition not in held, row.partition)):
        ahead = "-" if has_ended(row.watermark_ms) else duration(row.ahead_ms)
        table.add_row(
            Text(f"{row.partition} holds", style="bold yellow") if row.partition in held else str(row.partition),
            _number(row.owner),
            str(row.version),
            f"{row.offset:,}",
            f"{row.end:,}",
            f"{row.lag:,}",
            f"{row.rate_per_s:,.0f}",
            event_time(row.watermark_ms),
            ahead,
        )
    return table


def _hidden(progress: JobProgress, most: int) -> Text:
    hidden = len(progress.partitions) - most
    return Text(f"{hidden} more partitions, which lag less" if hidden > 0 else "", style="dim")


def _node_table(progress: JobProgress) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("node", "state", "partitions", "emitted", "suppressed", "steals", "memory", "metrics"):
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    for row in progress.nodes:
        silent = row.silent_ms >= progress.silent_after_ms
        table.add_row(
            _number(row.number),
            Text(f"silent {duration(row.silent_ms)}", style="bold red") if silent else "alive",
            str(row.partitions),
            f"{row.emitted:,}",
            f"{row.suppressed:,}",
            str(row.steals),
            _memory(row),
            "-" if row.metrics_port is None else f":{row.metrics_port}",
        )
    return table


def _number(number: int | None) -> str:
    return "-" if number is None else "?" if number < 0 else str(number)


def _memory(row: NodeRow) -> str:
    return "-" if not row.memory_bytes else f"{row.memory_bytes / 1e6:.0f} MB"
