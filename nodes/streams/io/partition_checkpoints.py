"""The steps of saving and loading the checkpoint of a partition; the driver decides when and in which thread."""

from __future__ import annotations

from collections.abc import Callable

from holon.tracks.parts import rests_on
from nodes.checkpoints.errors import CheckpointDamaged, CheckpointMissing
from nodes.checkpoints.file_names import CheckpointKey, own_name
from nodes.checkpoints.store import CheckpointStore, load_copy
from nodes.machine import durable
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine.config import JobRun
from nodes.machine.ownership.ownership import Ownership


def load_with_parts(store: CheckpointStore, job: str, name: str) -> tuple[bytes, list[bytes]]:
    """A checkpoint's data, and that of all that it rests on, each from an intact copy. Raises as ``load``."""
    data = load_copy(store, own_name(job, name))
    return data, [load_copy(store, own_name(job, below)) for below in rests_on(data)]


class Storing:
    """One node's checkpoints. The task that it returns may run on another thread."""

    def __init__(
        self,
        checkpoints: CheckpointStore,
        run: JobRun,
        ownership: Ownership,
        crashpoint: Callable[[str], None],
        report: Callable[[str], None],
    ) -> None:
        self._checkpoints = checkpoints
        self._run = run
        self._ownership = ownership
        self._crashpoint = crashpoint
        self._report = report

    def loading(self, effect: x.LoadCheckpoint) -> Callable[[], e.CheckpointLoaded]:
        """Load the newest that is intact."""

        def load() -> e.CheckpointLoaded:
            problems: list[str] = []
            for name in effect.names:
                try:
                    data, below = load_with_parts(self._checkpoints, self._run.job.name, name)
                except (CheckpointDamaged, CheckpointMissing) as error:
                    problems.append(str(error))
                    self._report(
                        f"partition {effect.partition}: {error}; falling back to an older checkpoint, or to replay"
                    )
                    continue
                return e.CheckpointLoaded(effect.partition, effect.version, name, data, problems, effect.names, below)
            return e.CheckpointLoaded(effect.partition, effect.version, None, None, problems, effect.names)

        return load

    def saving(self, effect: x.SaveCheckpoint) -> Callable[[], e.CheckpointStored]:
        """Save it, then delete what is not in use any more."""
        run = self._run
        known = self._ownership.checkpoints(effect.partition)
        in_use = [saved.name for saved in known]
        below = {*effect.rests_on, *(name for saved in known for name in durable.rests_on(saved))}
        key = CheckpointKey(run.job.name, run.incarnation, effect.partition, effect.record_position, effect.answered)

        def save() -> e.CheckpointStored:
            self._crashpoint("before-checkpoint")
            name = self._checkpoints.save(key, effect.data, effect.copies)
            self._crashpoint("after-checkpoint")
            # A part may rest on this one, also where it is behind those in use, as after the loss of these.
            self._checkpoints.prune(run.job.name, run.incarnation, effect.partition, in_use, {name, *below})
            return e.CheckpointStored(effect.partition, effect.version, effect.ticket, name)

        return save
