"""Bugs in handlers of windows that raise, and in sharded states: what is undone, set aside, sent and requested."""

from __future__ import annotations

from deploy.mutants.model import Mutant

SHARD_REPLICA = ("tests/laws/test_shard_replica.py",)
SHARD_NODE = ("tests/unit/nodes/machine/test_shards.py",)

HANDLERS_THAT_RAISE = ("tests/unit/holon/tracks/test_failing_handlers.py", "tests/laws/test_failing_handlers.py")

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
