"""Bugs in windows: what is undone where a handler raises, shards, panes, early results."""

from __future__ import annotations

from deploy.mutants.model import Mutant

SHARD_REPLICA = ("tests/laws/test_shard_replica.py",)
SHARDED_KEYS = ("tests/unit/holon/dataflow/test_sharded_keys.py",)
SHARDED_FLOWS = ("tests/laws/test_sharded_flows.py",)
SHARD_NODE = ("tests/unit/nodes/machine/test_shards.py",)

HANDLERS_THAT_RAISE = ("tests/unit/holon/tracks/test_failing_handlers.py", "tests/laws/test_failing_handlers.py")
_PANES = "tests/laws/test_panes.py"
ROWS = (f"{_PANES}::test_a_window_is_the_rows_for_which_it_was_open",)
EARLY = ("tests/laws/test_flow_early.py",)
DRIVEN = ("tests/laws/test_flow_driven.py",)
DRIVEN_UNIT = ("tests/unit/holon/dataflow/test_driven.py",)
SUMS = (f"{_PANES}::test_sums_are_those_of_the_panes_in_any_order_of_windows",)

HANDLERS = (
    Mutant(
        "windows that a handler has written before it raised stay",
        "holon/tracks/handler_undo.py",
        "        kept.track.roll_back()",
        "        kept.track.forget_kept()",
        tests=HANDLERS_THAT_RAISE,
        case="bury-windows",
    ),
    Mutant(
        "Locals of a handler that has raised stay",
        "holon/tracks/handler_undo.py",
        "        self.scope.locals.update(self.scope.decode_locals(used))\n",
        "",
        tests=HANDLERS_THAT_RAISE,
        case="bury-windows",
    ),
    Mutant(
        "late inserts of a handler that has raised count",
        "holon/tracks/handler_undo.py",
        "        self.scope.late.of_handlers = kept.late_inserts\n",
        "",
        tests=HANDLERS_THAT_RAISE,
    ),
    Mutant(
        "results of a handler that has raised leave",
        "holon/outputs/outbox.py",
        "        _cut_back(self._into, kept.of_end)\n",
        "",
        tests=HANDLERS_THAT_RAISE,
        case="bury-windows",
    ),
    Mutant(
        "results behind a handler that has raised are numbered with a gap",
        "holon/outputs/outbox.py",
        "        self._counts.clear()\n        self._counts.update(kept.counts)\n",
        "",
        tests=HANDLERS_THAT_RAISE,
    ),
    Mutant(
        "a value of a Local is kept when it is used again",
        "holon/program/checkpointable.py",
        "        if self.kept is not None and name not in self.kept:",
        "        if self.kept is not None:",
        tests=HANDLERS_THAT_RAISE,
        case="bury-windows",
    ),
    Mutant(
        "a misuse of Holon in a handler is a dead letter",
        "holon/tracks/window_track.py",
        "            if not undoable or isinstance(error, HolonError):",
        "            if not undoable:",
        tests=HANDLERS_THAT_RAISE,
    ),
    Mutant(
        "a delta behind a handler that has raised lacks what was written before it",
        "wcrdt/replica/slots.py",
        "        self._changed[state, window] = None if value.compact else value.copy()",
        "        self._changed.pop((state, window), None)",
        tests=HANDLERS_THAT_RAISE,
    ),
)

