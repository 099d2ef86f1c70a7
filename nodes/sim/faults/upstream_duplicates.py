"""An input that another job has written: what its nodes wrote twice, what zombies add, what came before a reset.

Two rules for this file: a first write of the newest incarnation comes in its order, whatever lies between; which
writes those are is worked out from the log with sets, not by what the engine keeps.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from holon import Job, Raw, Source
from holon.outputs.identity import IdentityError, OutputId, Track
from nodes.log.contract import Log
from nodes.streams.jobs import open_job

if TYPE_CHECKING:
    from nodes.sim.inputs.feed import Feed
    from nodes.sim.options import Options

UPSTREAM = "upstream"
_INPUT = "upstream-input"
_BACK = 8


def start_upstream(log: Log, output: str) -> None:
    """The job is there, and was reset once: its second incarnation counts."""
    log.create_topic(_INPUT, log.partitions(output))
    job = Job(UPSTREAM, Source(_INPUT, Raw()), lambda event, ctx: ctx.emit(event), output=output)
    open_job(log, job)
    open_job(log, job, reset=True)


def from_upstream(feeds: Sequence[Feed], options: Options, first_number: int = 0) -> list[Feed]:
    """The same records as outputs of that job, by partition, with more between them; they are counted on from there."""
    rng = random.Random(f"upstream {options.seed} {options.case}" + f" from {first_number}" * bool(first_number))
    made: list[Feed] = []
    for partition in sorted({feed.partition for feed in feeds}):
        written: list[Feed] = []
        mine = [feed for feed in feeds if feed.partition == partition]
        for number, feed in enumerate(mine, first_number):
            identity = OutputId(
                UPSTREAM, 1, rng.choice([partition, partition, 7]), Track.RECORD, number // 2, number % 2
            )
            if number % 5 == 4:
                identity = identity._replace(track=Track.WINDOW, position=1000 * number - 5000, n=0)
            first = replace(feed, header=b"" if rng.random() < 0.05 else identity.to_bytes())
            old = replace(feed, header=identity._replace(incarnation=0).to_bytes())
            written.append(first)
            made += [old, first] if rng.random() < options.upstream else [first]
            if rng.random() < options.upstream:
                repeated = written[-rng.randint(1, _BACK) :]
                made += [replace(again, at_ms=feed.at_ms) for again in repeated if again.header]
    return made


def first_copies(headers: Iterable[bytes]) -> list[bool]:
    """Of the records of one partition, those that count."""
    seen: set[OutputId] = set()
    found = []
    for header in headers:
        try:
            identity = OutputId.from_bytes(header)
        except IdentityError:
            found.append(True)
            continue
        found.append(identity.incarnation == 1 and identity not in seen)
        seen.add(identity)
    return found
