"""Jobs of the comparison: copies of a user's job, each with names of its own on the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from holon import Job
from nodes.api import RunFailed, load_job


def copy_of(job: Job, topic: str, run: int) -> Job:
    """The job on another input topic; ``run`` is a number that no other run on this log has."""
    if job.output is None:
        raise RunFailed(f"job {job.name} has no output to compare: declare Job(..., output=...)")
    name = f"{job.name[:60]}-bench-{run}"
    sides = {side: f"{name}.{side}" for side in job.side_outputs}
    return replace(
        job, name=name, source=replace(job.sources[0], topic=topic), output=name, side_outputs=sides, late_topic="",
        dead_letter_topic="", unstable_topic="",
    )  # fmt: skip


def topic_of(reference: str) -> str:
    """The topic that the records of a job come from."""
    return "data-" + reference.partition("?")[0].partition(":")[0].rpartition(".")[2]


def reference_of(reference: str, run: int) -> str:
    """By this name node processes find the copy."""
    return f"{__name__}:{reference}?run={run}"


def __getattr__(name: str) -> Callable[..., Job]:
    """``MODULE:JOB``, for ``nexmark.compare.jobs:MODULE:JOB?run=1``."""
    if ":" not in name:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def make(run: int) -> Job:
        return copy_of(load_job(name), topic_of(name), run)

    return make