SHARDS = (
    Mutant(
        "a delta that names a contribution counts as if there were none",
        "wcrdt/replica/shards.py",
        "if record is None or record.full or named:",
        "if record is None or record.full:",
        tests=SHARD_REPLICA,
    ),
    Mutant(
        "a delta names the shard beside the one that has a contribution",
        "nodes/machine/broadcast/deltas_to_send.py",
        "bits[shard // 8] |= 1 << shard % 8",
        "bits[shard // 8] |= 1 << (shard + 1) % 8",
        tests=("tests/unit/nodes/machine/test_shards.py",),
    ),
    Mutant(
        "shards of which the bits say nothing are named",
        "nodes/machine/broadcast/deltas_to_send.py",
        "return shard // 8 < len(shards) and",
        "return shard // 8 >= len(shards) or",
        tests=("tests/unit/nodes/machine/test_shards.py",),
    ),
    Mutant(
        "a delta counts for a shard that lacks what was before it",
        "wcrdt/replica/shards.py",
        "while spans and spans[0][0] <= (have := self.position(partition)):",
        "while spans and spans[0][1] >= (have := self.position(partition)):",
        tests=SHARD_REPLICA,
    ),
    Mutant(
        "slices of sharded sessions go to all nodes",
        "holon/dataflow/aggregations.py",
        "return self._declared(self.bottom(), self.state, sharded=self.sharded)",
        "return self._declared(self.bottom(), self.state)",
        tests=SHARDED_KEYS,
    ),
    Mutant(
        "rows of sharded windows by data go where their own keys belong",
        "holon/dataflow/data_driven/step.py",
        "        state.sharding = self._keys.sharding\n",
        "",
        tests=(f"{SHARDED_FLOWS[0]}::test_results_do_not_depend_on_who_has_which_keys",),
    ),
    Mutant(
        "keys of one sharded state are shared out as those of another",
        "holon/program/shared_windows.py",
        "part_of(value, self._shards[state], self._partition)",
        "part_of(value, next(iter(self._shards.values())), self._partition)",
        tests=SHARDED_KEYS,
    ),
    Mutant(
        "contributions count for no limit",
        "nodes/machine/broadcast/shards.py",
        "                    self.work.uncheckpointed.contribution(message.delta, reading.cut_bytes)\n",
        "",
        tests=("tests/unit/nodes/machine/test_shards.py",),
    ),
    Mutant(
        "a contribution begins where the delta begins",
        "holon/tracks/contributions.py",
        "since = self._ends.get(shard, self._began_at)",
        "since = record.broadcast_position",
        tests=("tests/laws/test_shard_replica.py::test_a_shard_is_the_prefix_that_it_is_at",),
    ),
    Mutant(
        "windows are answered without the contributions of others",
        "holon/program/shared_windows.py",
        "return through_ms if self.shard is None else min(through_ms, self.shard.complete_through_ms)",
        "return through_ms",
        tests=SHARD_NODE,
    ),
    Mutant(
        "missing contributions are requested once",
        "nodes/machine/broadcast/shards.py",
        "now - lack.since_ms < (patience_ms if lack.vain else FIRST_MS)",
        "lack.vain or now - lack.since_ms < FIRST_MS",
        tests=SHARD_NODE,
    ),
    Mutant(
        "contributions leave in jobs that allow idleness too",
        "nodes/machine/config.py",
        "found = () if job.allows_idleness else job.program.sharded",
        "found = job.program.sharded",
        tests=SHARD_NODE,
    ),
)

WINDOWS = (
    Mutant(
        "a row that is late for one of its windows is lost for all",
        "holon/program/placing.py",
        "    if not len(late):\n        return Places(found, 0)\n",
        "    return Places(found, 0)\n",
        tests=ROWS,
        case="flow-sliding",
    ),
    Mutant(
        "a pane takes rows when a window has been read that it is a part of",
        "holon/program/placing.py",
        "        if is_closed(one):\n            in_time = _in_time(one, taken, columns)\n",
        "        if is_closed(panes.pane(one)):\n            in_time = _in_time(panes.pane(one), taken, columns)\n",
        tests=ROWS,
    ),
    Mutant(
        "a window lacks its last pane",
        "wcrdt/replica/pane_sums.py",
        "through(first + count - 1)",
        "through(first + count - 2)",
        tests=SUMS,
    ),
    Mutant(
        "a sum of panes goes on in the one that was kept before",
        "wcrdt/replica/pane_sums.py",
        "            if not is_own:\n",
        "            if not is_own and start == 0:\n",
        tests=SUMS,
    ),
    Mutant(
        "a window is answered where it holds rows itself, and not where its panes do",
        "wcrdt/replica/replica.py",
        "for held in (w, *panes.of(w)) for track in tracks",
        "for held in (w,) for track in tracks",
        tests=ROWS,
    ),
    Mutant(
        "a row that is late for its slice is not in the next one",
        "holon/program/scope.py",
        "        return np.maximum(ts_ms, (self.watermark_ms",
        "        return np.minimum(ts_ms, (self.watermark_ms",
        tests=EARLY,
    ),
    Mutant(
        "a window whose last slice has no row has no final results",
        "holon/dataflow/early/step.py",
        "(times, self.early.last_times(times)), rows)",
        "(times,), rows)",
        tests=EARLY,
        case="flow-early",
    ),
    Mutant(
        "a window begins with the keys of the one before",
        "holon/dataflow/early/step.py",
        "        if is_final:\n            held.clear()\n",
        "",
        tests=EARLY,
    ),
    Mutant(
        "an early result lacks the slice at whose end it is",
        "holon/dataflow/early/step.py",
        "        held.take(come)\n"
        "        parts.append((held.read(None if is_final else come, names), is_final, False))\n",
        "        parts.append((held.read(None if is_final else come, names), is_final, False))\n"
        "        held.take(come)\n",
        tests=EARLY,
    ),
    Mutant(
        "a slice goes on behind the end of its window",
        "holon/dataflow/early/slices.py",
        "min(end_ms, window.end_ms))",
        "end_ms)",
        tests=EARLY,
    ),
    Mutant(
        "a window that is open goes on in the checkpoint as it was at its first slice",
        "holon/dataflow/early/open_window.py",
        '        self.groups = b""\n        return known\n',
        "        return known\n",
        tests=EARLY,
    ),
)

