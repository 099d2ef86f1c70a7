"""Bugs in sessions (combined states, slices, which session takes which) and in windows of a time zone."""

from __future__ import annotations

from deploy.mutants.model import Mutant

SESSIONS_OF_FLOWS = ("tests/unit/holon/dataflow/test_sessions.py",)
RULES = ("tests/unit/holon/dataflow/test_session_rules.py",)
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
        "holon/dataflow/sessions/open_sessions.py",
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
        "None if rows is None else rows[first])",
        "None if rows is None else rows[-1:].repeat(len(first)))",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "every partition answers for all sessions from its number on",
        "holon/dataflow/sessions/step.py",
        "shard_of(key, ctx.partitions) == ctx.partition",
        "shard_of(key, ctx.partitions) <= ctx.partition",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "one partition answers for all sessions",
        "holon/dataflow/sessions/step.py",
        "shard_of(key, ctx.partitions) == ctx.partition",
        "ctx.partition == 0",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "a session closes though rows have come since it was due",
        "holon/dataflow/sessions/open_sessions.py",
        "if key in sessions and due_ms(sessions[key], windows) < end_ms:",
        "if key in sessions:",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "sessions that were restored are never due",
        "holon/dataflow/sessions/open_sessions.py",
        "            self.note(decode_element(key), session, windows)\n",
        "",
        tests=SESSIONS_OF_FLOWS,
        case="flow-sessions",
    ),
    Mutant(
        "sessions that have closed are restored open",
        "holon/dataflow/sessions/open_sessions.py",
        "            self.states.pop(encode_element(key), None)\n",
        "            pass\n",
        tests=SESSIONS_OF_FLOWS,
        case="flow-sessions",
    ),
    Mutant(
        "a session goes on in the checkpoint as it was at its first slice",
        "holon/dataflow/sessions/open_sessions.py",
        "            self.states[encode_element(key)] = _encoder.encode(session.to_wire())\n",
        "            self.states.setdefault(encode_element(key), _encoder.encode(session.to_wire()))\n",
        tests=SESSIONS_OF_FLOWS,
        case="flow-sessions",
    ),
    Mutant(
        "sessions leave in the order in which they began",
        "holon/dataflow/sessions/step.py",
        "(order_key(session[0]), session[1][FIRST].value)",
        "session[1][FIRST].value",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "open sessions are checkpointed in the order in which a replica got them",
        "holon/dataflow/sessions/open_sessions.py",
        "dict.fromkeys(ordered(arrived))",
        "dict.fromkeys(arrived)",
        tests=RULES,
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
        "_column([value[LAST] + self.session.gap_ms for value in values])",
        "_column([value[LAST] for value in values])",
        tests=SESSIONS_OF_FLOWS,
    ),
    Mutant(
        "sessions of each partition are those of its shard",
        "holon/dataflow/sessions/step.py",
        "        if self.alone:\n            arrived",
        "        if self.number < 0:\n            arrived",
        tests=SESSIONS_OF_FLOWS,
    ),
)
