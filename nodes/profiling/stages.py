"""The stages of a record's way through a node, distinguished by the functions that are on the stack."""

from __future__ import annotations

from collections import Counter

from nodes.profiling.sampling import Stack

READ, DECODE, ADMIT, RECORDS, FUNCTION, INSERT = "read", "decode", "time and lateness", "records", "function", "insert"
WINDOWS, OUTPUT, DELTA, CHECKPOINT, REST = "windows", "output", "delta", "checkpoint", "rest"
STAGES = (READ, DECODE, ADMIT, RECORDS, FUNCTION, INSERT, WINDOWS, OUTPUT, DELTA, CHECKPOINT, REST)

_LIBRARIES = ("holon/", "wcrdt/", "nodes/", "transactional/")
_BEGINNINGS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("nodes/profiling/records", (), READ),
    ("holon/tracks/admission", (), ADMIT),
    ("holon/formats/", ("decode", "_decode"), DECODE),
    ("holon/arrow", ("decode",), DECODE),
    ("holon/tracks/record_loop", ("run",), RECORDS),
    ("holon/tracks/record_track", ("_feed_batch", "resume"), RECORDS),
    ("holon/tracks/column_runs", ("process",), RECORDS),
    ("holon/dataflow/record_functions", (), FUNCTION),
    ("holon/tracks/window_track", ("advance",), WINDOWS),
    ("holon/program/handles", ("insert", "insert_many"), INSERT),
    ("holon/program/gathered_handles", ("insert",), INSERT),
    ("holon/program/scope", ("apply_all", "insert_many"), INSERT),
    ("holon/program/context", ("emit", "emit_many", "emit_columns"), OUTPUT),
    ("holon/outputs/", (), OUTPUT),
    ("holon/tracks/task", ("take_delta", "full_delta"), DELTA),
    ("nodes/profiling/task_runs", ("broadcast",), DELTA),
    ("nodes/profiling/task_runs", ("save",), CHECKPOINT),
)
"""Path, functions (none: all of them), and the stage that they begin. Functions that they call belong to it."""


def stage_of(stack: Stack) -> str:
    """The stage that a sample counts for: the one that was begun last."""
    stage = REST
    for frame in stack:
        path, _, function = frame.partition(":")
        begun = _begun(path, function)
        if begun is not None:
            stage = begun
        elif stage in (RECORDS, WINDOWS) and _is_foreign(path):
            stage = FUNCTION
    return stage


def _begun(path: str, function: str) -> str | None:
    for start, functions, stage in _BEGINNINGS:
        if path.startswith(start) and (not functions or function in functions):
            return stage
    return None


def _is_foreign(path: str) -> bool:
    """Code of the job, or of what it calls; examples of this project are a job's."""
    return not path.startswith(_LIBRARIES)


def shares(stacks: Counter[Stack]) -> dict[str, float]:
    """Part of the samples by stage, in the order of a record's way; stages without one are left out."""
    counts: Counter[str] = Counter()
    for stack, count in stacks.items():
        counts[stage_of(stack)] += count
    total = max(1, sum(counts.values()))
    return {stage: counts[stage] / total for stage in STAGES if counts[stage]}
