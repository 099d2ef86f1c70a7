"""Bugs in idioms: members of sets, lists that are made, values that may be None, ``join``, enums; and types of keys."""

from __future__ import annotations

from deploy.mutants.model import Mutant

FOLLOWING = "holon/dataflow/following"
KEYS = ("tests/unit/holon/dataflow/test_key_types.py",)
IDIOMS = ("tests/unit/holon/dataflow/test_idioms.py",)

OF_IDIOMS = (
    Mutant(
        "a quotient may be a key",
        "holon/dataflow/following/parts.py",
        'and (name == "/" or float in kinds)',
        "and float in kinds",
        tests=KEYS,
    ),
    Mutant(
        "a sum with a float may be a key",
        "holon/dataflow/following/parts.py",
        'and (name == "/" or float in kinds)',
        'and name == "/"',
        tests=KEYS,
    ),
    Mutant(
        "a member of a set is looked for among different values alone",
        f"{FOLLOWING}/tables.py",
        "np.fromiter(map(self, distinct), np.bool_, len(distinct))[numbers]",
        "np.fromiter(map(self, distinct), np.bool_, len(distinct))[: len(values)]",
        tests=IDIOMS,
    ),
    Mutant(
        "an item of the row before is an item of a row",
        "holon/dataflow/arithmetic.py",
        "    return before[offsets[1:]] > before[offsets[:-1]]\n",
        "    return before[offsets[1:]] > before[np.maximum(offsets[:-1] - 1, 0)]\n",
        tests=IDIOMS,
    ),
    Mutant(
        "a list with one item is empty",
        "holon/dataflow/arithmetic.py",
        "        return lengths > 0\n",
        "        return lengths > 1\n",
        tests=IDIOMS,
    ),
    Mutant(
        "a member that one of two ways gives is compared by `is`",
        f"{FOLLOWING}/rewritten_code.py",
        " or number < 2 or step.is_jump_target:\n",
        " or number < 2:\n",
        tests=IDIOMS,
    ),
    Mutant(
        "`is not` of a member is `is`",
        f"{FOLLOWING}/rewritten_code.py",
        "        instructions[identity.step.offset] = _CONTAINS\n",
        "        instructions[identity.step.offset : identity.step.offset + 2] = bytes([_CONTAINS, 0])\n",
        tests=IDIOMS,
    ),
    Mutant(
        "members of an enum are the first that is asked for",
        f"{FOLLOWING}/tables.py",
        "        return IdentityStandIn(getattr(self._enum, name))\n",
        "        return IdentityStandIn(next(iter(self._enum)))\n",
        tests=IDIOMS,
    ),
    Mutant(
        "code with many constants has more of them than a byte counts",
        f"{FOLLOWING}/rewritten_code.py",
        "    if len(code.co_consts) > MOST_CONSTANTS or len(code.co_names) > _MOST_NAMES or not",
        "    if not",
        tests=IDIOMS,
    ),
    Mutant(
        "a part of a tuple may be a key whatever its type",
        "holon/dataflow/aggregations.py",
        'of, what = key.type, "this value"',
        'of, what = None, "this value"',
        tests=KEYS,
    ),
    Mutant(
        "a comparison may be a key",
        "holon/dataflow/following/parts.py",
        "        return None if None in kinds else bool\n",
        "        return None\n",
        tests=KEYS,
    ),
    Mutant(
        "two lists that are made alike are one",
        f"{FOLLOWING}/column_functions.py",
        "        self._function = function\n\n",
        "        self._function = function\n        self.key = (function,)\n\n",
        tests=IDIOMS,
    ),
    Mutant(
        "the value of an enum is its name",
        f"{FOLLOWING}/placeholders.py",
        'made = self._holon_apply(f".{name}", PartOfEach(name))',
        'made = self._holon_apply(f".{name}", PartOfEach("name"))',
        tests=IDIOMS,
    ),
    Mutant(
        "a property of an enum is taken for its value",
        f"{FOLLOWING}/declared.py",
        'if each.__module__ != "enum" for name in ("name", "value"))',
        'if each.__module__ == "enum." for name in ("name", "value"))',
        tests=IDIOMS,
    ),
    Mutant(
        "a function that asks for no None may not find one",
        "holon/dataflow/tracing.py",
        "        if asks_none or not checked:\n            raise\n",
        "        raise\n",
        tests=IDIOMS,
    ),
    Mutant(
        "a list may be sorted backwards though nobody said so",
        f"{FOLLOWING}/loops/stand_ins.py",
        "        make = partial(function, **named) if named else function\n",
        "        make = function\n",
        tests=IDIOMS,
    ),
    Mutant(
        "a text joins in front of the first, too",
        f"{FOLLOWING}/loops/stand_ins.py",
        "        return self._join(values)\n",
        '        return self._join(("", *values))\n',
        tests=IDIOMS,
    ),
    Mutant(
        "the next constant of a code joins",
        f"{FOLLOWING}/rewritten_code.py",
        "            added[type(one), one] = len(constants)\n",
        "            added[type(one), one] = len(constants) - 1\n",
        tests=IDIOMS,
    ),
)
