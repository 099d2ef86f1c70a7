"""Bugs in flows: functions that are followed, operators on columns, steps."""

from __future__ import annotations

from deploy.mutants.model import Mutant

ARITHMETIC = ("tests/unit/holon/dataflow/test_arithmetic.py",)
FLOW = ("tests/unit/holon/dataflow/test_flow.py",)
DEAD_ROWS = ("tests/unit/holon/dataflow/test_dead_rows.py",)
KINDS = ("tests/unit/holon/dataflow/test_kinds.py",)
LATE = ("tests/unit/holon/dataflow/test_late.py",)
NONE = ("tests/unit/holon/dataflow/test_none.py",)
VERBS = ("tests/unit/holon/dataflow/test_verbs.py",)
USER_JOBS = ("tests/sim/user_jobs/test_simulated.py",)

NEXMARK = ("tests/unit/nexmark/test_flows.py",)

FLOWS = (
    Mutant(
        "bids on the border of two windows of q7 match their own window alone",
        "nexmark/flows/windows.py",
        "Candidate(e.window_end - _MS, e.price, e.num, e.bid, False)",
        "Candidate(e.window_end, e.price, e.num, e.bid, False)",
        tests=NEXMARK,
    ),
    Mutant(
        "rows of other kinds are bids of flows",
        "nexmark/flows/events.py",
        "self._read(bid=row).filter(lambda event: event.kind == BID)",
        "self._read(bid=row).filter(lambda event: event.kind >= PERSON)",
        tests=NEXMARK,
    ),
    Mutant(
        "days are of ranks that overlap",
        "nexmark/flows/days.py",
        "return MIDDLE if price < 1_000_000 else HIGH",
        "return MIDDLE if price <= 1_000_000 else HIGH",
        tests=NEXMARK,
    ),
    Mutant(
        "ints of columns wrap",
        "holon/dataflow/arithmetic.py",
        "return all(_LEAST <= end <= _MOST for end in ends)",
        "return True",
        tests=ARITHMETIC,
    ),
    Mutant(
        "columns of ints are divided by zero without an error",
        "holon/dataflow/arithmetic.py",
        "not _are_ints(numbers) or not np.all(numbers[1]) or",
        "not _are_ints(numbers) or",
        tests=ARITHMETIC,
    ),
    Mutant(
        "a function is followed one way alone",
        "holon/dataflow/tracing.py",
        "for number in range(len(answers), len(taken))]",
        "for number in range(len(taken), len(taken))]",
        tests=FLOW,
    ),
    Mutant(
        "rows of one branch go to the places of the other",
        "holon/dataflow/expressions.py",
        "found += [(index[places], leaf, taken) for places, leaf, taken in below]",
        "found += [(places, leaf, taken) for places, leaf, taken in below]",
        tests=("tests/laws/test_flow_expressions.py",),
    ),
    Mutant(
        "code that tests identity is followed",
        "holon/dataflow/code_scan.py",
        "elif step.opname in _REFUSED:",
        'elif step.opname in _REFUSED and step.opname != "IS_OP":',
        tests=NONE,
    ),
    Mutant(
        "a value that a jump leads to is taken for None",
        "holon/dataflow/code_scan.py",
        "on_top = None if step.is_jump_target else before",
        "on_top = before",
        tests=NONE,
    ),
    Mutant(
        "rows that a function has made hold None where their type allows it alone",
        "holon/dataflow/tracing.py",
        "if asks_none and not checked:",
        "if asks_none and not checked and row_type is None:",
        tests=NONE,
    ),
    Mutant(
        "rows that are None count as present",
        "holon/columnar/structs/lazy.py",
        "return self._values if plain and bool(np.all(self._marks == PRESENT)) else None",
        "return self._values if plain else None",
        tests=("tests/unit/holon/columnar/test_lazy.py",),
    ),
    Mutant(
        "a Struct that is None becomes a row",
        "holon/dataflow/steps.py",
        "rows = rows.take(np.flatnonzero(~none)) if none.any() else rows",
        "rows = rows.take(np.flatnonzero(~none)) if none.all() else rows",
        tests=NONE,
    ),
    Mutant(
        "defaults are checked",
        "holon/dataflow/tracing.py",
        "return not known or hasattr",
        "return hasattr",
        tests=NONE,
    ),
    Mutant(
        "a field that may be None is None in all rows",
        "holon/dataflow/tracing.py",
        'self._nones[field.path] = self.decide(Apply("is None", is_none, (field,)))',
        "self._nones[field.path] = True",
        tests=NONE,
    ),
    Mutant(
        "ties at the end of a top are cut off",
        "holon/dataflow/aggregations.py",
        'if self.ties == "all" and len(order) > self.n:',
        'if self.ties == "all" and len(order) > self.n + 1:',
        tests=FLOW,
    ),
    Mutant(
        "a union takes the rows of its first stream alone",
        "holon/dataflow/steps.py",
        "for other in self.others:\n            other.consumers",
        "for other in ():\n            other.consumers",
        tests=VERBS,
    ),
    Mutant(
        "rows that filter_map keeps get the values of other rows",
        "holon/dataflow/steps.py",
        "ends = [(np.searchsorted(kept, index), leaf, taken)",
        "ends = [(np.arange(len(index)), leaf, taken)",
        tests=VERBS,
    ),
    Mutant(
        "the rows of one Struct are those of all",
        "holon/dataflow/row_types.py",
        "if type(row) is self.kind]",
        "if isinstance(row, msgspec.Struct)]",
        tests=VERBS,
    ),
    Mutant(
        "windows of each partition are those of all",
        "holon/dataflow/aggregations.py",
        "        if self.alone:\n            return WLocal(",
        "        if self.number < 0:\n            return WLocal(",
        tests=VERBS,
    ),
    Mutant(
        "rows that a later branch drops are filtered, though an earlier one took them",
        "holon/dataflow/compiling.py",
        "            self.fates.taken[rows.index] = True",
        "            self.fates.taken[:] = np.isin(range(len(self.fates.taken)), rows.index)",
        tests=VERBS,
    ),
    Mutant(
        "a row that fails takes the rows of its step with it",
        "holon/dataflow/failing_rows.py",
        "            sound.append(place)",
        "            sound = []",
        tests=DEAD_ROWS,
        case="flow-dead-rows",
    ),
    Mutant(
        "dead rows behind a window have the key of another row",
        "holon/dataflow/compiling.py",
        "key=self._keys[int(row.index[0])]",
        "key=self._keys[0]",
        tests=DEAD_ROWS,
        case="flow-dead-rows",
    ),
    Mutant(
        "dead letters of one window have one identity",
        "holon/outputs/outbox.py",
        "self._add(self._into, DEAD, letter, self._stamp(self.position, n), None)",
        "self._add(self._into, DEAD, letter, self._stamp(self.position, 0), None)",
        tests=DEAD_ROWS,
        case="flow-dead-rows",
    ),
    Mutant(
        "a record that late streams alone have taken is accepted",
        "holon/dataflow/compiling.py",
        "        if not self._behind_late:\n",
        "        if self.fates is not None:\n",
        tests=LATE,
        case="flow-late-rows",
    ),
    Mutant(
        "late rows of a step with a stream of them have letters too",
        "holon/dataflow/compiling.py",
        "letters=not routed)",
        "letters=True)",
        tests=LATE,
        case="flow-late-rows",
    ),
    Mutant(
        "rows are judged by the watermark of the first row of their batch",
        "holon/program/scope.py",
        "at_ms = self.watermark_ms if watermarks is None else watermarks",
        "at_ms = self.watermark_ms",
        tests=LATE,
        case="flow-late-rows",
    ),
    Mutant(
        "a row is late that comes just before its window closes",
        "holon/program/late_inserts.py",
        "all(w.end_ms + lateness_ms <= at_ms for w",
        "all(w.end_ms + lateness_ms <= at_ms + 1 for w",
        tests=("tests/laws/test_flow_late.py",),
        case="flow-late-rows",
    ),
    Mutant(
        "a record has a letter for each of its rows that is late",
        "holon/tracks/admission.py",
        "self.late_for_states.append(found._replace(state=state))",
        'self.late_for_states.append(found._replace(state=f"{state}{len(self.late_for_states)}"))',
        tests=("tests/unit/holon/tracks/test_late_inserts.py",),
    ),
    Mutant(
        "top takes the rows of one part of a window",
        "holon/dataflow/aggregations.py",
        "if self.is_parted:",
        "if self.is_parted and self.n < 0:",
        tests=VERBS,
    ),
    Mutant(
        "results of a user's simulated job are not compared",
        "nodes/sim/user_jobs/plain_pass.py",
        "return [name for name in job.outputs if name not in (LATE, DEAD, UNSTABLE)]",
        "return [name for name in job.outputs if name in ()]",
        tests=USER_JOBS,
    ),
    Mutant(
        "a reset of a user's simulated job passes over its input",
        "nodes/sim/user_jobs/simulated.py",
        'source = replace(only, start="earliest")',
        "source = only",
        tests=USER_JOBS,
    ),
    Mutant(
        "of takes the rows of the other Structs",
        "holon/dataflow/rows.py",
        "there = np.flatnonzero(~truth(",
        "there = np.flatnonzero(truth(",
        tests=KINDS,
    ),
    Mutant(
        "times of one Struct are those of the first rows",
        "holon/dataflow/compiling.py",
        "parts.append((mine.index, column(",
        "parts.append((places[: len(mine)], column(",
        tests=KINDS,
    ),
    Mutant(
        "a step for all Structs gets no objects",
        "holon/dataflow/flow.py",
        "        if others:\n",
        "        if len(others) == len(entry.consumers):\n",
        tests=KINDS,
    ),
    Mutant(
        "rows of a Struct without fields vanish",
        "holon/dataflow/rows.py",
        "        return [struct() for _ in range(rows)]",
        "        return []",
        tests=KINDS,
    ),
)
