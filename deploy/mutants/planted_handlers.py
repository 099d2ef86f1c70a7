"""Bugs in what is undone where a handler of a window raises."""

from __future__ import annotations

from deploy.mutants.model import Mutant

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
