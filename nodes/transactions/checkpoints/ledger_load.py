"""The checkpoint that a node's ledger begins with, loaded beside its loop: a store that is away stops no heartbeats."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from nodes.checkpoints.saver import Saver
from nodes.transactions.checkpoints.checkpointing import TransactionCheckpoints
from transactional.state.snapshots import LedgerState


class LoadedLedger(NamedTuple):
    """``state`` None: none of the checkpoints ``names`` is intact, or there are none."""

    names: tuple[str, ...]
    state: LedgerState | None


class LedgerLoad:
    """Of one node, again at each new beginning. ``loader`` does what takes long."""

    def __init__(self, checkpoints: TransactionCheckpoints, loader: Saver[LoadedLedger]) -> None:
        self._checkpoints = checkpoints
        self._loader = loader
        self._names: tuple[str, ...] | None = None

    @property
    def is_loading(self) -> bool:
        """Whether the node knows no ledger yet."""
        return self._names is not None

    def begin(self) -> LoadedLedger | None:
        """The state that is there at once; None: it is being loaded."""
        names = self._names = self._checkpoints.ledger_names()
        loaded = self._loader.save(partial(self._load, names)) if names else LoadedLedger((), None)
        return None if loaded is None else self._arrived(loaded)

    def finished(self) -> LoadedLedger | None:
        """The state that was loaded since the last call; None: there is none."""
        for loaded in self._loader.finished():
            if (arrived := self._arrived(loaded)) is not None:
                return arrived
        return None

    def _load(self, names: tuple[str, ...]) -> LoadedLedger:
        """Beside the node's loop."""
        return LoadedLedger(names, self._checkpoints.load_ledger(names))

    def _arrived(self, loaded: LoadedLedger) -> LoadedLedger | None:
        """None: it is that of an earlier beginning, or its files were deleted since and newer ones are being loaded."""
        if loaded.names != self._names:
            return None
        if loaded.state is None and loaded.names != self._checkpoints.ledger_names():
            return self.begin()
        self._names = None
        return loaded
