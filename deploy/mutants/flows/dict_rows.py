"""Bugs in rows that are dicts."""

from __future__ import annotations

from deploy.mutants.model import Mutant

DICTS = ("tests/unit/holon/dataflow/test_dict_rows.py",)
TYPES = "holon/dataflow/dict_rows.py"
PLACEHOLDERS = "holon/dataflow/following/placeholders.py"
STEPS = "holon/dataflow/steps.py"

OF_DICTS = (
    Mutant(
        "rows of dicts are Structs where objects are asked for",
        TYPES,
        "    if is_dict_row(struct):\n        return [dict(",
        "    if False:\n        return [dict(",
        tests=DICTS,
    ),
    Mutant(
        "dicts with equal keys in another order are one type of rows",
        TYPES,
        "len({one.__struct_fields__ for one in row_types}) > 1",
        "len({frozenset(one.__struct_fields__) for one in row_types}) > 1",
        tests=DICTS,
    ),
    Mutant(
        "values that are of several types have the first one's",
        TYPES,
        "of if all(one[name] is of for one in each) else None",
        "of",
        tests=DICTS,
    ),
    Mutant(
        "all rows have one list of constants",
        TYPES,
        "return [deepcopy(self._value) for _ in range(rows)]",
        "return [self._value] * rows",
        tests=DICTS,
    ),
    Mutant(
        "a followed function changes the dict that it is given",
        PLACEHOLDERS,
        "    clear = pop = popitem = setdefault = update = _refused  # type: ignore[assignment]\n\n\ndef row_of",
        "\n\ndef row_of",
        tests=DICTS,
    ),
    Mutant(
        "a followed function assigns items of the dict that it is given",
        PLACEHOLDERS,
        "    __setitem__ = __delitem__ = __ior__ = _refused  # type: ignore[assignment]\n    clear",
        "    clear",
        tests=DICTS,
    ),
    Mutant(
        "steps behind a filter that may change dicts read columns",
        STEPS,
        "return OBJECTS if self._may_change_rows else self.above.row_type",
        "return self.above.row_type",
        tests=DICTS,
    ),
    Mutant(
        "turns of a loop may change a dict in a function that they call",
        "holon/dataflow/code_scan.py",
        "if self.changes and (self.has_loops or not may_change):",
        "if self.changes and not may_change:",
        tests=DICTS,
    ),
    Mutant(
        "methods may change a dict of their caller",
        "holon/dataflow/code_scan.py",
        "if self.changes and (self.has_loops or not may_change):",
        "if self.changes and self.has_loops:",
        tests=DICTS,
    ),
)
