"""Bugs in events and rows that are dataclasses, TypedDicts or NamedTuples."""

from __future__ import annotations

from deploy.mutants.model import Mutant

FORMATS = ("tests/unit/holon/formats/test_plain_types.py",)
FLOWS = ("tests/unit/holon/dataflow/test_plain_events.py",)
RESULTS = ("tests/unit/holon/dataflow/test_plain_results.py",)
TYPES = "holon/columnar/event_types.py"
PARTS = "holon/dataflow/following/parts.py"
PLACEHOLDERS = "holon/dataflow/following/placeholders.py"
SCAN = "holon/dataflow/code_scan.py"

OF_PLAIN_TYPES = (
    Mutant(
        "a dataclass that checks itself is read as columns",
        TYPES,
        '    if hasattr(of, "__post_init__"):\n        return f"{of.__name__} checks itself',
        '    if False:\n        return f"{of.__name__} checks itself',
        tests=FORMATS,
    ),
    Mutant(
        "a TypedDict with keys that may be missing is read as columns",
        TYPES,
        "    if not all(field.required for field in found):",
        "    if not found:",
        tests=FORMATS,
    ),
    Mutant(
        "a dataclass whose assignments run code is read as columns",
        TYPES,
        "        if member is not usual and not is_generated(member):",
        "        if False:",
        tests=FORMATS,
    ),
    Mutant(
        "the objects of events that msgspec has read are lost",
        "holon/formats/json_columns.py",
        "columns: dict[str, Column] = {ITSELF: events} if self._has_events else {}",
        "columns: dict[str, Column] = {}",
        tests=FORMATS,
    ),
    Mutant(
        "a field that a dataclass may lack is one that it needs",
        TYPES,
        "default = field.default if field.required or has_default else msgspec.UNSET",
        "default = field.default",
        tests=FORMATS,
    ),
    Mutant(
        "objects of a TypedDict are made of its columns, in the order of the type",
        "holon/dataflow/outputs/json_rows.py",
        "    elif is_plain_dict(struct):  # keys come as they came in the record\n        return None\n",
        "",
        tests=FLOWS,
    ),
    Mutant(
        "a NamedTuple is written as an object",
        "holon/dataflow/outputs/json_rows.py",
        "    is_array = is_plain_tuple(struct)\n",
        "    is_array = False\n",
        tests=FLOWS,
    ),
    Mutant(
        "get of a key that no record has gives None",
        PARTS,
        "return value_of_key(self._owner, key, keys) if key in keys else default",
        "return value_of_key(self._owner, key, keys) if key in keys else None",
        tests=FLOWS,
    ),
    Mutant(
        "steps behind a filter that may change a dataclass read columns",
        "holon/dataflow/dict_rows.py",
        "return not dataclasses.is_dataclass(row_type) or row_type.__dataclass_params__.frozen",
        "return True",
        tests=FLOWS,
    ),
    Mutant(
        "a default that a function makes is made once for all rows",
        SCAN,
        "        if any(map(_has_factories, structs)):",
        "        if False:",
        tests=RESULTS,
    ),
    Mutant(
        "an __init__ of a user's own is followed",
        TYPES,
        '    return code.co_qualname.startswith("__create_fn__.<locals>.") or code.co_filename in _GENERATING',
        "    return True",
        tests=(*RESULTS, *FORMATS),
    ),
    Mutant(
        "parts of a NamedTuple are taken in another order",
        PLACEHOLDERS,
        "return iter([getattr(self, name) for name in field_types(self._holon_type)])",
        "return iter([getattr(self, name) for name in sorted(field_types(self._holon_type))])",
        tests=FLOWS,
    ),
)
