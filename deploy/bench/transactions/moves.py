"""Layouts of a run, and the cost of each to its client: a split, or partitions that are merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from nodes.log import Log
from nodes.machine import messages as m
from nodes.machine.ownership.layouts import LayoutOutcome, outcome_of
from nodes.machine.ownership.ownership import Ownership
from nodes.transactions.bench.reply_times import Interval, ReplyTimes
from nodes.transactions.topics import TransactionTopics


class Move(NamedTuple):
    """A layout, by the wall clock: from its request until it is known to hold."""

    begin_ms: int
    end_ms: int
    before: int
    after: int
    outcome: LayoutOutcome


def moves(log: Log, topics: TransactionTopics, units: int, sequencers: int) -> list[Move]:
    """The layouts that have come to hold, of a job that began with so many units."""
    fold, offset, found, begin_ms, before = Ownership(units, owners_save=True), 0, list[Move](), 0, units
    while (chunk := log.read(topics.control, 0, offset)).next_offset > offset:
        offset = chunk.next_offset
        for at_ms, value in zip(chunk.timestamps_ms.tolist(), chunk.values, strict=True):
            was_open = fold.layouts.open
            fold.apply(m.decode_control(value))
            if was_open is None and fold.layouts.open is not None:
                begin_ms = at_ms
            if was_open is None or (outcome := outcome_of(fold.layouts, was_open.number)) is None:
                continue
            if not outcome.problem:
                found.append(Move(begin_ms, at_ms, before - sequencers, was_open.units - sequencers, outcome))
                before = was_open.units
    return found


def moves_shown(found: Sequence[Move], times: ReplyTimes, begin_s: float, begin_ms: int) -> list[dict[str, Any]]:
    """With their costs to the client. ``begin_s``: of the run, by the clock of ``times``; ``begin_ms``: by the wall."""
    rows: list[dict[str, Any]] = []
    for each in found:
        during = Interval(*(begin_s + (at_ms - begin_ms) / 1000 for at_ms in (each.begin_ms, each.end_ms)))
        phases = {name: None if phase is None else phase._asdict() for name, phase in times.phases([during]).items()}
        rows.append({
            "at_s": round((each.begin_ms - begin_ms) / 1000, 1), "from": each.before, "to": each.after,
            "keys": each.outcome.keys, "bytes": each.outcome.size_bytes, "took_ms": each.end_ms - each.begin_ms,
            "epochs_stopped_ms": each.outcome.downtime_ms, "silence_ms": times.downtime_ms(during),
            "silence_before_ms": times.downtime_ms(Interval(begin_s, during.begin_s)),
            "least_share": times.least_share(during), **phases,
        })  # fmt: skip
    return rows


def moves_table(shown: Sequence[dict[str, Any]]) -> list[str]:
    """Lines of Markdown; none without moves."""
    if not shown:
        return []
    head = "| s | partitions | keys | took, ms | epochs stopped, ms | longest silence, ms | before it, ms "
    head += "| worst second, % | p99 before, ms | during | after |"
    lines = ["", head, f"|{'---|' * 11}"]
    for each in shown:
        p99 = [f"{each[name]['p99']:.0f}" if each[name] else "-" for name in ("before", "during", "after")]
        share = "-" if each["least_share"] is None else f"{100 * each['least_share']:.0f}"
        cells = [each["at_s"], f"{each['from']} to {each['to']}", each["keys"], each["took_ms"]]
        cells += [each["epochs_stopped_ms"], f"{each['silence_ms']:.0f}", f"{each['silence_before_ms']:.0f}", share]
        lines.append(f"| {' | '.join(map(str, [*cells, *p99]))} |")
    return lines
