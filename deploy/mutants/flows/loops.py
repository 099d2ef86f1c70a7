"""Bugs in loops over the items of a record, comprehensions, and what is reduced of items."""

from __future__ import annotations

from deploy.mutants.model import Mutant

LOOPS = "holon/dataflow/following/loops"
TURNS = ("tests/unit/holon/dataflow/test_loops.py",)
REDUCED = ("tests/unit/holon/dataflow/test_reductions.py",)
FLAT = ("tests/unit/holon/dataflow/test_flat_maps.py",)
EFFECTS = "holon/dataflow/record_functions/effects.py"

WRONGLY = ("tests/unit/holon/dataflow/test_wrongly_followed.py",)
LACKING = ("tests/unit/holon/dataflow/test_lacking_items.py",)

OF_ITEMS = (
    Mutant(
        "a field of an item is read of all items, where one lacks it",
        "holon/dataflow/following/loops/gathered.py",
        'if len(path) == 1 or path[-1].startswith(" "):',
        "if True:",
        tests=LACKING,
    ),
    Mutant(
        "a field of an item is read of all items where names are handed on",
        "holon/dataflow/following/loops/carrying.py",
        "            except USER_ERRORS:\n                self._fields[path] = None\n",
        "            except USER_ERRORS:\n                raise\n",
        tests=LACKING,
    ),
    Mutant(
        "a row that fails by columns alone is dead",
        "holon/dataflow/steps.py",
        "        value = called_itself(self.function, rows, error)\n",
        "        raise error\n",
        tests=WRONGLY,
    ),
    Mutant(
        "a key or a filter that fails by columns alone is dead",
        "holon/dataflow/steps.py",
        "    return [called_itself(function, rows, error)]\n",
        "    raise error\n",
        tests=WRONGLY,
    ),
    Mutant(
        "objects of lists within lists are taken for columns",
        "holon/dataflow/following/loops/sources.py",
        "return lists is not None and lists.lengths() is not None",
        "return lists is not None",
        tests=LACKING,
    ),
    Mutant(
        "elements of items have the places of the items",
        EFFECTS,
        "part._replace(places=places[index[part.places]])",
        "part._replace(places=part.places)",
        tests=TURNS,
    ),
    Mutant(
        "results of items have the places of the items",
        EFFECTS,
        "one._replace(places=places[index[one.places]])",
        "one._replace(places=one.places)",
        tests=TURNS,
    ),
    Mutant(
        "results of one turn come statement by statement",
        EFFECTS,
        '    order = np.argsort(places, kind="stable")\n',
        "    order = np.arange(len(places))\n",
        tests=TURNS,
    ),
    Mutant(
        "a record without items fails at nothing that comes before its loop",
        f"{LOOPS}/items.py",
        "        for one in loop.before:\n            evaluate(one, rows)\n",
        "",
        tests=TURNS,
    ),
    Mutant(
        "a value that a turn does not use cannot fail",
        EFFECTS,
        "                    for one in note.expressions:\n                        evaluate(one, taken)\n",
        "                    pass\n",
        tests=TURNS,
    ),
    Mutant(
        "a value of a generator expression that may raise is left out",
        f"{LOOPS}/reducing.py",
        "        if leaf.raises and len(taken):\n            raise WayRaises\n",
        "",
        tests=TURNS,
    ),
    Mutant(
        "a turn goes only where its conditions are true",
        f"{LOOPS}/turns.py",
        "        self._waiting += further_ways(answers, taken)\n",
        "",
        tests=TURNS,
    ),
    Mutant(
        "words end where another text begins",
        f"{LOOPS}/words.py",
        "        cut[dense.starts], cut[dense.ends] = True, True\n",
        "        cut[dense.starts] = True\n",
        tests=("tests/unit/holon/dataflow/test_words.py",),
    ),
    Mutant(
        "blanks of more than one byte are letters",
        f"{LOOPS}/words.py",
        "        if _may_have_wide_blanks(dense.buffer):\n",
        "        if False:\n",
        tests=("tests/unit/holon/dataflow/test_words.py",),
    ),
    Mutant(
        "texts that are not ASCII keep their case",
        "holon/columnar/casing.py",
        "return made.replaced(rows, list(map(method, dense.take(rows)))) if len(rows) else made",
        "return made",
        tests=("tests/unit/holon/dataflow/test_words.py",),
    ),
    Mutant(
        "the sum of no floats is a float",
        f"{LOOPS}/reducing.py",
        "    if not _ADDS_PLAINLY or most > _MOST_TURNS or not int(lengths.min()):\n",
        "    if not _ADDS_PLAINLY or most > _MOST_TURNS:\n",
        tests=REDUCED,
    ),
    Mutant(
        "a sum of ints wraps",
        f"{LOOPS}/reducing.py",
        "        if largest * most > _MOST:\n",
        "        if False:\n",
        tests=REDUCED,
    ),
    Mutant(
        "an extreme of floats is the last of equal ones",
        f"{LOOPS}/reducing.py",
        "_BETTER = {min: operator.lt, max: operator.gt}",
        "_BETTER = {min: operator.le, max: operator.ge}",
        tests=REDUCED,
    ),
    Mutant(
        "any looks at items behind the first one that is true",
        f"{LOOPS}/reducing.py",
        "            if len(rows) == 1:  # Python",
        "            if False:  # Python",
        tests=REDUCED,
    ),
    Mutant(
        "a list of a comprehension is made as far as it is needed",
        f"{LOOPS}/reducing.py",
        "        if self._is_list:\n            values = list(values)\n",
        "",
        tests=REDUCED,
    ),
    Mutant(
        "results of a flat_map come way by way",
        "holon/dataflow/expressions.py",
        '    order = np.argsort(index, kind="stable")\n',
        "    order = np.arange(len(index))\n",
        tests=FLAT,
    ),
    Mutant(
        "a list may be made twice",
        f"{LOOPS}/turns.py",
        "            if not self._is_inner and self._path.is_within(made.scope):\n",
        "            if False:\n",
        tests=FLAT,
    ),
    Mutant(
        "values of several ways are in the order of the ways",
        "holon/dataflow/expressions.py",
        '    order = np.argsort(index, kind="stable")\n',
        "    order = np.arange(len(index))\n",
        tests=REDUCED,
    ),
)
