"""The parameters of a node at its start, and the effects that it may request of its shell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from holon.input_layout import InputLayout
from holon.job import Job
from nodes.checkpoints.file_names import parse_name
from nodes.machine import messages as m
from wcrdt.replica.slots import Position


@dataclass(frozen=True, slots=True)
class PartsConfig:
    """When checkpoints of a partition hold what has changed: parts, behind a whole one of more than ``above_bytes``.

    At most ``most`` parts follow a whole one, and all together have at most ``most_times`` its size and one more. After
    a part with more than ``most_share`` of its size, ``pause`` whole ones come.
    """

    above_bytes: int = 1 << 20
    most: int = 63
    most_times: float = 2.0
    most_share: float = 0.5
    pause: int = 16


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The parameters of a node at its start. Times in ms.

    ``expected`` nodes are waited for (at most ``expect_ms``) before the first claim, so that a fleet that starts
    together does not hand partitions about. ``replicas`` of each partition in all, the owner included, are the same
    for every node of a fleet; a standby publishes what the claim holder is late with by ``standby_after_ms``.

    Every ``merged_checkpoint_interval_ms`` (0: never) some node saves a merged checkpoint and, if it ``trims``, deletes
    what nobody needs any more of the job's own topics. After a silence of ``forget_after_ms`` a member has left.

    Input waits while more than ``max_uncheckpointed_bytes`` (0: no limit) of deltas are in no checkpoint.

    A node reads at most about ``broadcast_max_per_s`` deltas (0: no limit) for which nobody waits; where all partitions
    would give more at ``broadcast_interval_ms``, they leave less often.

    Contributions to sharded states may wait for the end of a window, ``waiting_bytes`` of them for each partition that
    answers (0: none wait).

    Fleets of more than ``group_heartbeats_above`` members pass heartbeats on in groups (``membership/heartbeats.py``).

    ``until``: by partition, the end that this node's fleet is about to declare; () if it declares none. The node reads
    no further before it knows which end was declared.
    """

    node: str
    number: int = -1
    heartbeat_interval_ms: int = 100
    failure_timeout_ms: int = 300
    broadcast_interval_ms: int = 50
    checkpoint_interval_ms: int = 1000
    max_watermark_drift_ms: int = 60_000
    expected: int = 1
    expect_ms: int = 3000
    replicas: int = 1
    standby_after_ms: int = 30
    merged_checkpoint_interval_ms: int = 0
    trims: bool = False
    forget_after_ms: int = 60_000
    group_heartbeats_above: int = 32
    max_uncheckpointed_bytes: int = 0
    broadcast_max_per_s: int = 0
    waiting_bytes: int = 16 << 10
    parts: PartsConfig = PartsConfig()
    until: tuple[int, ...] = ()


class ContinuedIncarnation(msgspec.Struct, frozen=True):
    """The start of an incarnation that goes on behind the end of the one before.

    ``origin``: the incarnation whose identities its outputs carry on; ``checkpoints``: the final one of each
    partition; ``closed_ms``: the end of the last window that is answered.
    """

    origin: int
    checkpoints: list[str]
    closed_ms: int


def origin_of(started: m.JobStarted) -> int:
    """The incarnation that the outputs of this one name."""
    continued = started.description.get(m.CONTINUES)
    return (
        started.incarnation if continued is None else msgspec.json.decode(continued, type=ContinuedIncarnation).origin
    )


@dataclass(frozen=True, slots=True)
class JobRun:
    """One incarnation of a job on its topics: what JobStarted recorded, the same for all nodes.

    ``upstream``: of jobs that may write its input, the incarnation that counted then; None where none was recorded.
    ``live_guard_ms``: the skew guard where the source declares ``"live"``; None where the input was bounded.
    ``topic_partitions``: of each source's topic, in their order; () where the job has one source.
    """

    job: Job
    incarnation: int
    partitions: int
    start_offsets: tuple[int, ...]
    output_partitions: dict[str, int]
    upstream: Mapping[str, int] | None = None
    continued: ContinuedIncarnation | None = None
    live_guard_ms: int | None = None
    topic_partitions: tuple[int, ...] = ()

    @property
    def layout(self) -> InputLayout:
        """Where its partitions are."""
        return InputLayout(self.job.sources, self.topic_partitions or (self.partitions,))

    @property
    def apart(self) -> frozenset[str]:
        """The states whose contributions go only to the partition that answers for their keys."""
        return contributed_states(self.job)

    @property
    def start_positions(self) -> list[Position]:
        """Where the partitions' record tracks begin: those of the final checkpoints where it goes on behind an end."""
        if self.continued is not None:
            return [parse_name(name).key.record_position for name in self.continued.checkpoints]
        return [(offset, 0) for offset in self.start_offsets]

    @property
    def origin(self) -> int:
        """The incarnation that its outputs name."""
        return self.incarnation if self.continued is None else self.continued.origin


def contributed_states(job: Job) -> frozenset[str]:
    """The states whose contributions leave apart, each only to the partition that answers for its keys.

    Punctuation may make deltas void, and they are not ordered with it: where a job allows idleness, all get all.
    """
    found = () if job.allows_idleness else job.program.sharded
    return frozenset(name for name in found if job.program.stage_of(name) == 0)


def broadcast_interval_ms(config: NodeConfig, run: JobRun) -> int:
    """Time between deltas of a partition that complete no window, the same for all nodes of a fleet.

    Everybody reads the deltas of all partitions, so it widens with their number. Where a job allows idleness results
    wait for their delta, and it stays.
    """
    if config.broadcast_max_per_s <= 0 or run.job.allows_idleness:
        return config.broadcast_interval_ms
    return max(config.broadcast_interval_ms, 1000 * run.partitions // config.broadcast_max_per_s)


class WantedInput(msgspec.Struct, frozen=True):
    """Input that the shell should read next: from ``offset`` up to ``limit`` (exclusive; None: the log's end)."""

    partition: int
    version: int
    offset: int
    limit: int | None


def other_partitions(job: Job, topic: str, was: int, found: int) -> str:
    """The error when a topic of the input does not have the partitions any more that the job began with."""
    if found > was:
        harm = f"nobody reads partitions {was} to {found - 1}, and records of one key may be in two partitions now"
    else:
        harm = f"what was in partitions {found} to {was - 1}, or in all of them, is gone"
    return (
        f"job {job.name!r} was started on {was} partitions of {topic!r}, which now has {found}: {harm}. Its "
        f"state cannot follow: start again with --reset to process what the topic holds now from empty state, or use "
        f"another topic; outputs that exist keep their number of partitions, so delete them too, or name others"
    )
