"""The record of a job's program on its log: the code that its results follow from and the types of its state.

Two hashes for two questions: ``code`` shows whether results could differ, ``states`` whether stored state can be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holon.fingerprint.fitting import StateMisfit, misfits
from holon.fingerprint.reach import CodePrint
from holon.fingerprint.schema import TypeShape

FORMAT = 2
"""Of the fingerprint. The first one (of releases that recorded none) saw the functions of the job and no types."""
_SHOWN = 8
_MOST_PARTS, _MOST_NAMES = 5_000, 200_000
"""A version has to fit into a control record."""


class JobVersion(msgspec.Struct, frozen=True, omit_defaults=True):
    """``code``: digest; ``parts``: definition -> digest, for messages; ``initial``: initial values of typed states."""

    code: str
    states: dict[str, TypeShape] = {}
    initial: dict[str, Any] = {}
    parts: dict[str, str] = {}
    format: int = 1

    @classmethod
    def of(
        cls, code: CodePrint, states: Mapping[str, TypeShape], initial: Mapping[str, Any] | None = None
    ) -> JobVersion:
        """As the program is now."""
        size = sum(len(name) for name in code.parts)
        parts = code.parts if len(code.parts) <= _MOST_PARTS and size <= _MOST_NAMES else {}
        return cls(code.digest, dict(states), dict(initial or {}), parts, FORMAT)

    def encode(self) -> str:
        return msgspec.json.encode(self, order="deterministic").decode()

    @classmethod
    def decode(cls, text: str) -> JobVersion | None:
        """None: no version, or one that this release cannot read."""
        try:
            found = msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return found if found.format == FORMAT else None

    def changed_since(self, before: JobVersion) -> str:
        """Which definitions differ, in words."""
        if not before.parts or not self.parts:
            return "its definitions are not known one by one"
        names = CodePrint(self.parts).changed(before.parts)
        shown = ", ".join(_called(name) for name in names[:_SHOWN])
        return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")

    def misfits(self, stored: JobVersion) -> list[StateMisfit]:
        """Where what is stored does not fit the types that this version has."""
        found = misfits(stored.states, self.states)
        for name in sorted(stored.initial.keys() & self.initial.keys()):
            for place, was, now in _differing(name, stored.initial[name], self.initial[name]):
                effect = "partitions that have begun keep the old one"
                found.append(StateMisfit(place, f"initial value {was!r}", f"initial value {now!r}", effect, True))
        return found


def _differing(place: str, was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """Of two initial values, in what both have: fields that come or go are for the types to judge."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted(was.keys() & now.keys()):
            yield from _differing(f"{place}.{key}", was[key], now[key])
    elif isinstance(was, list) and isinstance(now, list):
        for number, (old, new) in enumerate(zip(was, now, strict=False)):
            yield from _differing(f"{place}[{number}]", old, new)
    elif was != now:
        yield place, was, now


def _called(part: str) -> str:
    if part == "(bytecode)":
        return "Python's version"
    return f"objects of {part.removesuffix('()')}" if part.endswith("()") else part.strip("()")
