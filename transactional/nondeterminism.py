"""How it shows that a function is not deterministic: two records of one name differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from transactional.execution import Execution
from transactional.messages import BadMessage, Calls, Mark, Request, WireCall, WireResult, call_message

Sent: TypeAlias = Mapping[int, list[WireCall | WireResult]]

_NAMED = 3
_SHOWN = 300


class Nondeterministic(AssertionError):
    """The log has another record of the same name: a function is no function of its input.

    ``tids``: transactions that may be the cause, as far as the records tell; the likeliest first.
    """

    def __init__(self, message: str, tids: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.tids = tids


def parted(known: Mark, computed: Mark, sent: Sent, roots: Mapping[int, Request]) -> Nondeterministic:
    """What to raise where two marks differ. ``sent``: what the second sends; ``roots``: requests that begin here."""
    parts = (
        f"{name} {_cut(getattr(known, name))} on the log, {_cut(getattr(computed, name))} here"
        for name in ("sends", "contribution")
        if getattr(known, name) != getattr(computed, name)
    )
    tids = (*_of_sends(known, sent), *_of_contributions(known, computed))
    return Nondeterministic(
        f"state partition {computed.partition}, epoch {computed.epoch}, round {computed.round}: what was computed is "
        f"not what the log has, {_suspects(tids, roots, sent)}. A function depends on more than its arguments, its "
        f"state and ctx: {'; '.join(parts)}",
        tids,
    )


def _suspects(tids: tuple[int, ...], roots: Mapping[int, Request], sent: Sent) -> str:
    """What is known here of these transactions, for people: the request where it began here, else a call it made."""
    told = [_told(tid, roots.get(tid), sent) for tid in tids[:_NAMED]]
    more = f" and {len(tids) - _NAMED} more" if len(tids) > _NAMED else ""
    return f"in {' or '.join(told)}{more}" if told else "in one of the epoch's transactions"


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _told(tid: int, root: Request | None, sent: Sent) -> str:
    if root is not None:
        return (
            f"transaction {tid} ({root.operator} {root.key!r} {root.function}, request {root.id!r}, "
            f"request partition {root.sequencer} offset {root.offset})"
        )
    calls = [item for to in sorted(sent) for item in sent[to] if isinstance(item, WireCall) and item.tid == tid]
    return f"transaction {tid}" + (
        f" (calls {calls[0].operator} {calls[0].key!r} {calls[0].function})" if calls else ""
    )


def _of_sends(known: Mark, sent: Sent) -> list[int]:
    """Digests do not tell: then all that are sent to these partitions, if the log has no records in its mark."""
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
    except BadMessage:
        return []
    return message.items if isinstance(message, Calls) else []


def _of_contributions(known: Mark, computed: Mark) -> list[int]:
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
