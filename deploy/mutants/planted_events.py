"""Bugs in how events that are one of several Structs become columns."""

from __future__ import annotations

from deploy.mutants.model import Mutant

UNION_EVENTS = ("tests/unit/holon/formats/test_union_events.py",)

EVENTS = (
    Mutant(
        "the Struct of an event has no cell of its own",
        "holon/columnar/structs/tables.py",
        "return (bool(field.path) or field.slot == UNION) and not",
        "return bool(field.path) and not",
        tests=UNION_EVENTS,
    ),
    Mutant(
        "an event that msgspec reads is in the columns of each Struct",
        "holon/columnar/structs/plan.py",
        "return lambda value: value if type(value) is of else None",
        "return lambda value: value",
        tests=UNION_EVENTS,
    ),
    Mutant(
        "columns of one name hide each other",
        "holon/formats/json_columns.py",
        "len(kinds) < sum(one.has_column for one in planned)",
        "len(kinds) < 0",
        tests=UNION_EVENTS,
    ),
)
