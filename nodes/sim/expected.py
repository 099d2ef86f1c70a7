"""The expected results of a job, computed from the input log in plain Python: no line of Holon is shared.

Records are judged one after the other in the order of the log; windows are dicts. Only what is tumbling is here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nodes.sim.driven import expected as driven
from nodes.sim.failing import expected as failing
from nodes.sim.flows import expected as flows
from nodes.sim.flows.cases import EARLY, SESSIONS, SLIDING, SLIDING_SHARDED
from nodes.sim.inputs.decoding import delay_ms, event_of
from nodes.sim.jobs import CASES, MAX_FUTURE_SKEW_MS
from nodes.sim.joins import expected as joins
from nodes.sim.keyed import expected as by_key
from nodes.sim.keyed.cases import SHARDED
from nodes.sim.options import Options


@dataclass(slots=True)
class Record:
    """One accepted record, with the partition's watermark (None: none yet) before it and after it."""

    partition: int
    offset: int
    event: dict[str, Any]
    before: int | None
    after: int | None


@dataclass(slots=True)
class Expected:
    """Results as canonical JSON text; late and dead records as (partition, offset). ``filtered``: of those accepted.

    ``letters``: the late output, with records that are late for one state and taken elsewhere. ``late_rows``: how many
    rows states have refused, by the function's inserts; ``late_inserts``: how often their windows have.
    """

    results: Counter[str] = field(default_factory=Counter)
    accepted: list[Record] = field(default_factory=list)
    late: list[tuple[int, int]] = field(default_factory=list)
    dead: list[tuple[int, int]] = field(default_factory=list)
    letters: list[tuple[int, int]] = field(default_factory=list)
    late_inserts: int = 0
    late_rows: int = 0
    dead_rows: Counter[str] = field(default_factory=Counter)
    filtered: int = 0


def canonical(value: Any) -> str:
    """Equal values, equal text."""
    return json.dumps(value, sort_keys=True)


def dead_rows_of(letters: Sequence[Any]) -> Counter[str]:
    """Window end and key of those dead letters that are about rows."""
    rows = [letter for letter in letters if "window" in letter]
    return Counter(canonical({"end": row["window"][1], "key": row.get("row_key")}) for row in rows)


def expect(
    options: Options, partitions: list[list[tuple[int, bytes | None]]], ends: Sequence[Sequence[int]] = ()
) -> Expected:
    """``partitions`` holds (log timestamp, payload) of each partition in the order of the log; None: a duplicate.

    ``ends``: where the input of each partition ended before the job went on behind that, once for each time. All
    windows that had records are answered there.
    """
    found, closed = Expected(), None
    watermarks: list[int | None] = [None] * len(partitions)
    begins = [0] * len(partitions)
    for upto in (*ends, [len(records) for records in partitions]):
        if closed is not None:
            closed_ms = closed + CASES[options.case].late_by * options.window_ms
            watermarks = [closed_ms if each is None else max(each, closed_ms) for each in watermarks]
        for partition, records in enumerate(partitions):
            part = list(enumerate(records))[begins[partition] : upto[partition]]
            watermarks[partition] = _admit(options, partition, part, watermarks[partition], found)
        closed, begins = _closed_through(options, found.accepted), list(upto)
    if options.case == "idle-backlog-all":  # the other state takes them all
        found.letters += [(r.partition, r.offset) for r in found.accepted if _is_closed(options, r)]
        found.late_inserts = found.late_rows = len(found.letters)
    elif options.case.startswith("flow"):
        found.late_inserts = found.late_rows = len(found.letters)
    if options.case == "flow-verbs":
        found.filtered = flows.filtered_by_verbs(_parted(options, found.accepted))
    if options.case in _DEAD_ROWS:
        _, dead = _DEAD_ROWS[options.case][0](options, _parted(options, found.accepted))
        found.dead_rows = Counter(map(canonical, dead))
    found.results = results_of(options, found.accepted)
    if options.case in _FATES:
        _part_late_rows(options, found)
    return found


def results_of(options: Options, accepted: list[Record]) -> Counter[str]:
    """The results of these records, as canonical texts."""
    return Counter(canonical(value) for value in _RESULTS[options.case](options, accepted))


