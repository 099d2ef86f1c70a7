"""How it shows that a function is not deterministic: two records of one name differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from transactional.epochs.messages import (
    Addressed,
    BadRecord,
    Calls,
    Crashes,
    Cut,
    ReadSetSnapshot,
    Request,
    RoundBarrier,
    WireCall,
    WireResult,
    call_message,
)
from transactional.execution.execution import Execution
from transactional.execution.tracing import shown
from transactional.state.values import digest

Sent: TypeAlias = Mapping[int, list[WireCall | WireResult]]

_NAMED = 3
_SHOWN = 300


class Nondeterministic(AssertionError):
    """The log has another record of the same name: a function is no function of its input.

    ``tids``: transactions that may be the cause, as far as the records show; the likeliest first.
    """

    def __init__(self, message: str, tids: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.tids = tids


def parted(known: RoundBarrier, computed: RoundBarrier, sent: Sent, roots: Mapping[int, Request]) -> Nondeterministic:
    """The error where two barriers differ. ``sent``: what the second sends; ``roots``: requests that begin here."""
    tids = (*_of_sends(known, sent), *_of_contributions(known, computed))
    return Nondeterministic(
        f"state partition {computed.partition}, epoch {computed.epoch}, round {computed.round}: what was computed is "
        f"not what the log has, {_suspects(tids, roots, sent)}. A function depends on more than its arguments, its "
        f"state and ctx, or that state is wrong. What was compared: {'; '.join(_differences(known, computed, sent))}",
        tids,
    )


def crashed_elsewhere(crashes: Crashes) -> Nondeterministic:
    """The error where a partition has run a round in which, by the log, a transaction ends its process."""
    return Nondeterministic(
        f"state partition {crashes.partition}, epoch {crashes.epoch}, round {crashes.round}: {crashes.failure} in "
        f"transaction {crashes.tid} on another node, and here it has come through. Give all nodes the same memory "
        "(node.function_memory_mb) and the same libraries",
        (crashes.tid,),
    )


def read_sets_differ(known: ReadSetSnapshot, computed: ReadSetSnapshot) -> Nondeterministic:
    """The error where two read-set snapshots differ."""
    return Nondeterministic(
        f"state partition {computed.partition}, epoch {computed.epoch}: its read-set snapshot is not what the "
        f"log has. A function depends on more than its arguments, its state and ctx, or that state is wrong. What was "
        f"compared: {'; '.join(_of_read_sets(known, computed))}",
        tuple(sorted({each[0] for each in known.roots} ^ {each[0] for each in computed.roots})),
    )


def cut_otherwise(known: Cut, sends: Addressed, *, inline: bool) -> Nondeterministic:
    """The error where the requests of a winning cut are others here."""
    logged, here = dict(known.sends), dict(sends)
    named = [
        f"for state partition {to} {_record(logged, to, inline=known.inline)} on the log, "
        f"{_record(here, to, inline=inline)} here"
        for to in sorted({*logged, *here})
        if logged.get(to) != here.get(to)
    ]
    return Nondeterministic(
        f"sequencer {known.sequencer}, epoch {known.epoch}: requests {known.from_offset} to {known.to_offset} are not "
        f"what their cut names; the request topic has changed, or nodes run different programs. What was compared: "
        f"{'; '.join(named)}"
    )


def _record(records: Mapping[int, bytes], to: int, *, inline: bool) -> str:
    """The digest of what a cut or barrier addresses to a state partition."""
    if to not in records:
        return "nothing"
    return f"record {(digest(records[to]) if inline else records[to]).hex()}"


def _of_read_sets(known: ReadSetSnapshot, computed: ReadSetSnapshot) -> Iterator[str]:
    logged, here = ({row[:2]: row[2] for row in each.values} for each in (known, computed))
    for key in sorted({*logged, *here}):
        if logged.get(key, b"") != here.get(key, b""):
            values = (shown(each[key]) if key in each else "in no read-set snapshot" for each in (logged, here))
            yield "value of {} {!r} is {} on the log, {} here".format(*key, *values)
            break
    for name in ("roots", "prefixes"):
        if getattr(known, name) != getattr(computed, name):
            yield f"{name} {_cut(getattr(known, name))} on the log, {_cut(getattr(computed, name))} here"


def _differences(known: RoundBarrier, computed: RoundBarrier, sent: Sent) -> Iterator[str]:
    """Both values of all that differs in two barriers."""
    if known.sends != computed.sends or known.inline != computed.inline:
        yield from _of_records(known, computed, sent)
    one, other = known.contribution, computed.contribution
    if one is None or other is None:
        if one is not other:
            yield f"contribution {_cut(one)} on the log, {_cut(other)} here"
        return
    for name in one.__struct_fields__:
        if getattr(one, name) != getattr(other, name):
            yield f"contribution, {name}: {_cut(getattr(one, name))} on the log, {_cut(getattr(other, name))} here"


def _of_records(known: RoundBarrier, computed: RoundBarrier, sent: Sent) -> Iterator[str]:
    """The messages to each partition: the first call or result that differs, or the digests of the records."""
    logged, here = dict(known.sends), dict(computed.sends)
    for to in sorted({*logged, *here}):
        if logged.get(to) == here.get(to):
            continue
        mine = _items(here.get(to, b"")) if computed.inline else sent.get(to, [])
        if not known.inline or (to in here and not mine):
            names = _record(logged, to, inline=known.inline), _record(here, to, inline=computed.inline)
            yield f"sends to state partition {to}: {names[0]} on the log, {names[1]} here ({_listed(mine)})"
            continue
        theirs = _items(logged.get(to, b""))
        at = next((at for at, pair in enumerate(zip(theirs, mine, strict=False)) if pair[0] != pair[1]), None)
        at = min(len(theirs), len(mine)) if at is None else at
        yield (
            f"sends to state partition {to}, number {at}: {_listed(theirs[at : at + 1])} on the log, "
            f"{_listed(mine[at : at + 1])} here"
        )


def _listed(items: Sequence[WireCall | WireResult]) -> str:
    return ", ".join(map(_item, items[:_NAMED])) + (", ..." if len(items) > _NAMED else "") if items else "nothing"


def _item(item: WireCall | WireResult) -> str:
    if isinstance(item, WireCall):
        target = f"{item.operator} {item.key!r} {item.function}"
        return f"call of {target} with {shown(item.arguments)} in transaction {item.tid}"
    outcome = item.failure if item.result is None else shown(item.result)
    return f"result {outcome} in transaction {item.tid}"


def _suspects(tids: tuple[int, ...], roots: Mapping[int, Request], sent: Sent) -> str:
    """The known origin of these transactions: the request where it began here, else a call it made."""
    named = [_transaction_text(tid, roots.get(tid), sent) for tid in tids[:_NAMED]]
    more = f" and {len(tids) - _NAMED} more" if len(tids) > _NAMED else ""
    return f"in {' or '.join(named)}{more}" if named else "in one of the epoch's transactions"


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _transaction_text(tid: int, root: Request | None, sent: Sent) -> str:
    if root is not None:
        return (
            f"transaction {tid} ({root.operator} {root.key!r} {root.function}, request {root.id!r}, "
            f"request partition {root.sequencer} offset {root.offset})"
        )
    calls = [item for to in sorted(sent) for item in sent[to] if isinstance(item, WireCall) and item.tid == tid]
    return f"transaction {tid}" + (
        f" (calls {calls[0].operator} {calls[0].key!r} {calls[0].function})" if calls else ""
    )


def _of_sends(known: RoundBarrier, sent: Sent) -> list[int]:
    """Digests do not show it: then all that are sent to these partitions, if the log has no records in its barrier."""
    if not known.inline:
        return []
    found: dict[int, None] = {}
    logged = {to: _items(data) for to, data in known.sends}
    for to in sorted({*logged, *sent}):
        theirs, mine = logged.get(to, []), sent.get(to, [])
        for at in range(max(len(theirs), len(mine))):
            pair = theirs[at : at + 1], mine[at : at + 1]
            if pair[0] != pair[1]:
                found.update((item.tid, None) for items in pair for item in items)
                break  # what comes behind may only have moved
    return list(found)


def _items(data: bytes) -> list[WireCall | WireResult]:
    try:
        message = call_message(data)
    except BadRecord:
        return []
    return message.items if isinstance(message, Calls) else []


def _of_contributions(known: RoundBarrier, computed: RoundBarrier) -> list[int]:
    one, other = known.contribution, computed.contribution
    if one is None or other is None:
        return []
    mine, theirs = {f[0]: f for f in one.failures}, {f[0]: f for f in other.failures}
    failed = [tid for tid in sorted({*mine, *theirs}) if mine.get(tid) != theirs.get(tid)]
    touched = [*one.conflicts, *one.races, *one.over], [*other.conflicts, *other.races, *other.over]
    return [*failed, *sorted(set(touched[0]) ^ set(touched[1]))]


def timed_out_alone(partition: int, epoch: int, execution: Execution) -> Nondeterministic:
    """A function ran too long here, and by the log it did not."""
    return Nondeterministic(
        f"state partition {partition}, epoch {epoch}: {execution.timed_out} in transaction {execution.tid} here, and "
        "on the log it has ended in time. It takes about as long as it may: raise node.function_timeout_ms"
    )
