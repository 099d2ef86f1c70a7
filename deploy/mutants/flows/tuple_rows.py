"""Bugs in rows that are tuples."""

from __future__ import annotations

from deploy.mutants.model import Mutant

TUPLES = ("tests/unit/holon/dataflow/test_tuple_rows.py",)
TYPES = "holon/dataflow/dict_rows.py"
RESULTS = "holon/dataflow/following/results.py"
STEPS = "holon/dataflow/steps.py"

OF_TUPLES = (
    Mutant(
        "tuples of several lengths are one type of rows",
        TYPES,
        "len({len(one.types) for one in tuples}) > 1",
        "not tuples",
        tests=TUPLES,
    ),
    Mutant(
        "parts of tuples that are of several types have the first one's",
        TYPES,
        "part[0] if all(of is part[0] for of in part) else None",
        "part[0]",
        tests=TUPLES,
    ),
    Mutant(
        "parts of all types are taken for constants",
        TYPES,
        "return all(isinstance(of, type) and issubclass(of, _CONSTANT) for of in self.types)",
        "return True",
        tests=TUPLES,
    ),
    Mutant(
        "no tuple goes on by columns behind a filter that is called",
        TYPES,
        "return all(isinstance(of, type) and issubclass(of, _CONSTANT) for of in self.types)",
        "return False",
        tests=TUPLES,
    ),
    Mutant(
        "parts of tuples of several ways are those of the first part",
        RESULTS,
        "joined([(index, one[at]) for index, one in each], count)",
        "joined([(index, one[0]) for index, one in each], count)",
        tests=TUPLES,
    ),
    Mutant(
        "streams of tuples and of values are tuples",
        TYPES,
        "if not tuples or len(tuples) < len(row_types) or",
        "if not tuples or",
        tests=TUPLES,
    ),
    Mutant(
        "a join takes dicts",
        TYPES,
        "(is_struct(row_type) and not is_dict_row(row_type))",
        "is_struct(row_type)",
        tests=("tests/unit/holon/dataflow/test_dict_rows.py",),
    ),
)
