"""Bugs in names that turns of a loop hand on."""

from __future__ import annotations

from deploy.mutants.model import Mutant

NAMES = ("tests/unit/holon/dataflow/test_carried_names.py",)
LOOPS = "holon/dataflow/following/loops"
CARRYING = f"{LOOPS}/carrying.py"
TURNS = f"{LOOPS}/turns.py"

OF_NAMES = (
    Mutant(
        "all turns find the values before the first one",
        CARRYING,
        "return self._values[path[0].number] if own",
        "return [0] * len(self) if own",
        tests=NAMES,
    ),
    Mutant(
        "names of long lists have the values before the turns that rows take by themselves",
        CARRYING,
        "            behind.append(values)\n",
        "            behind.append(before[-1] if before else values)\n",
        tests=NAMES,
    ),
    Mutant(
        "rows that go by themselves begin with the first item again",
        CARRYING,
        "for place in range(int(offsets[row]) + turn, int(offsets[row + 1])):",
        "for place in range(int(offsets[row]), int(offsets[row + 1])):",
        tests=NAMES,
    ),
    Mutant(
        "a group of rows takes items of another one's turn",
        CARRYING,
        "places = offsets[left.rows] + turn",
        "places = offsets[left.rows] + min(turn, 1)",
        tests=NAMES,
    ),
    Mutant(
        "rows whose values are of two types are joined in another order",
        CARRYING,
        "return _Group(np.concatenate([group.rows for group in groups]), values)",
        "return _Group(np.concatenate([group.rows for group in groups[::-1]]), values)",
        tests=NAMES,
    ),
    Mutant(
        "what a turn computes and does not use cannot fail",
        CARRYING,
        "            for one in note.expressions:\n                of(one)\n",
        "            pass\n",
        tests=NAMES,
    ),
    Mutant(
        "the names of a function keep their values in the next turn",
        TURNS,
        "        give(frame, {name: self._value(field) for name, field in zip(self._names, found, strict=True)})\n",
        "",
        tests=NAMES,
    ),
    Mutant(
        "behind a loop names have the values of its last way",
        TURNS,
        "        give(frame, {name: self._value(one) for name, one in zip(self._names, found, strict=True)})\n",
        "",
        tests=NAMES,
    ),
    Mutant(
        "a name that is None is none behind its loop",
        TURNS,
        "return None if parts_at_none(expression, self._path) else self._values.placeholder(expression, self._path)",
        "return self._values.placeholder(expression, self._path)",
        tests=NAMES,
    ),
    Mutant(
        "a loop that hands names on and inserts has no effect",
        TURNS,
        "elif loop.has_effects or not (self._names or loop.exits):",
        "elif not (self._names or loop.exits):",
        tests=NAMES,
    ),
    Mutant(
        "what a loop hands on may be left out where it fails",
        TURNS,
        "        self._path.made.append((folded,))\n",
        "",
        tests=NAMES,
    ),
    Mutant(
        "functions within may read names that are handed on",
        f"{LOOPS}/reading.py",
        "sorted(stored & (held | (read[loop] & cells)))",
        "sorted(stored & set())",
        tests=NAMES,
    ),
)
