"""Whether what is stored fits the types that the code has now: by name, what differs, and what that would do.

A field that is added with a default fits, and so does a type that holds all that the old one held. Anything else is a
``StateMisfit``: one that can be decoded changes values in silence, so the operator has to confirm it. State that cannot
be decoded is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holon.fingerprint.schema import FieldShape, TypeShape


@dataclass(frozen=True, slots=True)
class StateMisfit:
    """``place``: operator or state, then the field. ``decodes``: stored values can be read, and lose something."""

    place: str
    stored: str
    code: str
    effect: str
    decodes: bool

    def __str__(self) -> str:
        return f"{self.place}: stored is {self.stored}, the code has {self.code}: {self.effect}"


def misfits(stored: Mapping[str, TypeShape], code: Mapping[str, TypeShape]) -> list[StateMisfit]:
    """By state or operator; one that is new, or has gone, is for the declaration to judge."""
    return [found for name in sorted(stored.keys() & code.keys()) for found in _compare(name, stored[name], code[name])]


def _compare(place: str, old: TypeShape, new: TypeShape) -> Iterator[StateMisfit]:
    if old == new or new.kind in ("any", "raw"):
        return
    if old.kind in ("any", "raw"):
        yield StateMisfit(place, "any value", str(new), "whether each fits is not known", True)
    elif "union" in (old.kind, new.kind):
        yield from _union(place, old, new)
    elif old.kind == new.kind == "record":
        yield from _tag(place, old, new)
        yield from _record(place, old, new)
    elif old.kind == new.kind == "row":
        yield from _tag(place, old, new)
        yield from _row(place, old, new)
    elif old.kind == new.kind and len(old.arguments) == len(new.arguments):
        yield from _same_kind(place, old, new)
    elif (old.kind, new.kind) == ("record", "dict") and new.arguments[0].kind in ("str", "any"):
        for field in old.fields:
            yield from _compare(f"{place}.{field.name}", field.shape, new.arguments[1])
    elif old.kind in ("literal", "enum") and new.kind in ("str", "int", "literal", "enum"):
        yield StateMisfit(place, str(old), str(new), "whether each fits is not known", True)
    elif (old.kind, new.kind) != ("int", "float"):
        yield _broken(place, old, new)


def _broken(place: str, old: TypeShape, new: TypeShape) -> StateMisfit:
    return StateMisfit(place, str(old), str(new), "stored values cannot be decoded", False)


def _tag(place: str, old: TypeShape, new: TypeShape) -> Iterator[StateMisfit]:
    if old.tag != new.tag and new.tag:
        yield StateMisfit(place, f"tag {old.tag or 'none'}", f"tag {new.tag}", "stored values cannot be decoded", False)


def _same_kind(place: str, old: TypeShape, new: TypeShape) -> Iterator[StateMisfit]:
    for number, (was, now) in enumerate(zip(old.arguments, new.arguments, strict=True)):
        part = {"dict": ("[key]", "[value]")}.get(old.kind, ("[each]",) if old.kind == "list" else ())
        yield from _compare(place + (part[number] if part else f"[{number}]"), was, now)
    gone = [value for value in old.values if value not in new.values]
    if gone:
        yield StateMisfit(place, f"also {', '.join(gone)}", str(new), "stored values cannot be decoded", False)
    if old.kind == "custom" and old.name != new.name:
        yield _broken(place, old, new)
    if old.kind == "list" and old.name != new.name and new.name in ("set", "frozenset"):
        yield StateMisfit(place, str(old), str(new), "repeated elements would be lost", True)
    if new.limits and new.limits != old.limits:
        yield StateMisfit(place, str(old), str(new), "stored values beyond the new limits cannot be decoded", True)


def _union(place: str, old: TypeShape, new: TypeShape) -> Iterator[StateMisfit]:
    """Each alternative that may be stored has to fit one of the new ones."""
    newer = new.arguments if new.kind == "union" else (new,)
    for was in old.arguments if old.kind == "union" else (old,):
        tries = [list(_compare(place, was, now)) for now in newer if now.kind == was.kind or now.kind == "float"]
        if not tries:
            yield StateMisfit(place, str(was), str(new), "stored values cannot be decoded", False)
        else:
            yield from min(tries, key=lambda found: (any(not each.decodes for each in found), len(found)))


def _record(place: str, old: TypeShape, new: TypeShape) -> Iterator[StateMisfit]:
    before = {field.name: field for field in old.fields}
    after = {field.name: field for field in new.fields}
    for name, field in before.items():
        if name not in after:
            yield _gone(place, field, [each for each in new.fields if each.name not in before], new)
    for name, field in after.items():
        if name in before:
            yield from _field(f"{place}.{name}", before[name], field, sparse=old.sparse)
        elif field.default is None and not field.optional:
            yield _required(place, field)


def _row(place: str, old: TypeShape, new: TypeShape) -> Iterator[StateMisfit]:
    """Fields of an array are known by their places."""
    for was, now in zip(old.fields, new.fields, strict=False):
        yield from _field(f"{place}.{now.name}", was, now, sparse=False)
        if was.name != now.name:
            effect = f"what was stored as {was.name!r} would be read as {now.name!r}"
            yield StateMisfit(f"{place}.{now.name}", f"{was.name!r} at this place", repr(now.name), effect, True)
    for was in old.fields[len(new.fields) :]:
        yield _gone(place, was, [], new)
    for now in new.fields[len(old.fields) :]:
        if now.default is None:
            yield _required(place, now)


def _field(place: str, old: FieldShape, new: FieldShape, *, sparse: bool) -> Iterator[StateMisfit]:
    found = list(_compare(place, old.shape, new.shape))
    yield from found
    may_lack = old.optional or (sparse and old.default is not None)
    if may_lack and new.default is None and not new.optional:
        yield StateMisfit(place, "there only sometimes", "always there", "what lacks it cannot be decoded", False)
    elif not found and old.default is not None and new.default is not None and old.default != new.default:
        effect = "what was stored without the field would read the new default"
        yield StateMisfit(place, f"default {old.default}", f"default {new.default}", effect, True)


def _gone(place: str, field: FieldShape, added: list[FieldShape], new: TypeShape) -> StateMisfit:
    alike = [each for each in added if each.shape == field.shape]
    code = "no such field"
    effect = "its stored values would be dropped"
    if alike:
        code = f"{alike[0].name!r} instead"
        effect += f", and {alike[0].name!r} would read its default {alike[0].default or ''}".rstrip()
    if new.closed:
        effect = "stored values cannot be decoded (forbid_unknown_fields)"
    return StateMisfit(f"{place}.{field.name}", f"{field.shape}", code, effect, not new.closed)


def _required(place: str, field: FieldShape) -> StateMisfit:
    effect = "stored values lack it and cannot be decoded; give it a default"
    return StateMisfit(f"{place}.{field.name}", "no such field", f"{field.shape} without a default", effect, False)
