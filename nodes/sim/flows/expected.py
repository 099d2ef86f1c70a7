"""The results of the simulated flows in plain Python: no line of Holon is shared."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nodes.sim.options import Options

PLACES = 80

Windows = Mapping[int, Sequence[tuple[int, dict[str, Any]]]]
"""Window end -> its events with their partitions, by end."""


def by_flow(windows: Windows) -> list[Any]:
    """As the flow of that name."""
    results: list[Any] = []
    for end, events in windows.items():
        found: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for _, event in events:
            found[-1 - event["key"] if event["amount"] % 2 else event["key"]].append(event)
        totals = [
            {"end": end, "key": key, "count": len(some), "amount": sum(one["amount"] for one in some),
             "last": max(one["id"] for one in some)}
            for key, some in found.items() if len(some) > 1
        ]  # fmt: skip
        largest = sorted((total["amount"] for total in totals), reverse=True)[:2]
        results += [total for total in totals if largest and total["amount"] >= largest[-1]]
    return results


def by_verbs(windows: Windows) -> list[Any]:
    """As the flow of that name."""
    results: list[Any] = []
    for events in windows.values():
        sums: dict[int, int] = {}
        amounts = set()
        for _, event in events:
            amount = event["amount"]
            if gets_into_a_window(event):
                sums[event["id"] % PLACES] = sums.get(event["id"] % PLACES, 0) + amount
            if amount > 3:
                amounts.add((event["key"], amount))
            elif is_doubled(event):
                results.append({"id": event["id"], "double": 2 * amount})
        results += [[place, total] for place, total in sums.items()]
        results += [{"key": key, "amount": amount} for key, amount in amounts]
    return results


def gets_into_a_window(event: dict[str, Any]) -> bool:
    """Of the flow of all verbs: the others are doubled, or filtered."""
    return (event["amount"] > 3 or event["amount"] == 0) and not event.get("late")


def is_doubled(event: dict[str, Any]) -> bool:
    """Of the flow of all verbs: late ones too."""
    return event["amount"] <= 3 and event["key"] % 2 == 1


def late_letters(event: dict[str, Any]) -> int:
    """Of the flow of all verbs: how many steps with windows take the event."""
    return gets_into_a_window(event) + (event["amount"] > 3)


def filtered_by_verbs(windows: Windows) -> int:
    """How many events no branch takes."""
    return sum(0 < event["amount"] <= 3 and event["key"] % 2 == 0 for events in windows.values() for _, event in events)


class Fate(NamedTuple):
    """Of a record where windows judge rows: ``late_rows`` of all steps, and how often their windows refuse these."""

    late: bool
    letters: int
    late_rows: int
    filtered: bool
    refusals: int


Timed = Sequence[tuple[dict[str, Any], int | None]]
"""Events, each with the watermark before it."""


def by_late_rows(window_ms: int, events: Timed) -> list[Any]:
    """As the flow of that name."""
    results: list[Any] = [{"gift": event["id"]} for event, _ in events if event["amount"] == 0]
    ones: dict[tuple[int, int], list[int]] = defaultdict(list)
    threes: Counter[int] = Counter()
    for event, watermark in events:
        if event["amount"] != 1:
            end = _end(event["ts"], window_ms)
            if _is_open(end, watermark):
                ones[end, event["key"]].append(event["amount"])
            else:
                results += [{"late": event["id"], "end": end}] * (event["amount"] != 2)
        end = _end(event["ts"], 3 * window_ms)
        if event["key"] % 2 and _is_open(end, watermark):
            threes[end] += 1
    results += [{"end": end, "key": key, "count": len(a), "amount": sum(a)} for (end, key), a in ones.items()]
    return results + [{"end": end, "odd": count} for end, count in threes.items()]


def fates_of_late_rows(window_ms: int, events: Timed) -> list[Fate]:
    """The fate of each event of that flow."""
    found = []
    for event, watermark in events:
        ends = [_end(event["ts"], window_ms)] * (event["amount"] != 1)
        odd = [_end(event["ts"], 3 * window_ms)] * (event["key"] % 2)
        taken = event["amount"] == 0 or any(_is_open(end, watermark) for end in ends + odd)
        late = sum(not _is_open(end, watermark) for end in ends + odd)
        letters = any(not _is_open(end, watermark) for end in odd)
        found.append(Fate(not taken and late > 0, letters, late, not taken and not late, late))
    return found


def closed_through(window_ms: int, events: Timed) -> int | None:
    """Of that flow: the end of the last window; None: there is none."""
    ends = [_end(event["ts"], window_ms) for event, _ in events if event["amount"] != 1]
    ends += [_end(event["ts"], 3 * window_ms) for event, _ in events if event["key"] % 2]
    return max(ends, default=None)


Placed = Sequence[tuple[int, dict[str, Any], int | None]]
"""Events, each with its partition and the watermark before it."""


def by_sessions(window_ms: int, events: Placed) -> list[Any]:
    """As the flow of that name."""
    gap_ms = window_ms // 2
    in_time = [(partition, event) for partition, event, at in events if not _misses_its_session(window_ms, event, at)]
    results: list[Any] = [
        {"missed": event["id"]} for _, event, at in events if _misses_its_session(window_ms, event, at)
    ]
    threes: Counter[int] = Counter()
    for some in _sessions(gap_ms, [((event["key"],), event) for _, event in in_time]):
        first, end = some[0]["ts"], some[-1]["ts"] + gap_ms
        amount = sum(event["amount"] for event in some)
        results.append({"key": some[0]["key"], "first": first, "end": end, "visits": len(some), "amount": amount})
        threes[_end(_end(end, _slice(window_ms)) - 1, 3 * window_ms)] += len(some)
    results += [{"end": end, "span": 3, "sum": total} for end, total in threes.items()]
    odd = [((event["key"], partition), event) for partition, event in in_time if event["key"] % 2]
    for some in _sessions(gap_ms, odd):
        results.append({"own": some[0]["key"], "first": some[0]["ts"], "last": some[-1]["ts"]})
    return results


def _sessions(gap_ms: int, events: Sequence[tuple[Any, dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """The events of each key by time, cut where none came for longer than the gap."""
    found: list[list[dict[str, Any]]] = []
    before: Any = None
    for key, event in sorted(events, key=lambda pair: (pair[0], pair[1]["ts"])):
        if key != before or event["ts"] - found[-1][-1]["ts"] > gap_ms:
            found.append([])
        found[-1].append(event)
        before = key
    return found


def _misses_its_session(window_ms: int, event: dict[str, Any], watermark: int | None) -> bool:
    """The slice of the event is complete."""
    return not _is_open(_end(event["ts"], _slice(window_ms)), watermark)


def fates_of_sessions(window_ms: int, events: Timed) -> list[Fate]:
    """The fate of each event of that flow. Odd keys have two states, the second of which gives letters."""
    late = [(_misses_its_session(window_ms, event, at), event["key"] % 2) for event, at in events]
    return [Fate(missed, missed and odd > 0, missed * (1 + odd), False, missed * (1 + odd)) for missed, odd in late]


def closed_by_sessions(window_ms: int, events: Timed) -> int | None:
    """Of that flow: the end of the last window; None: there is none."""
    times = [event["ts"] for event, at in events if not _misses_its_session(window_ms, event, at)]
    if not times:
        return None
    due = _end(max(times) + window_ms // 2, _slice(window_ms))
    return max(due, _end(due - 1, 3 * window_ms))


def by_early(window_ms: int, events: Placed) -> list[Any]:
    """As the flow of that name."""
    size_ms, every_ms = 2 * window_ms, max(1, window_ms // 3)
    results: list[Any] = [{"missed": e["id"]} for _, e, at in events if not _is_open(_end(e["ts"], size_ms), at)]
    for retracts, slice_ms in ((False, every_ms), (True, window_ms - 1)):
        slices: dict[tuple[int, Any, int], list[int]] = defaultdict(list)
        for partition, event, at in events:
            end = _end(event["ts"], size_ms)
            if _is_open(end, at) and (event["key"] % 2 or not retracts):
                in_order = event["ts"] if at is None else max(event["ts"], at)
                key = (partition, -1) if retracts else (0, event["key"])
                slices[end, key, min(end, _end(in_order, slice_ms))].append(event["amount"])
        for end, key in sorted({(end, key) for end, key, _ in slices}):
            mine = {at: amounts for (e, k, at), amounts in slices.items() if (e, k) == (end, key)}
            results += _updates(end, key[1], mine, retracts)
    return results


def _updates(end: int, key: int, slices: Mapping[int, list[int]], retracts: bool) -> list[Any]:
    """Of one key of a window: a result at the end of each slice with rows, and at that of the window."""
    results: list[Any] = []
    amounts: list[int] = []
    for at in sorted({*slices, end}):
        if retracts and amounts:
            results.append({**results[-1], "retracted": True})
        amounts += slices.get(at, [])
        total = max(amounts) if retracts else sum(amounts)
        found = {"end": end, "key": key, "count": len(amounts), "amount": total, "final": at == end, "retracted": False}
        results.append(found)
    return results


def fates_of_early(window_ms: int, events: Timed) -> list[Fate]:
    """The fate of each event of that flow. Odd keys have two states, the second of which gives letters."""
    late = [(not _is_open(_end(event["ts"], 2 * window_ms), at), event["key"] % 2) for event, at in events]
    return [Fate(missed, missed and odd > 0, missed * (1 + odd), False, missed * (1 + odd)) for missed, odd in late]


def closed_by_early(window_ms: int, events: Timed) -> int | None:
    """Of that flow: the end of the last window; None: there is none."""
    ends = [(_end(event["ts"], 2 * window_ms), at) for event, at in events]
    return max((end for end, at in ends if _is_open(end, at)), default=None)


def by_sliding(window_ms: int, events: Placed, largest: int | None = 2) -> list[Any]:
    """As the flow of that name; ``largest`` None: all keys leave."""
    slide_ms = max(1, window_ms // 3)
    all_of: dict[int, dict[int, list[int]]] = {}
    odd: Counter[tuple[int, int]] = Counter()
    results: list[Any] = [{"missed": event["id"]} for _, event, at in events if _misses_all(6, slide_ms, event, at)]
    for partition, event, at in events:
        for end in _open_ends(6, slide_ms, event, at):
            all_of.setdefault(end, defaultdict(list))[event["key"]].append(event["amount"])
        for end in _open_ends(4, slide_ms, event, at) if event["key"] % 2 else ():
            odd[partition, end] += 1
    twelves: Counter[int] = Counter()
    for end, keys in all_of.items():
        least = sorted((sum(amounts) for amounts in keys.values()), reverse=True)[:largest][-1]
        results += [
            {"end": end, "key": key, "count": len(amounts), "amount": sum(amounts)}
            for key, amounts in keys.items() if sum(amounts) >= least
        ]  # fmt: skip
        for twelve in _ends_of(end - 1, 12 * slide_ms, 3 * slide_ms):
            twelves[twelve] += sum(map(len, keys.values()))
    results += [{"end": end, "span": 12, "sum": count} for end, count in twelves.items()]
    return results + [{"end": end, "odd": count} for (_, end), count in odd.items()]


def fates_of_sliding(window_ms: int, events: Timed) -> list[Fate]:
    """The fate of each event of that flow. Odd keys have two states, the second of which gives letters."""
    slide_ms, found = max(1, window_ms // 3), []
    for event, at in events:
        missed, odd = _misses_all(6, slide_ms, event, at), event["key"] % 2 == 1
        misses_odd = odd and _misses_all(4, slide_ms, event, at)
        refusals = 6 - len(_open_ends(6, slide_ms, event, at)) + odd * (4 - len(_open_ends(4, slide_ms, event, at)))
        late = missed and (misses_odd or not odd)
        found.append(Fate(late, misses_odd, missed + misses_odd, False, refusals))
    return found


def closed_by_sliding(window_ms: int, events: Timed) -> int | None:
    """Of that flow: the end of the last window; None: there is none."""
    slide_ms = max(1, window_ms // 3)
    ends = [end for event, at in events for end in _open_ends(6, slide_ms, event, at)]
    return max((_ends_of(end - 1, 12 * slide_ms, 3 * slide_ms)[-1] for end in ends), default=None)


def _open_ends(slides: int, slide_ms: int, event: dict[str, Any], watermark: int | None) -> list[int]:
    return [end for end in _ends_of(event["ts"], slides * slide_ms, slide_ms) if _is_open(end, watermark)]


def _misses_all(slides: int, slide_ms: int, event: dict[str, Any], watermark: int | None) -> bool:
    return not _open_ends(slides, slide_ms, event, watermark)


def _ends_of(ts: int, size_ms: int, slide_ms: int) -> range:
    """Of all windows that take a time."""
    first = _end(ts, slide_ms)
    return range(first, first + size_ms, slide_ms)


def _slice(window_ms: int) -> int:
    return window_ms // 2 // 4


def _is_open(end: int, watermark: int | None) -> bool:
    return watermark is None or end > watermark


def by_dead_rows(options: Options, windows: Windows) -> tuple[list[Any], list[Any]]:
    """As the flow of that name; and the windows and keys of its dead rows."""
    results: list[Any] = []
    dead: list[Any] = []
    threes: Counter[int] = Counter()
    for end, events in windows.items():
        counts = Counter(event["key"] for _, event in events)
        sound = [key for key, count in counts.items() if count != 2]
        results += [{"end": end, "key": key, "share": 12 // (counts[key] - 2)} for key in sorted(sound)[-3:]]
        dead += [{"end": end, "key": key} for key in counts if key not in sound]
        threes[_end(end - 1, 3 * options.window_ms)] += len(sound)
    for end, count in threes.items():
        if count == 3:
            dead.append({"end": end, "key": None})
        elif count:
            results.append({"end": end, "span": 3, "sum": 60 // (count - 3)})
    return results, dead


def closed_by_dead_rows(options: Options, windows: Windows) -> int | None:
    """Of that flow: the end of the last window; None: there is none."""
    ends = list(windows)
    for end, events in windows.items():
        counts = Counter(event["key"] for _, event in events)
        ends += [_end(end - 1, 3 * options.window_ms)] * any(count != 2 for count in counts.values())
    return max(ends, default=None)


def by_stages(window_ms: int, windows: Windows) -> list[Any]:
    """As the flow of that name."""
    results: list[Any] = []
    sums: Counter[int] = Counter()
    for end, events in windows.items():
        sums[_end(end - 1, 3 * window_ms)] += 2 * len(events)
        for partition in {partition for partition, _ in events}:
            keys = Counter(event["key"] for of, event in events if of == partition)
            key, count = min(keys.items(), key=lambda item: (-item[1], item[0]))
            results.append({"end": end, "largest": key, "count": count})
    sixes: dict[int, int] = {}
    for end, total in sums.items():
        results.append({"end": end, "span": 3, "sum": total})
        six = _end(end - 1, 6 * window_ms)
        sixes[six] = max(total, sixes.get(six, total))
    return results + [{"end": end, "span": 6, "sum": total} for end, total in sixes.items()]


def _end(ts: int, size: int) -> int:
    return (ts // size + 1) * size


def by_topics(windows: Windows) -> list[Any]:
    """As the flow of that name; events of the second topic are marked as such."""
    results: list[Any] = []
    for end, events in windows.items():
        odd = [event for _, event in events if event.get("second") and event["key"] % 2]
        results += [{"end": end, "odd": len(odd)}] * bool(odd)
        amounts: dict[int, list[int]] = defaultdict(list)
        for _, event in events:
            if not event.get("second"):
                amounts[event["key"]].append(event["amount"])
            elif event["key"] % 2 == 0:
                amounts[event["key"]].append(10 * event["amount"])
        results += [{"end": end, "key": key, "count": len(a), "amount": sum(a)} for key, a in amounts.items()]
    return results
