"""Holon's jobs for the side-by-side runs: those of ``nexmark.queries``, one job and one output topic for each run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holon import Batch, Context, Job, ProcessingFunction
from nexmark.queries import QUERIES, nexmark_job
from nexmark.queries.stateless import in_euros

OFFICIAL = {"q4": "q4official"}
"""Where Holon's query of that name is another than the benchmark's: which one is the benchmark's."""


class Discarded(ProcessingFunction[Any]):
    """q0 and q2 to nowhere: the fields are decoded (and filtered by the source's ``filter``), and that is all."""

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        assert len(batch["bid.price"]) == len(batch)


class Converted(ProcessingFunction[Any]):
    """q1 to nowhere: every price is converted, nothing is encoded."""

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        in_euros(batch["bid.price"])


NOWHERE: dict[str, type[ProcessingFunction[Any]]] = {"q0": Discarded, "q1": Converted, "q2": Discarded}
"""Queries with a result for each record, without their output. Those with few results always write them to Kafka."""


def bench_job(query: str, run: int, sink: str = "kafka", atoms: int = 0) -> Job:
    """The job of a run; ``run`` is a number that no other run on this log has, ``sink`` is ``kafka`` or ``none``."""
    job = nexmark_job(OFFICIAL.get(query, query), atoms=atoms)
    name = f"{query}-bench-{run}"
    if sink == "none" and query in NOWHERE:
        return replace(job, name=name, output=None, process=NOWHERE[query])
    return replace(job, name=name, output=name)


def __getattr__(name: str) -> Callable[..., Job]:
    """``q7`` and the others, for ``MODULE:JOB?run=1&nowhere=1``."""
    if OFFICIAL.get(name, name) not in QUERIES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def make(run: int, nowhere: int = 0, atoms: int = 0) -> Job:
        return bench_job(name, run, "none" if nowhere else "kafka", atoms)

    return make
