"""Bugs in sessions (combined states, slices, which session takes which) and in windows of a time zone."""

from __future__ import annotations

from deploy.mutants.model import Mutant

SESSIONS_OF_FLOWS = (
    "tests/unit/holon/dataflow/test_sessions.py",
    "tests/laws/test_sessions_of_sorted_rows.py",
)
RULES = ("tests/unit/holon/dataflow/test_session_rules.py",)
_MANY_KEYS = "tests/laws/test_sessions_of_many_keys.py"
SORTED = (f"{_MANY_KEYS}::test_sessions_of_many_keys_are_those_of_sorted_rows",)
LET_GO = (f"{_MANY_KEYS}::test_members_of_sessions_that_have_closed_are_let_go",)
FIRST_RELEASE = (f"{_MANY_KEYS}::test_a_job_goes_on_from_checkpoints_of_the_first_release",)
FEW_COME = (
    f"{_MANY_KEYS}::test_where_few_keys_come_and_many_sessions_are_open_these_become_objects_and_columns_again",
)
GAP_APART = (f"{_MANY_KEYS}::test_rows_a_gap_apart_are_together_and_later_ones_are_not",)
AGAIN = (f"{_MANY_KEYS}::test_sessions_are_columns_again_after_a_key_of_another_kind",)
FORMS = ("tests/laws/test_open_sessions.py",)
COLUMNS = ("tests/laws/test_combined_columns.py",)
ZONES = ("tests/unit/wcrdt/test_time_zones.py",)

