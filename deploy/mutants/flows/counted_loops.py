"""Bugs in loops over ``enumerate``, ``zip``, ``reversed`` and ``range`` of what a record has."""

from __future__ import annotations

from deploy.mutants.model import Mutant

LOOPS = "holon/dataflow/following/loops"
COUNTED = ("tests/unit/holon/dataflow/test_counted_loops.py",)

OF_COUNTED_LOOPS = (
    Mutant(
        "the place of an item is that among the items of all rows",
        f"{LOOPS}/sources.py",
        " - np.repeat(ends - lengths, lengths)\n",
        "\n",
        tests=COUNTED,
    ),
    Mutant(
        "lists of a strict zip may have different lengths",
        f"{LOOPS}/sources.py",
        "[one.lengths for one in sources] if is_strict else []",
        "[]",
        tests=COUNTED,
    ),
    Mutant(
        "a zip takes the first items of all rows",
        f"{LOOPS}/sources.py",
        "np.repeat(begins, lengths) + places_within(lengths)",
        "np.arange(int(lengths.sum()))",
        tests=COUNTED,
    ),
    Mutant(
        "a list in reverse begins one too early",
        f"{LOOPS}/sources.py",
        "    lasts = np.cumsum(source.lengths) - 1\n",
        "    lasts = np.cumsum(source.lengths) - 2\n",
        tests=COUNTED,
    ),
    Mutant(
        "a range of steps leaves its last number out",
        f"{LOOPS}/sources.py",
        "np.maximum(-((begins - ends) // steps), 0)",
        "np.maximum((ends - begins) // steps, 0)",
        tests=COUNTED,
    ),
    Mutant(
        "a place is counted from 0 whatever it starts at",
        f"{LOOPS}/counting.py",
        "    return place if start == 0 and type(start) is int else",
        "    return place if type(start) is int else",
        tests=COUNTED,
    ),
    Mutant(
        "a second loop over an iterator finds its items again",
        f"{LOOPS}/counting.py",
        "        self._is_taken = True\n",
        "",
        tests=COUNTED,
    ),
    Mutant(
        "a loop within another one goes over an iterator of outside each time",
        f"{LOOPS}/counting.py",
        " or self._scope is not self._over.path.scope:",
        ":",
        tests=COUNTED,
    ),
    Mutant(
        "a method that is not called may be gone over",
        f"{LOOPS}/views.py",
        "        if not self._is_called:\n",
        "        if False:\n",
        tests=COUNTED,
    ),
)