def _closed_through(options: Options, accepted: list[Record]) -> int | None:
    """The end of the last window of any partition and state; None: there is none."""
    if options.case == "flow-verbs":
        accepted = [record for record in accepted if flows.gets_into_a_window(record.event)]
    if options.case in _FATES:
        _, closed_through = _FATES[options.case]
        return closed_through(options.window_ms, _timed(options, accepted))
    if options.case in _DEAD_ROWS:
        return _DEAD_ROWS[options.case][1](options, _parted(options, accepted))
    if not CASES[options.case].windowed or not accepted:
        return None
    latest = max(_end(record.event["ts"], options.window_ms) for record in accepted)
    for times in CASES[options.case].further_windows:
        latest = _end(latest - 1, times * options.window_ms)
    return latest


# --- which records count ----------------------------------------------------------------------------------------------


def _admit(
    options: Options,
    partition: int,
    records: list[tuple[int, tuple[int, bytes | None]]],
    watermark: int | None,
    found: Expected,
) -> int | None:
    """The watermark after these records, which have their offsets."""
    case = CASES[options.case]
    for offset, (log_ts, payload) in records:
        if payload is None:
            continue
        event = event_of(options, partition, payload)
        if event is None or (case.guarded and event["ts"] > log_ts + MAX_FUTURE_SKEW_MS):
            found.dead.append((partition, offset))
            continue
        promised = None if case.manual else event["ts"] - delay_ms(options, event)
        if case.windowed and watermark is not None:
            end = _end(event["ts"], options.window_ms)
            letters = _letters(options, event)
            if end + case.late_by * options.window_ms <= watermark and letters:
                found.letters += [(partition, offset)] * letters
                if options.case != "flow-verbs" or not flows.is_doubled(event):
                    found.late.append((partition, offset))
                    continue
                event["late"] = True
        if case.buries and event.get("mark"):
            found.dead.append((partition, offset))
            continue
        if case.manual and event["id"] % 3 == 0:
            promised = event["ts"]
        before = watermark
        if promised is not None:
            watermark = promised if watermark is None else max(watermark, promised)
        found.accepted.append(Record(partition, offset, event, before, watermark))
    return watermark


def _letters(options: Options, event: dict[str, Any]) -> int:
    """How many letters a record has whose window is closed; 0: it fails before, or goes elsewhere."""
    if options.case in ("flow-dead-rows", "flow-verbs") and event.get("mark"):
        return 0
    if options.case != "flow-verbs":
        return 2 if options.case == "flow-stages" else 1  # it has two steps with windows of records
    return flows.late_letters(event)


def _part_late_rows(options: Options, found: Expected) -> None:
    """Records that are late for a step, or that no branch takes."""
    fates_of, _ = _FATES[options.case]
    fates = fates_of(options.window_ms, _timed(options, found.accepted))
    found.late += [(r.partition, r.offset) for r, fate in zip(found.accepted, fates, strict=True) if fate.late]
    for record, fate in zip(found.accepted, fates, strict=True):
        found.letters += [(record.partition, record.offset)] * fate.letters
    found.late_rows = sum(fate.late_rows for fate in fates)
    found.late_inserts = sum(fate.refusals for fate in fates)
    found.filtered = sum(fate.filtered for fate in fates)
    found.accepted = [r for r, fate in zip(found.accepted, fates, strict=True) if not fate.late]


def _timed(options: Options, accepted: list[Record]) -> list[tuple[dict[str, Any], int | None]]:
    """Each event with the time through which windows are closed before it."""
    late_ms = CASES[options.case].late_by * options.window_ms
    return [(record.event, None if record.before is None else record.before - late_ms) for record in accepted]


