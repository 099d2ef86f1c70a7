"""Chunks of an input topic as the runs that tasks take."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from holon.formats.formats import headers_requested_by, takes_columns
from holon.formats.input_run import Input
from holon.job import Job
from nodes.compiled import loading as compiled
from nodes.log.contract import FetchedRecords, Log

logger = logging.getLogger(__name__)


def use_columns(log: Log, job: Job[Any], *, build_for_objects: bool) -> bool:
    """Let the log give values as columns where compiled loops can be had; what is slower without is logged."""
    found = load_loops(job, build_for_objects=build_for_objects)
    for source in job.sources:
        topic, columns, followed = source.topic, takes_columns(source.format), source.topic in job.column_forms
        if found and followed:
            logger.info("records of %s go by columns where many come at once: process is followed", topic)
        elif not columns:
            kind = type(source.format).__name__
            logger.info("records of %s become objects one by one, as %s takes them", topic, kind)
        if not found and (columns or followed or build_for_objects):
            logger.info("records of %s are read one by one: the compiled loops are missing", topic)
    return found and log.use_columns()


def load_loops(job: Job[Any], *, build_for_objects: bool) -> bool:
    """Have the compiled loops in this process, as the job's nodes have them; False where they cannot be had.

    ``build_for_objects``: compile them for formats that make an object of each record, too. They give these little
    beside the way from the log: on Kafka a quarter to a half of what a record costs, on the embedded log a twentieth.
    """
    return compiled.ensure(build=build_for_objects or any(takes_columns(source.format) for source in job.sources))


def use_parts(log: Log, job: Job[Any], topic: str | None = None) -> None:
    """Request from the log the parts of records that the job's events hold; most jobs' events hold none.

    ``topic``: another one than the input of a job with one source.
    """
    for source in job.sources:
        headers = headers_requested_by(source.format)
        if headers is not None:
            log.use_record_parts(topic or source.topic, headers)


def input_of(chunk: FetchedRecords, refused: Mapping[int, str] | None = None) -> Input:
    """The same records, without the log; ``refused`` is as in ``Input``."""
    return Input(
        chunk.offsets,
        chunk.timestamps_ms,
        chunk.values,
        chunk.next_offset,
        chunk.found_headers,
        parts=chunk.parts,
        refused=refused,
    )
