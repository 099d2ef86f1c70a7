"""Bugs in windows: what is undone where a handler raises, shards, panes, early results."""

from __future__ import annotations

from deploy.mutants.model import Mutant

SHARD_REPLICA = ("tests/laws/test_shard_replica.py",)
SHARD_NODE = ("tests/unit/nodes/machine/test_shards.py",)

HANDLERS_THAT_RAISE = ("tests/unit/holon/tracks/test_failing_handlers.py", "tests/laws/test_failing_handlers.py")
_PANES = "tests/laws/test_panes.py"
ROWS = (f"{_PANES}::test_a_window_is_the_rows_for_which_it_was_open",)
EARLY = ("tests/laws/test_flow_early.py",)
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
        "a delta that names a piece counts as if there were none",
        "wcrdt/replica/shards.py",
        "not record.full and shard not in shards:",
        "not record.full:",
        tests=SHARD_REPLICA,
    ),
    Mutant(
        "a delta counts for a shard that lacks what was before it",
        "wcrdt/replica/shards.py",
        "while spans and spans[0][0] <= (have := self.position(partition)):",
        "while spans and spans[0][1] >= (have := self.position(partition)):",
        tests=SHARD_REPLICA,
    ),
    Mutant(
        "a piece begins where the delta begins",
        "holon/tracks/pieces.py",
        "since = self._ends.get(shard, self._began_at)",
        "since = record.broadcast_position",
        tests=("tests/laws/test_shard_replica.py::test_a_shard_is_the_prefix_that_it_is_at",),
    ),
    Mutant(
        "windows are answered without the pieces of others",
        "holon/program/shared_windows.py",
        "return through_ms if self.shard is None else min(through_ms, self.shard.complete_through_ms)",
        "return through_ms",
        tests=SHARD_NODE,
    ),
    Mutant(
        "missing pieces are requested once",
        "nodes/machine/broadcast/shards.py",
        "now - lack.since_ms < (patience_ms if lack.vain else FIRST_MS)",
        "lack.vain or now - lack.since_ms < FIRST_MS",
        tests=SHARD_NODE,
    ),
    Mutant(
        "pieces leave in jobs that allow idleness too",
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
