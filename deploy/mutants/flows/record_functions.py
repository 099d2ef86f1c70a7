"""Bugs in functions of single records that are followed, and in runs that go by columns."""

from __future__ import annotations

from deploy.mutants.model import Mutant

FOLLOWED = (
    "tests/unit/holon/dataflow/test_record_functions.py",
    "tests/unit/holon/tracks/test_column_runs.py",
    "tests/laws/test_record_functions.py",
)
STAND_INS = "holon/dataflow/record_functions/stand_ins.py"
FUNCTIONS = "holon/dataflow/record_functions/followed.py"
RUNS = "holon/tracks/column_runs.py"

RECORD_FUNCTIONS = (
    Mutant(
        "what a batch that failed has emitted is emitted",
        RUNS,
        "            self._outbox.abandon_batch()\n",
        "            self._outbox.leave_batch()\n",
        tests=FOLLOWED,
    ),
    Mutant(
        "results of a way are of the first rows",
        "holon/dataflow/record_functions/effects.py",
        "ColumnOutputs(output, json_rows(one.rows), one.places, one.keys)",
        "ColumnOutputs(output, json_rows(one.rows), np.arange(len(one.places)), one.keys)",
        tests=FOLLOWED,
    ),
    Mutant(
        "outputs with an encoding of their own are written as JSON",
        FUNCTIONS,
        "if one.encode is encode_json and name not in reserved",
        "if name not in reserved",
        tests=FOLLOWED,
    ),
    Mutant(
        "methods of a followed function may format texts",
        STAND_INS,
        "            self._holon_path.refuse_formats()\n",
        "",
        tests=FOLLOWED,
    ),
    Mutant(
        "fields that a method asks for are never None",
        STAND_INS,
        "            if asks_none and not self._asks_none:\n                raise AsksNone\n",
        "",
        tests=FOLLOWED,
    ),
    Mutant(
        "functions nested in others insert into the states of these",
        STAND_INS,
        'self._holon_path, f"{self._holon_at}{name}."',
        "self._holon_path, self._holon_at",
        tests=FOLLOWED,
    ),
    Mutant(
        "a function that is an attribute of an instance is its method",
        STAND_INS,
        "return method if name in vars(self._holon_function) else partial(method, self)",
        "return partial(method, self)",
        tests=FOLLOWED,
    ),
    Mutant(
        "a function that returns something is followed",
        STAND_INS,
        "    if result is not None:",
        "    if isinstance(result, str):",
        tests=FOLLOWED,
    ),
    Mutant(
        "values that a function computes and does not insert are left out",
        "holon/dataflow/following/path.py",
        "[*self.notes, Computed(unused)]) if unused else made",
        "self.notes)",
        tests=("tests/unit/holon/dataflow/test_loops.py",),
    ),
    Mutant(
        "an insert counts as in time while a function is followed",
        STAND_INS,
        "    __bool__ = __eq__ = __ne__",
        "    __eq__ = __ne__",
        tests=FOLLOWED,
    ),
    Mutant(
        "records themselves are inserted by columns",
        STAND_INS,
        "if isinstance(element.result, Field) and not element.result.path:",
        "if isinstance(element.result, Field) and element.result.path == ('',):",
        tests=FOLLOWED,
    ),
    Mutant(
        "states of later stages are inserted into",
        FUNCTIONS,
        "isinstance(state, Windowed) and state.stage == 0 and state.bottom.gathers",
        "isinstance(state, Windowed) and state.bottom.gathers",
        tests=FOLLOWED,
    ),
    Mutant(
        "rows of a way on which the function raises are left out",
        "holon/dataflow/record_functions/effects.py",
        "        if leaf.raises and len(taken):\n            raise WayRaises\n",
        "",
        tests=FOLLOWED,
    ),
    Mutant(
        "elements of several inserts are in the order of the inserts",
        "holon/dataflow/expressions.py",
        'order = np.argsort(index, kind="stable")',
        "order = np.arange(len(index))",
        tests=FOLLOWED,
    ),
    Mutant(
        "rows of one way of two are taken for all",
        "holon/dataflow/record_functions/effects.py",
        "None if is_whole else part.places",
        "None",
        tests=FOLLOWED,
    ),
    Mutant(
        "a field that may be None is a record's time",
        FUNCTIONS,
        "if not others and name in field_types(struct) and not may_be_none(struct, name):",
        "if not others and name in field_types(struct):",
        tests=FOLLOWED,
    ),
    Mutant(
        "ints of more than 64 bits are dead",
        RUNS,
        "        if any(dead.reason.endswith(TOO_LARGE) for dead in admitted.dead):\n            return None\n",
        "",
        tests=FOLLOWED,
    ),
    Mutant(
        "elements are not checked before the first is inserted",
        RUNS,
        "            self._scope.windowed[one.state].bottom.check_many(one.elements)\n",
        "",
        tests=FOLLOWED,
    ),
    Mutant(
        "times are not checked before the first element is inserted",
        RUNS,
        "check_heights(one.state, one.elements, len(checked_times(one.state, one.ts_ms)))",
        "check_heights(one.state, one.elements, len(one.ts_ms))",
        tests=FOLLOWED,
    ),
    Mutant(
        "runs that went one by one are tried at once again",
        RUNS,
        "min(max(1, 2 * self._pause), LONGEST_PAUSE)",
        "0",
        tests=FOLLOWED,
    ),
    Mutant(
        "rows that are late for a state are forgotten",
        "holon/tracks/record_track.py",
        "            self._settle_rows(run, done)\n",
        "            self._settle(run, done)\n",
        tests=FOLLOWED,
    ),
    Mutant(
        "a column of floats with NaN needs no check",
        "wcrdt/lattice.py",
        "bool(np.minimum.reduce(elements) >= self.least)",
        "not np.minimum.reduce(elements) < self.least",
        tests=("tests/unit/wcrdt/test_checked_columns.py",),
    ),
    Mutant(
        "keys of any column need no check",
        "wcrdt/lattices/keyed/elements.py",
        "if inner.gathers and are_known_elements(keys):",
        "if inner.gathers:",
        tests=("tests/unit/wcrdt/test_checked_columns.py",),
    ),
    Mutant(
        "parts of a map whose entries decide are checked as if there were none",
        "wcrdt/lattices/keyed/elements.py",
        "if inner.gathers and are_known_elements(keys):",
        "if are_known_elements(keys):",
        tests=("tests/unit/wcrdt/test_checked_columns.py",),
    ),
    Mutant(
        "Decimals of any size need no check",
        "wcrdt/lattice.py",
        "return found is not None and not np.count_nonzero(np.abs(found[1]) > _SMALL_EXPONENT)",
        "return found is not None",
        tests=("tests/unit/wcrdt/test_checked_columns.py",),
    ),
)