DRIVEN_BY_DATA = (
    Mutant(
        "rows of a slice are taken in the order in which they came",
        "holon/dataflow/data_driven/rows.py",
        "        rows = ordered(arrived)\n",
        "        rows = list(arrived)\n",
        tests=DRIVEN,
        case="flow-counts",
    ),
    Mutant(
        "rows of a slice of columns are taken in the order in which they came",
        "holon/dataflow/data_driven/rows.py",
        "            keys, places = arrived.ordered()\n",
        "            keys, places = arrived.keys(), np.arange(arrived.height)\n",
        tests=DRIVEN,
    ),
    Mutant(
        "rows of one time are in the order of the log of one partition alone",
        "holon/dataflow/data_driven/rows.py",
        "np.full(len(ts_ms), partition)",
        "np.full(len(ts_ms), 0)",
        tests=DRIVEN,
        case="flow-between",
    ),
    Mutant(
        "a record that comes by two streams of a union is there once",
        "holon/dataflow/compiling.py",
        "ordinals[order] = counts[index] + np.arange",
        "ordinals[order] = np.arange",
        tests=DRIVEN,
    ),
    Mutant(
        "rows that flat_map makes of one record are one",
        "holon/dataflow/compiling.py",
        "np.arange(len(index)) - np.repeat(first, sizes)",
        "0 * np.arange(len(index))",
        tests=DRIVEN,
    ),
    Mutant(
        "rows of windows that a partition makes are numbered anew for each window",
        "holon/dataflow/data_driven/step.py",
        "        local.value += count\n",
        "        local.value = count\n",
        tests=DRIVEN_UNIT,
    ),
    Mutant(
        "a row that comes exactly the timeout later is in the window",
        "holon/dataflow/data_driven/open_windows.py",
        "window.first_ms + timeout_ms - 1, LAST_MS)",
        "window.first_ms + timeout_ms, LAST_MS)",
        tests=DRIVEN_UNIT,
    ),
    Mutant(
        "no slice is due for the timeout of a window",
        "holon/dataflow/data_driven/step.py",
        "            marked.append(self.driven.due_ms(ts_ms))\n",
        "            pass\n",
        tests=DRIVEN_UNIT,
        case="flow-counts",
    ),
    Mutant(
        "a window times out when one before it would have",
        "holon/dataflow/data_driven/open_windows.py",
        "if window is not None and self._last_ms(window) < end_ms:",
        "if window is not None:",
        tests=DRIVEN,
    ),
    Mutant(
        "windows that were restored never time out",
        "holon/dataflow/data_driven/open_windows.py",
        "            self._opened(element_from_wire(key), window)\n",
        "            self.windows[element_from_wire(key)] = window\n",
        tests=DRIVEN,
        case="flow-between",
    ),
    Mutant(
        "an early result from before a restart is not taken back",
        "holon/dataflow/data_driven/open_windows.py",
        "            window.is_known = True\n            self._opened",
        "            self._opened",
        tests=DRIVEN_UNIT,
    ),
    Mutant(
        "windows that are open go on in the checkpoint as they were at their first slice",
        "holon/dataflow/data_driven/open_windows.py",
        '        self.windows = b""\n        return held\n',
        "        return held\n",
        tests=DRIVEN,
        case="flow-counts",
    ),
    Mutant(
        "a window by count closes a row early",
        "holon/dataflow/data_driven/open_windows.py",
        "if window.state == size:",
        "if window.state >= size - 1:",
        tests=DRIVEN_UNIT,
    ),
    Mutant(
        "an early result of a window that times out is not taken back",
        "holon/dataflow/data_driven/open_windows.py",
        "        taken.changes(key, window)\n        del",
        "        del",
        tests=DRIVEN_UNIT,
    ),
    Mutant(
        "a window that has closed has an early result, too",
        "holon/dataflow/data_driven/open_windows.py",
        "            if open_windows.get(key) is window\n",
        "            if key is not open_windows\n",
        tests=DRIVEN_UNIT,
    ),
    Mutant(
        "the rows of a window are of as many shards as they are",
        "holon/dataflow/data_driven/rows.py",
        "return shard_of(self.key(row), partitions)",
        "return shard_of(row, partitions)",
        tests=DRIVEN,
    ),
    Mutant(
        "rows of columns are of another shard than rows of objects",
        "holon/dataflow/data_driven/rows.py",
        "return shards_of(Keys(form[1], [parts[1]]), partitions)",
        "return shards_of(Keys(form[2], [parts[2]]), partitions)",
        tests=DRIVEN,
    ),
    Mutant(
        "a row that begins no window ends the one that is open",
        "wcrdt/windows/data_driven.py",
        "if state is None and not start:",
        "if not start:",
        tests=("tests/unit/wcrdt/test_data_driven.py",),
    ),
    Mutant(
        "the end of the input leaves windows open",
        "holon/dataflow/data_driven/step.py",
        "        elif self.closes_at_end:\n",
        "        elif self.number < 0:\n",
        tests=DRIVEN_UNIT,
    ),
)
