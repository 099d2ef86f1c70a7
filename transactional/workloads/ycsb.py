"""YCSB A to F, and M: records of ten fields of 100 bytes, read, updated, inserted and scanned.

Source: Cooper et al., *Benchmarking Cloud Serving Systems with YCSB* (SoCC 2010), table 2. Deviations: a record counts
its updates, which makes lost and torn ones visible. Every twentieth request inserts where the original draws one of
twenty. A scan ends with its group of ``GROUP`` neighbours, since keys have an order only where they are co-located.

M is the workload that migrations of state are measured with: 85 % of requests read a record, 15 % update one. It has a
million of them, and nodes begin with checkpoints that hold these. Its fields are random text, as in Styx (section 9.1):
those of the others are mostly filling, of which compression leaves little.
"""

from __future__ import annotations

from base64 import b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property, partial
from hashlib import shake_128
from typing import Any

import msgspec

from transactional.context import Context
from transactional.errors import Aborted
from transactional.operators import Operator, Program, StateKey
from transactional.requests.requests import WireRequest
from transactional.state.values import encode
from transactional.workloads.contract import (
    BenchWorkload,
    FirstState,
    RequestHistory,
    Send,
    WorkloadShape,
    different,
)
from transactional.workloads.draws import Draws

FIELDS = 10
FIELD_BYTES = 100
GROUP = 100
MAX_SCAN = 20
INSERT_EVERY = 20
MIXES = {"a": 0.5, "b": 0.05, "c": 0.0, "d": 0.0, "e": 0.0, "f": 0.5, "m": 0.15}
"""Share of requests that write an existing record: updates, in F reads that write back."""
MIGRATED = "m"
READ_TOGETHER = 10_000
"""Records that the check reads at once: a million would not fit into its memory."""


class Record(msgspec.Struct):
    """``version`` counts updates."""

    version: int
    fields: list[str]


class Missing(Exception):
    """There is no such record."""


record = Operator("record", partitions=4, colocate="/", state=Record)


@record.register
async def insert(ctx: Context, fields: list[str]) -> None:
    """A new record."""
    ctx.put(Record(0, fields))


@record.register
async def read(ctx: Context) -> list[Any] | None:
    """Version and fields; nothing if there is no such record."""
    found: Record | None = ctx.get()
    return None if found is None else [found.version, found.fields]


@record.register
async def update(ctx: Context, field: int, value: str) -> int:
    """Replace a field; gives the new version."""
    found: Record | None = ctx.get()
    if found is None:
        raise Missing(ctx.key)
    found.fields[field] = value
    found.version += 1
    ctx.put(found)
    return found.version


@record.register
async def modify(ctx: Context, field: int, value: str) -> list[Any]:
    """Read the record and write a field of it; gives version and fields as they were read."""
    before = await read(ctx)
    if before is None:
        raise Missing(ctx.key)
    await update(ctx, field, value)
    return before


@record.register
async def scan(ctx: Context, count: int) -> list[list[Any]]:
    """Key, version and fields of this and the following records of the group, at most ``count``."""
    group = ctx.key.split("/")[0] + "/"
    found = [(key, each) for key, each in ctx.scan(group) if key >= ctx.key]
    return [[key, each.version, each.fields] for key, each in found[:count]]


program = Program("ycsb", [record], errors=[Missing])


def record_key(number: int) -> str:
    """Records count from 0; those of one group are neighbours."""
    return f"{number // GROUP:06}/{number:010}"


def value_of(label: str, field: int) -> str:
    """The fields that an insert or an update writes."""
    return f"{label}:{field}:".ljust(FIELD_BYTES, "x")


