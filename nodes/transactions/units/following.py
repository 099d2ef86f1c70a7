"""The units that a node works on: each is loaded beside the loop, then worked on or held warm, until others have it.

Two rules for this file. The stages of a unit are those of a partition of any job (``partition_lifecycle``). Until it is
loaded the node's state machine knows nothing of it, and keeps the epochs that it will need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from nodes.checkpoints.saver import Saver
from nodes.log.contract import Log, OffsetOutOfRange
from nodes.machine.messages import CheckpointSaved
from nodes.machine.ownership.claims import Claiming
from nodes.machine.partition_lifecycle import STANDBY, LifecycleEvent, PartitionLifecycle, PartitionStage
from nodes.transactions.checkpoints.checkpointing import Begin, TransactionCheckpoints
from nodes.transactions.orphaned_work import commits_from, ids_from, last_reply
from nodes.transactions.steps import Steps, TransactionJob
from nodes.transactions.units.standbys import Standbys
from transactional import events as e
from transactional.epochs.sequencer import first_needed
from transactional.state.restored import empty_state, restored_state
from transactional.state.snapshots import LedgerState

NEAR_RECORDS = 100
"""Of the epochs topic: who lacks fewer has them in a turn or two."""


@dataclass(slots=True, eq=False)
class Unit:
    """One unit at this node. ``names``: checkpoints that are being loaded; ``since``: epochs after it are needed.

    ``searching``: of a request partition: it is looked for where the ids begin that count.
    """

    number: int
    lifecycle: PartitionLifecycle = field(default_factory=PartitionLifecycle)
    names: tuple[str, ...] = ()
    since: int = 0
    searching: bool = False

    @property
    def is_standby(self) -> bool:
        """Whether another node owns it."""
        return self.lifecycle.stage in STANDBY


class Loaded(NamedTuple):
    """``begin`` None: none of the checkpoints is intact. ``ids_from``: of a request partition, see there."""

    unit: Unit
    begin: Begin | None
    ids_from: int = 0


class Units:
    """Of one node. ``loader`` does what takes long; ``read_control`` goes on to the control topic's end."""

    def __init__(
        self,
        job: TransactionJob,
        log: Log,
        steps: Steps,
        claiming: Claiming,
        checkpoints: TransactionCheckpoints,
        standbys: Standbys,
        loader: Saver[Loaded],
        read_control: Callable[[], None],
    ) -> None:
        self.promotions = 0
        self._job = job
        self._log = log
        self._steps = steps
        self._claiming = claiming
        self._checkpoints = checkpoints
        self._standbys = standbys
        self._loader = loader
        self._read_control = read_control
        self._units: dict[int, Unit] = {}

    def stages(self) -> dict[int, PartitionStage]:
        """By unit, ascending."""
        return {number: unit.lifecycle.stage for number, unit in sorted(self._units.items())}

    @property
    def loading(self) -> list[Unit]:
        """The units whose checkpoints are being loaded: the node does not know them yet."""
        return [unit for unit in self._units.values() if unit.names and not unit.lifecycle.is_running]

    @property
    def is_loading(self) -> bool:
        """Whether something is being loaded, or looked for, beside the loop."""
        return any((unit.names or unit.searching) and not unit.lifecycle.is_running for unit in self._units.values())

    def loading_owned(self) -> list[int]:
        """The state partitions that no node processes until this one has loaded them."""
        return [unit.number - self._job.sequencers for unit in self.loading if not unit.is_standby]

    def begin(self, ledger: LedgerState | None) -> None:
        """Know nothing but this; all units are taken again."""
        self._units = {}
        self._steps.begin(ledger)

    def abreast(self) -> list[int]:
        """The incoming units that this node could go on with at once."""
        incoming = [unit for unit in self._claiming.incoming if self._is_near(unit)]
        if not incoming:
            return []
        end = self._log.end_offset(self._job.topics.epochs, 0)
        return incoming if end - self._steps.node.ledger.position < NEAR_RECORDS else []

    def _is_near(self, number: int) -> bool:
        unit, ledger = self._units.get(number), self._steps.node.ledger
        if unit is None or not unit.lifecycle.is_running:
            return False
        if number < self._job.sequencers:
            return self._steps.node.sequencers[number].position >= first_needed(ledger, number)
        return self._steps.node.partitions[number - self._job.sequencers].epoch >= ledger.done

    def reconcile(self) -> None:
        """Take, promote and give up units, as the claims require."""
        owned, node = set(self._claiming.owned), self._steps.node
        wanted = owned.union(self._claiming.incoming, self._standbys.units(node))
        for number in range(self._claiming.ownership.partitions):
            unit = self._units.get(number)
            if number not in wanted:
                if unit is not None:
                    self._end(unit)
            elif unit is None:
                if not self._take(number, owns=number in owned):
                    return  # all that this node owns is taken again at the next poll
            else:
                self._go_on(unit, owns=number in owned)

    def arrive(self) -> bool:
        """Begin with what was loaded; False if that is nothing."""
        finished = self._loader.finished()
        for loaded in finished:
            self._arrived(loaded)
        return bool(finished)

    def forget_covered(self) -> None:
        """Epochs before all checkpoints that may be begun with are forgotten, unless what is loaded needs them."""
        steps = self._steps
        steps.begun = max(steps.begun, self._checkpoints.first_epoch_needed())
        steps.receive(e.EpochsCovered(1 + min((steps.begun, *(unit.since for unit in self.loading)))))

    # --- stages -----------------------------------------------------------------------------------------------------

    def _take(self, number: int, *, owns: bool) -> bool:
        """False if the ledger has to be read from its start."""
        unit = self._units[number] = Unit(number)
        if not owns:
            unit.lifecycle.happens(LifecycleEvent.STANDBY_BEGUN)
        return self._load(unit)

    def _go_on(self, unit: Unit, *, owns: bool) -> None:
        if unit.is_standby == owns:
            was_running = unit.lifecycle.is_running
            unit.lifecycle.happens(LifecycleEvent.CLAIMED if owns else LifecycleEvent.STANDBY_BEGUN)
            if was_running and owns:
                self._promote(unit.number)
            elif was_running:
                self._steps.receive(e.StandbyBegun(unit.number))
        if unit.number < self._job.sequencers and not unit.lifecycle.is_running:
            self._load_sequencer(unit, owns=owns)

    def _promote(self, number: int) -> None:
        """A standby is the owner now, in place."""
        self.promotions += 1
        self._steps.receive(e.StandbyPromoted(number))
        self._steps.step(e.Ticked())  # what it held back is sent before a snapshot may count on it
        if number >= self._job.sequencers:
            self._checkpoints.promoted(number - self._job.sequencers)

    def _end(self, unit: Unit) -> None:
        del self._units[unit.number]
        was_running = unit.lifecycle.is_running
        unit.lifecycle.happens(LifecycleEvent.ENDED)
        if was_running:
            number = unit.number - self._job.sequencers
            self._steps.step(e.SequencerLost(unit.number) if number < 0 else e.PartitionLost(number))

    def _runs(self, unit: Unit, taken: e.SequencerTaken | e.PartitionTaken) -> None:
        unit.names = ()
        if unit.is_standby:
            self._steps.receive(e.StandbyBegun(unit.number))  # first, so that it writes nothing
        unit.lifecycle.happens(LifecycleEvent.LOADED)
        unit.lifecycle.happens(LifecycleEvent.SCANNED)
        self._steps.step(taken)

    # --- loading ----------------------------------------------------------------------------------------------------

    def _load(self, unit: Unit) -> bool:
        """False if the ledger has to be read from its start."""
        if unit.number < self._job.sequencers:
            self._load_sequencer(unit, owns=not unit.is_standby)
            return True
        kept = self._kept(unit)
        if not kept:
            return self._begin(unit, None)
        unit.names, unit.since = tuple(saved.name for saved in kept), min(saved.offset for saved in kept)
        loaded = self._loader.save(partial(self._loaded, unit, unit.names))
        return loaded is None or self._arrived(loaded)

    def _loaded(self, unit: Unit, names: tuple[str, ...]) -> Loaded:
        """Beside the node's loop."""
        window, new_store = self._job.config.id_window, self._job.new_store
        return Loaded(
            unit, self._checkpoints.load(names, partial(restored_state, id_window=window, new_store=new_store))
        )

    def _arrived(self, loaded: Loaded) -> bool:
        unit, begin, start = loaded
        if self._units.get(unit.number) is not unit:
            return True  # it is another's by now
        if unit.number < self._job.sequencers:
            self._found(unit, start)
            return True
        begin = None if begin is None else self._with_calls(unit, begin)
        if begin is None and unit.names != tuple(saved.name for saved in self._kept(unit)):
            return self._load(unit)  # there are newer ones
        return self._begin(unit, begin)

    def _kept(self, unit: Unit) -> list[CheckpointSaved]:
        """The checkpoints that it may begin with: the ledger still holds all that comes after them."""
        saved = self._checkpoints.ownership.checkpoints(unit.number)
        return [each for each in saved if each.offset >= self._steps.begun]

    def _with_calls(self, unit: Unit, begin: Begin) -> Begin | None:
        """The checkpoint with a place among its calls that there is; None: it is none that they are kept for."""
        start = self._log.start_offset(self._job.topics.calls, unit.number - self._job.sequencers)
        if begin.state.calls_offset >= start:
            return begin
        self._read_control()
        if begin.name not in [saved.name for saved in self._checkpoints.ownership.checkpoints(unit.number)]:
            return None
        # Another owner had read further by that epoch: what is gone belongs to it, or to earlier ones.
        return begin._replace(state=replace(begin.state, calls_offset=start))

    def _begin(self, unit: Unit, begin: Begin | None) -> bool:
        """Work on a state partition from there on; False if the ledger has to be read from its start.

        Raises ``OffsetOutOfRange`` where that is gone.
        """
        log, topics, partition = self._log, self._job.topics, unit.number - self._job.sequencers
        ledger = self._steps.node.ledger
        if begin is None and not ledger.layouts.is_member(partition, ledger.done):
            return self._begin_empty(unit)
        if begin is None and self._steps.begun:
            self._checkpoints.distrust()
            self.begin(None)
            return False
        if begin is None and (start := log.start_offset(topics.calls, partition)):
            place = f"{topics.calls}[{partition}] begins at {start}"
            raise OffsetOutOfRange(f"{place}, and no checkpoint of the partition can be begun with")
        state = None if begin is None else begin.state
        self._standbys.begins(partition)
        replied = last_reply(log, topics, partition)
        commits = commits_from(log, topics, partition, 0 if state is None else state.commits_offset)
        self._checkpoints.begins(partition, begin)
        self._runs(unit, e.PartitionTaken(partition, replied, state, commits))
        return True

    def _begin_empty(self, unit: Unit) -> bool:
        """It takes no part in the last epoch that is over, so it holds nothing; others need its checkpoint soon."""
        log, topics, partition = self._log, self._job.topics, unit.number - self._job.sequencers
        window, new_store = self._job.config.id_window, self._job.new_store
        empty = empty_state(partition, self._steps.node.ledger.snapshot(), window, new_store)
        begins = log.start_offset(topics.calls, partition), log.start_offset(topics.commits, partition)
        state = replace(empty, calls_offset=begins[0], commits_offset=begins[1])
        self._standbys.begins(partition)
        self._checkpoints.begins(partition, None)
        self._checkpoints.promoted(partition)  # its first one is due at once, and holds all
        self._runs(unit, e.PartitionTaken(partition, last_reply(log, topics, partition), state))
        return True

    def _load_sequencer(self, unit: Unit, *, owns: bool) -> None:
        """At once where nobody works on it; else it is searched for its ids beside the loop."""
        if unit.searching and not owns:
            return
        self._read_epochs_to_end()
        needed = first_needed(self._steps.node.ledger, unit.number)
        if self._log.start_offset(self._job.topics.requests, unit.number) > needed:
            return  # epochs have ended: at the next poll
        search = partial(self._searched, unit, needed)
        unit.searching = not owns
        loaded = search() if owns else self._loader.save(search)
        if loaded is not None:
            self._found(unit, loaded.ids_from)

    def _searched(self, unit: Unit, needed: int) -> Loaded:
        job = self._job
        window, among, versions = job.config.id_window, job.sequencers, self._steps.node.ledger.versions
        given = {"versions": None if versions.is_own else versions, "needed": needed, "id_window": window}
        start = ids_from(self._log, job.topics, job.program, unit.number, sequencers=among, **given)
        return Loaded(unit, None, start)

    def _found(self, unit: Unit, start: int) -> None:
        if unit.lifecycle.is_running:
            return  # it was claimed meanwhile
        self._read_epochs_to_end()
        unit.searching = False
        needed = first_needed(self._steps.node.ledger, unit.number)
        begins = self._log.start_offset(self._job.topics.requests, unit.number)
        if begins <= needed:  # else epochs have ended: at the next poll
            self._runs(unit, e.SequencerTaken(unit.number, max(begins, min(start, needed))))

    def _read_epochs_to_end(self) -> None:
        epochs, steps = self._job.topics.epochs, self._steps
        end = self._log.end_offset(epochs, 0)
        while steps.node.ledger.position < end:
            chunk = self._log.read(epochs, 0, steps.node.ledger.position)
            steps.step(e.EpochsRead(list(chunk.values), chunk.next_offset))
