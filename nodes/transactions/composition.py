"""A transactional node put together: the one place that knows which part gets what, for processes and simulations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from nodes.checkpoints.saver import DirectSaver, Saver
from nodes.checkpoints.store import CheckpointStore
from nodes.log.contract import Log
from nodes.machine.ownership.claims import Claiming
from nodes.machine.ownership.code_rule import CodeRule
from nodes.transactions.checkpoints.checkpointing import TransactionCheckpoints
from nodes.transactions.checkpoints.compaction import Compact
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.steps import Clocks, TransactionJob
from nodes.transactions.topics import FIRST_INCARNATION
from nodes.transactions.trimming import Trimming
from nodes.transactions.upgrades.programs import NodePrograms
from nodes.transactions.upgrades.upgrading import Upgrading
from transactional.execution.crashing import Apart
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store

NewSaver: TypeAlias = Callable[[str], Saver[Any]]
"""By what it does: ``saver``, ``loader``, ``ledger-loader``, ``merger`` or ``trimmer``."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Arguments of one node, times in ms. ``node``: its name, another one for each incarnation.

    ``number``: -1 has none. ``trim_interval_ms`` 0: the job's topics are never trimmed. ``groups``, ``rule``: as in
    ``Claiming``. ``replicas``: in all, the owner's included. ``handover_timeout_ms`` 0: it leaves without handing over.
    """

    node: str
    number: int = -1
    failure_timeout_ms: int = 300
    heartbeat_interval_ms: int = 50
    checkpoint_interval_ms: int = 10_000
    trim_interval_ms: int = 0
    replicas: int = 1
    handover_timeout_ms: int = 8_000  # a container is killed 10 s after it was requested to stop
    groups: tuple[int, ...] = ()
    rule: CodeRule | None = None


@dataclass(frozen=True, slots=True)
class NodeSurroundings:
    """The log, the store and the threads of one node. ``plain_log``: for threads beside the loop, None: the same one.

    ``compact`` merges files, None: within the node. ``programs``: by which it upgrades, None: it does not.
    """

    log: Log
    store: CheckpointStore
    clocks: Clocks
    plain_log: Log | None = None
    new_saver: NewSaver = lambda what: DirectSaver()  # within the loop: for simulations
    compact: Compact | None = None
    apart: Apart | None = None
    programs: NodePrograms | None = None
    report: Callable[[str], None] = lambda text: None
    disk_bytes: Callable[[Store | SpillingStore], int] = lambda store: 0


def composed(job: TransactionJob, options: NodeOptions, around: NodeSurroundings) -> TransactionDriver:
    """The driver of one node."""
    claiming = Claiming(
        options.node,
        options.number,
        FIRST_INCARNATION,
        job.units,
        failure_timeout_ms=options.failure_timeout_ms,
        groups=options.groups,
        rule=options.rule,
    )
    checkpoints = TransactionCheckpoints(
        around.store,
        job.program.name,
        options.node,
        claiming.ownership,
        sequencers=job.sequencers,
        interval_ms=options.checkpoint_interval_ms,
        saver=around.new_saver("saver"),
        merger=around.new_saver("merger"),
        compact=around.compact,
        reads_back=options.trim_interval_ms > 0,
    )
    trimming = Trimming(
        around.log if around.plain_log is None else around.plain_log,
        job.topics,
        checkpoints,
        id_window=job.config.id_window,
        interval_ms=options.trim_interval_ms,
        saver=around.new_saver("trimmer"),
        report=around.report,
    )
    upgrading = None
    if around.programs is not None:
        loader = around.new_saver("program-loader")
        upgrading = Upgrading(claiming, around.log, job.topics.epochs, around.programs, loader)
    return TransactionDriver(
        job,
        around.log,
        around.clocks,
        claiming,
        checkpoints,
        trimming,
        heartbeat_interval_ms=options.heartbeat_interval_ms,
        replicas=options.replicas,
        handover_timeout_ms=options.handover_timeout_ms,
        loader=around.new_saver("loader"),
        ledger_loader=around.new_saver("ledger-loader"),
        apart=around.apart,
        upgrading=upgrading,
        disk_bytes=around.disk_bytes,
    )