def _fields(label: str, mix: str) -> list[str]:
    if mix != MIGRATED:
        return [value_of(label, field) for field in range(FIELDS)]
    size = FIELDS * FIELD_BYTES
    text = b64encode(shake_128(label.encode()).digest(size * 3 // 4)).decode()
    return [text[at : at + FIELD_BYTES] for at in range(0, size, FIELD_BYTES)]


def _loaded(number: int, mix: str) -> list[str]:
    """The fields of a record before the first request."""
    return _fields(f"load-{number}", mix)


def _number(key: str) -> int:
    return int(key.split("/")[1])


def load(shape: WorkloadShape, *, mix: str) -> list[WireRequest]:
    """All records."""
    return [WireRequest(f"load-{n}", "record", record_key(n), "insert", [_loaded(n, mix)]) for n in range(shape.size)]


def _keys(shape: WorkloadShape) -> Iterator[StateKey]:
    return (("record", record_key(number)) for number in range(shape.size))


def _value(key: StateKey) -> bytes:
    return encode(Record(0, _loaded(_number(key[1]), MIGRATED)))


def _inserted(number: int) -> int:
    """How many of the requests before this one insert."""
    return number // INSERT_EVERY


def requests(shape: WorkloadShape, first: int, count: int, *, mix: str) -> list[WireRequest]:
    """``mix`` is a letter of the benchmark. Keys are Zipf-distributed; D reads what was inserted last most often."""
    draws = Draws(shape.seed, first, count)
    kinds = draws.share(0)
    ranks = draws.zipf(1, shape.size, shape.zipf)
    fields, lengths = draws.below(2, FIELDS), draws.below(3, MAX_SCAN)
    made = []
    for n in range(count):
        number, name = first + n, f"{shape.seed}-{first + n}"
        if mix in "de" and number % INSERT_EVERY == INSERT_EVERY - 1:
            key, function, args = record_key(shape.size + _inserted(number)), "insert", [_fields(name, mix)]
        elif mix == "d":
            key, function, args = record_key(shape.size + _inserted(number) - 1 - ranks[n]), "read", None
        elif mix == "e":
            key, function, args = record_key(ranks[n]), "scan", [1 + lengths[n]]
        elif kinds[n] < MIXES[mix]:
            function, args = "modify" if mix == "f" else "update", [fields[n], _fields(name, mix)[fields[n]]]
            key = record_key(ranks[n])
        else:
            key, function, args = record_key(ranks[n]), "read", None
        made.append(WireRequest(name, "record", key, function, args))
    return made


class _Past:
    """The history of each record, from the replies: by version its fields, and when that was acknowledged."""

    def __init__(self, shape: WorkloadShape, history: RequestHistory, mix: str) -> None:
        self.wrong: list[str] = []
        self.history = history
        self._size = shape.size
        self._mix = mix
        self._versions: dict[str, list[list[str]]] = {}  # of records that were written since
        self.inserts = {request.key: request.id for request, _ in history.committed("insert")}
        writes: dict[str, dict[int, WireRequest]] = {}
        for request, outcome in history.committed("insert", "update", "modify"):
            if request.function == "insert":
                self._versions[request.key] = [request.args[0]]
                continue
            version = outcome if request.function == "update" else outcome[0] + 1
            other = writes.setdefault(request.key, {}).setdefault(version, request)
            if other is not request:
                self.wrong.append(f"{other.id} and {request.id} both made version {version} of {request.key}")
        self.acknowledged: dict[str, tuple[list[float], list[int]]] = {}
        for key, made in writes.items():
            self.wrong += different(f"the versions of {key}", sorted(made), list(range(1, len(made) + 1)))
            self._follow(key, made)

    @cached_property
    def keys(self) -> list[str]:
        """Of all records, sorted."""
        return sorted({*map(record_key, range(self._size)), *self._versions})

    def versions(self, key: str) -> list[list[str]]:
        """From the first one on; none: there was never such a record."""
        found = self._versions.get(key)
        if found is None:
            number = _number(key)
            found = [_loaded(number, self._mix)] if number < self._size and record_key(number) == key else []
        return found

    def _follow(self, key: str, made: dict[int, WireRequest]) -> None:
        times: list[tuple[float, int]] = []
        known = self._versions[key] = self.versions(key)
        for version, request in sorted(made.items()):
            fields = list(known[-1])
            fields[request.args[0]] = request.args[1]
            known.append(fields)
            times.append((self.history.answered[request.id], version))
        times.sort()
        best, highest = 0, []
        for _, version in times:
            best = max(best, version)
            highest.append(best)
        self.acknowledged[key] = [time for time, _ in times], highest

    def check(self, name: str, key: str, seen: list[Any] | None, sent: float | None) -> list[str]:
        """The value that a request read of a record; ``sent`` None: after all others."""
        if seen is None:
            return self._absent(name, key, sent)
        version, fields = seen
        known = self.versions(key)
        if version >= len(known) or known[version] != fields:
            return [f"{name} saw {key} as it never was: version {version}, {fields}"]
        times, highest = self.acknowledged.get(key, ([], []))
        before = len(times) if sent is None else bisect_left(times, sent)
        least = highest[before - 1] if before else 0
        return [f"{name} saw version {version} of {key} after {least} was acknowledged"] if version < least else []

    def _absent(self, name: str, key: str, sent: float | None) -> list[str]:
        if not self.versions(key):
            return []
        inserted = self.inserts.get(key)
        if inserted is None or sent is None or self.history.answered[inserted] < sent:
            return [f"{name} did not see {key}, which was there"]
        return []


def check(shape: WorkloadShape, history: RequestHistory, send: Send, *, mix: str) -> list[str]:
    """Every record has had every update once, and each read saw a version that was, none too old."""
    past = _Past(shape, history, mix)
    wrong = past.wrong
    for request in history.requests:
        outcome = history.outcomes[request.id]
        if isinstance(outcome, Aborted):
            continue
        sent = history.sent[request.id]
        if request.function == "scan":
            wrong += _check_scan(past, request, outcome, sent)
        elif request.function in ("read", "modify"):
            wrong += past.check(request.id, request.key, outcome, sent)
    for first in range(0, len(past.keys), READ_TOGETHER):
        keys = past.keys[first : first + READ_TOGETHER]
        found = send([WireRequest(f"read-{key}", "record", key, "read") for key in keys])
        for key in keys:
            wrong += past.check("the last read", key, found[f"read-{key}"], None)
    return wrong


def _check_scan(past: _Past, request: WireRequest, outcome: list[list[Any]], sent: float) -> list[str]:
    keys = [key for key, _, _ in outcome]
    wrong = [each for key, *seen in outcome for each in past.check(request.id, key, seen, sent)]
    group = request.key.split("/")[0]
    last = keys[-1] if len(keys) == request.args[0] else group[:-1] + "0"  # what comes after "/"
    there = past.keys[bisect_left(past.keys, request.key) : bisect_right(past.keys, last)]
    if keys != sorted(keys) or any(key < request.key or not key.startswith(group) for key in keys):
        wrong.append(f"{request.id} scanned {keys} from {request.key}")
    for key in there:
        if key not in keys:
            wrong += past.check(request.id, key, None, sent)
    return wrong


def _workload(mix: str) -> BenchWorkload:
    return BenchWorkload(
        name=f"ycsb-{mix}",
        program=program,
        reference="transactional.workloads.ycsb:program",
        size=1_000_000 if mix == MIGRATED else 1_000,
        counts="records",
        load=partial(load, mix=mix),
        requests=partial(requests, mix=mix),
        check=partial(check, mix=mix),
        expected_aborts=(),
        first_state=FirstState(_keys, _value) if mix == MIGRATED else None,
    )


workloads = [_workload(mix) for mix in sorted(MIXES)]