SESSIONS = (
    Mutant(
        "a time on the border of two days belongs to the earlier one",
        "wcrdt/windows/days.py",
        'np.searchsorted(borders, ts_ms, side="right")',
        'np.searchsorted(borders, ts_ms, side="left")',
        tests=ZONES,
    ),
    Mutant(
        "every day of a zone is as long",
        "wcrdt/windows/assigners.py",
        "return Window(*(self._days.start_ms(border // DAY_MS) for border in (start, start + self.size_ms)))",
        "return Window(self._days.start_ms(start // DAY_MS), self._days.start_ms(start // DAY_MS) + self.size_ms)",
        tests=ZONES,
    ),
    Mutant(
        "rules of a time zone are not in the fingerprint",
        "wcrdt/windows/assigners.py",
        "{self._days.zone} {self._days.digest}",
        "{self._days.zone}",
        tests=ZONES,
    ),
    Mutant(
        "counts of two windows are combined without those of the second",
        "wcrdt/lattices/tallies.py",
        "        self.absorb(theirs, 0)\n",
        "",
        tests=("tests/unit/wcrdt/test_lattices_collections.py",),
    ),
    Mutant(
        "a type with a merge of its own inherits that it combines",
        "wcrdt/lattice.py",
        "            cls.combines = False\n",
        "            pass\n",
        tests=("tests/unit/wcrdt/test_lattices_laws.py",),
    ),
    Mutant(
        "rows that are exactly a gap apart are of two sessions",
        "holon/dataflow/sessions/objects.py",
        "session[LAST].value > windows.gap_ms",
        "session[LAST].value >= windows.gap_ms",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "no slice is due for the end of a session",
        "holon/dataflow/sessions/step.py",
        "for times in (ts_ms, np.minimum(ts_ms + self.session.gap_ms, MAX_TS_MS - 1)):",
        "for times in (ts_ms,):",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "a session is due in the first slice of a batch alone",
        "holon/dataflow/sessions/step.py",
        "return changes[first]",
        "return changes[first][:1]",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "the slice of a row of a session is judged late at the row of another",
        "holon/dataflow/sessions/step.py",
        "first if rows is None else rows[first])",
        "first[-1:].repeat(len(first)) if rows is None else rows[-1:].repeat(len(first)))",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "every partition answers for all sessions from its number on",
        "holon/dataflow/sessions/shards.py",
        "shard_of(key, partitions) == shard)",
        "shard_of(key, partitions) <= shard)",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "one partition answers for all sessions",
        "holon/dataflow/sessions/shards.py",
        "shard_of(key, partitions) == shard)",
        "shard == 0)",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "every partition answers for the sessions of a slice of columns from its number on",
        "holon/dataflow/sessions/shards.py",
        "parted.borders[shard] : parted.borders[shard + 1]",
        "parted.borders[0] : parted.borders[shard + 1]",
        tests=SORTED,
    ),
    Mutant(
        "the sessions of a slice of columns are those of another shard than of one of objects",
        "holon/dataflow/sessions/shards.py",
        'np.argsort(shards, kind="stable"), borders',
        "np.arange(len(shards)), borders",
        tests=SORTED,
    ),
    Mutant(
        "the slice that was parted last is taken for the next one",
        "holon/dataflow/sessions/shards.py",
        "known[0] is found and ",
        "",
        tests=FORMS,
    ),
    Mutant(
        "negative ints are of the shard of their digits",
        "holon/dataflow/sessions/shards.py",
        "ends - digits - (numbers < 0), ends",
        "ends - digits, ends",
        tests=FORMS,
    ),
    Mutant(
        "what is left of a text behind its last word is not in its shard",
        "holon/outputs/partitioner.py",
        "        h[at] = (h[at] ^ _words(rows, at, whole[at])) * _M32\n",
        "        pass\n",
        tests=FORMS,
    ),
    Mutant(
        "a session closes though rows have come since it was due",
        "holon/dataflow/sessions/objects.py",
        "if key in sessions and due_ms(sessions[key], windows) < end_ms:",
        "if key in sessions:",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "sessions that were restored are never due",
        "holon/dataflow/sessions/objects.py",
        "        for key, session in sessions.items():\n            self._note(key, session, windows)\n",
        "",
        tests=SESSIONS_OF_FLOWS,
        case="flow-sessions",
    ),
    Mutant(
        "a session goes on in the checkpoint as it was at its first slice",
        "holon/dataflow/sessions/open_sessions.py",
        "        self.states = {}\n",
        "",
        tests=SESSIONS_OF_FLOWS,
        case="flow-sessions",
    ),
    Mutant(
        "sessions that have closed stay open",
        "holon/dataflow/sessions/objects.py",
        "closed.append((key, sessions.pop(key)))",
        "closed.append((key, sessions[key]))",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "sessions leave in the order in which they began",
        "holon/dataflow/sessions/columns.py",
        "(order_key(session[0]), session[1][FIRST].value)",
        "session[1][FIRST].value",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "open sessions that are columns leave in the order in which they began",
        "holon/dataflow/sessions/columns.py",
        "np.lexsort([first, *keys.sort_columns()[::-1]])",
        'np.argsort(first, kind="stable")',
        tests=FORMS,
    ),
    Mutant(
        "a lattice that does not combine is taken for sessions",
        "holon/dataflow/sessions/step.py",
        "if not one.lattice.combines:",
        "if not one.label:",
        tests=RULES,
    ),
    Mutant(
        "a session ends with its last row",
        "holon/dataflow/sessions/step.py",
        "closed.last + self.session.gap_ms",
        "closed.last",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "sessions of each partition are those of its shard",
        "holon/dataflow/sessions/step.py",
        "whole(found) if self.alone else",
        "whole(found) if self.number < 0 else",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "rows of columns that are exactly a gap apart are of two sessions",
        "holon/dataflow/sessions/columns.py",
        "_times(held, LAST)[rows] > windows.gap_ms",
        "_times(held, LAST)[rows] >= windows.gap_ms",
        tests=GAP_APART,
    ),
    Mutant(
        "a key that comes again goes on with its old session, however late",
        "holon/dataflow/sessions/columns.py",
        "            if len(ended):\n",
        "            if len(ended) < 0:\n",
        tests=FORMS,
    ),
    Mutant(
        "a session of columns does not close at its gap",
        "holon/dataflow/sessions/columns.py",
        "        if len(due):\n",
        "        if len(due) < 0:\n",
        tests=FORMS,
    ),
    Mutant(
        "a session of columns closes a slice early",
        "holon/dataflow/sessions/columns.py",
        "MAX_TS_MS - 1) < end_ms)",
        "MAX_TS_MS - 1) <= end_ms)",
        tests=GAP_APART,
    ),
    Mutant(
        "a session of columns that has closed stays open",
        "holon/dataflow/sessions/columns.py",
        "            closed.append((held, due))\n            held = _without(held, due)\n",
        "            closed.append((held, due))\n",
        tests=FORMS,
    ),
    Mutant(
        "a session of columns that a later row has ended stays open",
        "holon/dataflow/sessions/columns.py",
        "                held = _without(held, ended)\n",
        "                pass\n",
        tests=FORMS,
    ),
    Mutant(
        "open sessions forget the slice that comes",
        "holon/dataflow/sessions/columns.py",
        "            held.combine(arrived)\n",
        "            pass\n",
        tests=FORMS,
    ),
    Mutant(
        "a slice takes the place of the sessions that are open",
        "holon/dataflow/sessions/columns.py",
        "            held.combine(arrived)\n",
        "            held = arrived\n",
        tests=FORMS,
    ),
    Mutant(
        "a slice is joined to open sessions as another version of them",
        "holon/dataflow/sessions/columns.py",
        "held.combine(arrived)",
        "held.merge(arrived)",
        tests=FORMS,
    ),
    Mutant(
        "a slice is combined twice",
        "holon/dataflow/sessions/columns.py",
        "            held.combine(arrived)\n",
        "            held.combine(arrived)\n            held.combine(arrived)\n",
        tests=FORMS,
    ),
    Mutant(
        "a slice whose form does not fit is half taken in",
        "holon/dataflow/sessions/open_sessions.py",
        "                self._to_objects()\n            else:",
        "                self._to_objects()\n                arrived = {}\n            else:",
        tests=FORMS,
    ),
    Mutant(
        "slices that are combined lose one partition's count",
        "wcrdt/lattices/keyed/tallies.py",
        "totals = self._totals(np.arange(height)) if height else {}",
        "totals = self.own(np.arange(height), 0)._totals(np.arange(height)) if height else {}",
        tests=COLUMNS,
    ),
    Mutant(
        "the first slice of a map keeps its actors",
        "wcrdt/lattices/keyed/tallies.py",
        "if self._tables.keys() <= {0}:",
        "if len(self._tables) > 0:",
        tests=COLUMNS,
    ),
    Mutant(
        "counted members of two windows are those of the first",
        "wcrdt/lattices/keyed/members/counted.py",
        "counts = self._counts.prepare_combine(positions, other._counts,",
        "counts, _ = self._counts.prepare_join(positions, other._counts,",
        tests=COLUMNS,
    ),
    Mutant(
        "members of closed sessions are kept for ever",
        "wcrdt/lattices/keyed/members/pairs.py",
        "            fresh._forget_unused(self._index)\n",
        "            pass\n",
        tests=LET_GO,
    ),
    Mutant(
        "members that stay are numbered as before",
        "wcrdt/lattices/keyed/members/pairs.py",
        "self._pairs = IntIndex(pairs >> PLACE_BITS << PLACE_BITS | at)\n\n    # --- reading",
        "pass\n\n    # --- reading",
        tests=LET_GO,
    ),
    Mutant(
        "checkpoints of releases that kept objects alone are read as empty",
        "holon/dataflow/sessions/open_sessions.py",
        "    return bottom.of_entries(\n        {decode",
        "    return bottom.of_entries(\n        {} and {decode",
        tests=FIRST_RELEASE,
    ),
    Mutant(
        "columns stay though few keys come and many sessions are open",
        "holon/dataflow/sessions/open_sessions.py",
        "if self._lack > _LONGEST_LACK:",
        "if self._lack < 0:",
        tests=FEW_COME,
    ),
    Mutant(
        "columns are tried for each slice though a key does not fit",
        "holon/dataflow/sessions/open_sessions.py",
        "return self._pause < 0",
        "return True",
        tests=AGAIN,
    ),
    Mutant(
        "open sessions stay objects for ever once a key did not fit",
        "holon/dataflow/sessions/open_sessions.py",
        "        self._pause -= 1\n",
        "",
        tests=AGAIN,
    ),
)