def _end(ts: int, size: int) -> int:
    return (ts // size + 1) * size


# --- what comes out ---------------------------------------------------------------------------------------------------


def _windows(options: Options, accepted: list[Record]) -> dict[int, list[Record]]:
    """Window end -> its records, by end."""
    windows: dict[int, list[Record]] = {}
    for record in accepted:
        windows.setdefault(_end(record.event["ts"], options.window_ms), []).append(record)
    return dict(sorted(windows.items()))


def _count(options: Options, accepted: list[Record]) -> list[Any]:
    return [{"end": end, "count": len(records)} for end, records in _windows(options, accepted).items()]


def _count_all(options: Options, accepted: list[Record]) -> list[Any]:
    in_time = [record for record in accepted if not _is_closed(options, record)]
    return _count(options, in_time) + [{"all": len(accepted)}] * bool(accepted)


def _is_closed(options: Options, record: Record) -> bool:
    return record.before is not None and _end(record.event["ts"], options.window_ms) <= record.before


def _marked(options: Options, accepted: list[Record]) -> list[Any]:
    return failing.marked([(record.partition, record.event) for record in accepted]) + _count(options, accepted)


def _max_ties(options: Options, accepted: list[Record]) -> list[Any]:
    results = []
    for end, records in _windows(options, accepted).items():
        best = max(record.event["amount"] for record in records)
        ids = sorted(record.event["id"] for record in records if record.event["amount"] == best)
        results.append({"end": end, "amount": best, "ids": ids})
    return results


def _query1(options: Options, accepted: list[Record]) -> list[Any]:
    results = []
    for end, records in _windows(options, accepted).items():
        total = sum(record.event["amount"] for record in records)
        for partition in range(options.partitions):
            local = sum(record.event["amount"] for record in records if record.partition == partition)
            results.append({"partition": partition, "end": end, "local": local, "total": total})
    return results


def _two_stages(options: Options, accepted: list[Record]) -> list[Any]:
    sums: Counter[int] = Counter()
    results: list[Any] = []
    for end, records in _windows(options, accepted).items():
        start = end - options.window_ms
        sums[_end(start, 3 * options.window_ms)] += len(records) + 1000 * (options.partitions - 1)
        responsible = _responsible(start, end, options.partitions)
        results += [
            {"partition": p, "end": end, "value": len(records) if p == responsible else 0}
            for p in range(options.partitions)
        ]
    return results + [
        {"partition": partition, "end": end, "sum": total}
        for end, total in sums.items()
        for partition in range(options.partitions)
    ]


def _responsible(start: int, end: int, partitions: int) -> int:
    """The rule of the documentation: a multiplicative hash of the window's end, so that aligned ends are spread."""
    return (((end * 0x9E3779B97F4A7C15 + start) % 2**64) >> 32) % partitions


def _read_back(options: Options, accepted: list[Record]) -> list[Any]:
    windows = _windows(options, accepted)
    results = []
    for end in windows:
        counts = [len(windows.get(end - back * options.window_ms, [])) for back in range(3)]
        results += [{"partition": p, "end": end, "counts": counts} for p in range(options.partitions)]
    return results


def _own_windows(options: Options, accepted: list[Record]) -> list[Any]:
    results = []
    for end, records in _windows(options, accepted).items():
        counts = Counter(record.partition for record in records)
        results += [{"partition": p, "end": end, "count": count} for p, count in counts.items()]
    return results


def _running(options: Options, accepted: list[Record]) -> list[Any]:
    results, total = [], 0
    for end, records in _windows(options, accepted).items():
        total += len(records)
        results += [{"partition": p, "end": end, "total": total} for p in range(options.partitions)]
    return results


def _awaiting(options: Options, accepted: list[Record]) -> list[Any]:
    windows = _windows(options, accepted)
    results = []
    for record in accepted:
        assert record.after is not None
        end = record.after // options.window_ms * options.window_ms
        if record.before is None or end > record.before:
            results.append({"id": record.event["id"], "end": end, "count": len(windows.get(end, []))})
    return results


def _dedupe(options: Options, accepted: list[Record]) -> list[Any]:
    first: dict[tuple[int, int], int] = {}
    for record in accepted:
        first.setdefault((record.partition, record.event["key"]), record.event["id"])
    return [{"partition": partition, "key": key, "id": number} for (partition, key), number in first.items()]


def _stateless(options: Options, accepted: list[Record]) -> list[Any]:
    return [{"id": record.event["id"], "double": 2 * record.event["amount"]} for record in accepted]


def _by_key(records: list[Record]) -> Counter[int]:
    amounts: Counter[int] = Counter()
    for record in records:
        amounts[record.event["key"]] += record.event["amount"]
    return amounts


def _batch(options: Options, accepted: list[Record]) -> list[Any]:
    results: list[Any] = [{"id": record.event["id"], "amount": record.event["amount"]} for record in accepted]
    for end, records in _windows(options, accepted).items():
        results.append({"end": end, "amounts": sorted([key, amount] for key, amount in _by_key(records).items())})
    return results


def _parted(options: Options, accepted: list[Record]) -> dict[int, list[tuple[int, dict[str, Any]]]]:
    windows = _windows(options, accepted).items()
    return {end: [(record.partition, record.event) for record in records] for end, records in windows}


def _beside_dead_rows(options: Options, accepted: list[Record]) -> list[Any]:
    return _DEAD_ROWS[options.case][0](options, _parted(options, accepted))[0]


def _placed(options: Options, accepted: list[Record]) -> list[tuple[int, dict[str, Any], int | None]]:
    timed = zip(accepted, _timed(options, accepted), strict=True)
    return [(record.partition, *at) for record, at in timed]


def _routed(options: Options, accepted: list[Record]) -> list[Any]:
    results: list[Any] = [{"id": record.event["id"], "key": record.event["key"]} for record in accepted]
    for end, records in _windows(options, accepted).items():
        results += [{"end": end, "key": key, "amount": amount} for key, amount in _by_key(records).items()]
    return results


_RESULTS = {
    **dict.fromkeys(("count", "guard", "idle", "idle-backlog", "late", "manual"), _count),
    "await": _awaiting,
    "batch": _batch,
    "bury": _marked,
    **dict.fromkeys(("bury-windows", "bury-windows-backlog"), _beside_dead_rows),
    "dedupe": _dedupe,
    "fail": _marked,
    **dict.fromkeys(
        ("flow", "flow-idle", "flow-idle-backlog", "flow-late"),
        lambda options, accepted: flows.by_flow(_parted(options, accepted)),
    ),
    "flow-dead-rows": _beside_dead_rows,
    "flow-late-rows": lambda options, accepted: flows.by_late_rows(options.window_ms, _timed(options, accepted)),
    **dict.fromkeys(SESSIONS, lambda o, accepted: flows.by_sessions(o.window_ms, _placed(o, accepted))),
    **dict.fromkeys(EARLY, lambda o, accepted: flows.by_early(o.window_ms, _placed(o, accepted))),
    **dict.fromkeys(SLIDING, lambda o, accepted: flows.by_sliding(o.window_ms, _placed(o, accepted))),
    **dict.fromkeys(SLIDING_SHARDED, lambda o, a: flows.by_sliding(o.window_ms, _placed(o, a), largest=None)),
    **dict.fromkeys(driven.RESULTS, lambda o, a: driven.RESULTS[o.case](o.window_ms, _placed(o, a))),
    **dict.fromkeys(joins.RESULTS, lambda o, a: joins.RESULTS[o.case](o.window_ms, _placed(o, a))),
    "flow-stages": lambda options, accepted: flows.by_stages(options.window_ms, _parted(options, accepted)),
    **dict.fromkeys(
        ("flow-topics", "flow-topics-backlog", "flow-topics-idle"),
        lambda options, accepted: flows.by_topics(_parted(options, accepted)),
    ),
    "flow-verbs": lambda options, accepted: flows.by_verbs(_parted(options, accepted)),
    "idle-backlog-all": _count_all,
    "keyed": lambda options, accepted: by_key.keyed(options, _parted(options, accepted)),
    **dict.fromkeys(SHARDED, lambda options, accepted: by_key.sharded(options, _parted(options, accepted))),
    "max-ties": _max_ties,
    "own-windows": _own_windows,
    "query1": _query1,
    "read-back": _read_back,
    "routed": _routed,
    **dict.fromkeys(("idle-backlog-running", "idle-running", "late-running", "running"), _running),
    "stateless": _stateless,
    "two-stages": _two_stages,
}
_DEAD_ROWS = {
    **dict.fromkeys(("bury-windows", "bury-windows-backlog"), (failing.windows, failing.closed_by_windows)),
    "flow-dead-rows": (flows.by_dead_rows, flows.closed_by_dead_rows),
}
"""Of jobs with dead letters about windows: results and these letters, and the end of the last window."""
_FATES = {
    "flow-late-rows": (flows.fates_of_late_rows, flows.closed_through),
    **dict.fromkeys(SESSIONS, (flows.fates_of_sessions, flows.closed_by_sessions)),
    **dict.fromkeys(EARLY, (flows.fates_of_early, flows.closed_by_early)),
    **dict.fromkeys((*SLIDING, *SLIDING_SHARDED), (flows.fates_of_sliding, flows.closed_by_sliding)),
    **driven.FATES,
    **joins.FATES,
}
"""Of flows whose windows judge rows by themselves: the fate of each record, and the end of the last window."""
