"""A world in which a node may stop by itself; others, or its next life, take over what it owned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.sim.transactions_world import Life, World
from transactional.conflicts.nondeterminism import Nondeterministic
from transactional.errors import RerunHangs

MOST_STOPS = 60


class NoneGoesOn(Exception):
    """Every node stops by name, again and again."""


class FragileWorld(World):
    """``stops``: how often one did."""

    stops = 0
    ends: tuple[type[Exception], ...] = (Nondeterministic, RerunHangs)

    def _act(self, life: Life) -> None:
        with self._may_stop(life):
            super()._act(life)

    def whole_turn(self, life: Life, *, reads_calls: bool = True) -> bool:
        moved = True
        with self._may_stop(life):
            moved = super().whole_turn(life, reads_calls=reads_calls)
        return moved

    def take(self, life: Life, partition: int) -> None:
        with self._may_stop(life, partitions=(partition,)):
            super().take(life, partition)

    def take_sequencer(self, life: Life, sequencer: int) -> None:
        with self._may_stop(life, sequencers=(sequencer,)):
            super().take_sequencer(life, sequencer)

    @contextmanager
    def _may_stop(self, life: Life, partitions: Sequence[int] = (), sequencers: Sequence[int] = ()) -> Iterator[None]:
        """``partitions``, ``sequencers``: what it is about to own besides."""
        try:
            yield
        except self.ends:
            self.stops += 1
            if self.stops > MOST_STOPS:
                raise NoneGoesOn from None
            owned = sorted({*life.node.partitions, *partitions}), sorted({*life.node.sequencers, *sequencers})
            self.lives = [self._born() if each is life else each for each in self.lives]
            for partition in owned[0]:
                self.take(self.draw.choice(self.lives), partition)
            for sequencer in owned[1]:
                self.take_sequencer(self.draw.choice(self.lives), sequencer)
