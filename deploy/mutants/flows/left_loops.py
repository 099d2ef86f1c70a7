"""Bugs in loops that a turn leaves (``break``, ``return``)."""

from __future__ import annotations

from deploy.mutants.model import Mutant

LEFT = ("tests/unit/holon/dataflow/test_left_loops.py",)
OF_FLOWS = ("tests/unit/holon/dataflow/test_left_loops_of_flows.py",)
LOOPS = "holon/dataflow/following/loops"
ENDS = f"{LOOPS}/ends.py"
CARRYING = f"{LOOPS}/carrying.py"
PATH = "holon/dataflow/following/path.py"

OF_LEFT_LOOPS = (
    Mutant(
        "turns behind the one that leaves a loop have their effects",
        ENDS,
        "ends = np.where(self.exits < 0, self._items.offsets[self._rows + 1], self._places)",
        "ends = self._items.offsets[self._rows + 1]",
        tests=LEFT,
    ),
    Mutant(
        "the last turn that may leave a loop does",
        ENDS,
        "            np.minimum.at(first, row_of[found], places[found])\n",
        "            first[row_of[found]] = places[found]\n",
        tests=OF_FLOWS,
    ),
    Mutant(
        "an item that fails behind the one that leaves fails its row",
        ENDS,
        "            except USER_ERRORS:\n                pass",
        "            except USER_ERRORS:\n                raise",
        tests=LEFT,
    ),
    Mutant(
        "lists of a strict zip may differ where all turns were taken",
        ENDS,
        "        items.check_ends(np.flatnonzero(exits < 0))\n",
        "",
        tests=LEFT,
    ),
    Mutant(
        "lists of a strict zip may not differ where a turn leaves the loop before",
        ENDS,
        "        items.check_ends(np.flatnonzero(exits < 0))\n",
        "        items.check_ends()\n",
        tests=LEFT,
    ),
    Mutant(
        "an item of an inner loop is forgotten where both loops are left",
        ENDS,
        "            found = one.those(found, np.arange(len(index)))\n",
        "            pass\n",
        tests=LEFT,
    ),
    Mutant(
        "names go on behind the turn that leaves a loop",
        CARRYING,
        "    return None if leaf.exit is not None else next(",
        "    return next(",
        tests=LEFT,
    ),
    Mutant(
        "a value that the turn which leaves does not use cannot fail",
        PATH,
        "effects_of([Computed(computed)] if computed else [], exit=number)",
        "effects_of([], exit=number)",
        tests=LEFT,
    ),
    Mutant(
        "inserts of the turn that leaves a loop are lost",
        PATH,
        "        self._notes = [*self._notes, loop, *notes]\n",
        "        self._notes = [*self._notes, loop]\n",
        tests=LEFT,
    ),
    Mutant(
        "a loop behind one that was left has the same items",
        PATH,
        "        self._nones, self._has_none, self.has_raised, self._kinds, self.depth = known\n",
        "        self._nones, self._has_none, self.has_raised, self._kinds, _ = known\n",
        tests=LEFT,
    ),
    Mutant(
        "fields of items are those of rows where two ways give them",
        "holon/dataflow/following/results.py",
        "if isinstance(one.result, Field) and _is_of_rows(one.result) else None",
        "if isinstance(one.result, Field) else None",
        tests=OF_FLOWS,
    ),
    Mutant(
        "the code behind a loop is a part of its turn",
        f"{LOOPS}/turns.py",
        "        return self._frame is not None and self._frame.f_lasti not in self._inside\n",
        "        return False\n",
        tests=LEFT,
    ),
)
