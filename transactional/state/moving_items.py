"""The keys and remembered replies of a state partition that have other homes in a planned layout."""

from __future__ import annotations

from collections.abc import Iterator

from transactional.epochs.layout_messages import Item
from transactional.epochs.messages import ReplyState
from transactional.external import is_external_request
from transactional.layout import Placement
from transactional.operators import StateKey
from transactional.requests.replies import ReplyBook, entity_of
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store

FIND_REPLIES = 500
"""As ``slice_rows``, of replies whose homes are asked for one by one: a hash in Python costs 2 to 3 µs."""
REPLY_BYTES = 96
"""Of a remembered reply beside its texts."""
ENTITY = -1
"""In an ``Item``, in place of a sequencer."""


def item_of_key(to: int, key: StateKey) -> Item:
    """An entity that moves to this partition."""
    return to, ENTITY, *key


def is_key(item: Item) -> bool:
    """Else it is a remembered reply."""
    return item[1] == ENTITY


def item_of_reply(to: int, given: ReplyState) -> Item:
    """A remembered reply that moves to this partition."""
    return to, given.sequencer, "", given.id


def reply_bytes(given: ReplyState) -> int:
    """About the size of its record."""
    call = len(given.call) if isinstance(given.call, bytes) else len(given.call.arguments) + len(given.call.key)
    return REPLY_BYTES + len(given.id) + len(given.result or b"") + call


def is_copied_ahead(given: ReplyState) -> bool:
    """False: its key is unknown, or an external call will change it."""
    is_known = not isinstance(given.call, bytes) or entity_of(given.call) is not None
    return is_known and not is_external_request(given.failure)


def home_of_reply(after: Placement, given: ReplyState) -> int | None:
    """None: it is not copied."""
    entity = entity_of(given.call) if is_copied_ahead(given) else None
    return None if entity is None else after.place(*entity)


class MovingItems:
    """Of partition ``here``. ``keys`` by destination; ``names``: sequencer and id of a request, and its destination.

    Some of the names may be of replies that are not remembered any more. ``slice_rows``: keys of one step.
    """

    def __init__(
        self, here: int, after: Placement, store: Store | SpillingStore, replies: ReplyBook, slice_rows: int
    ) -> None:
        self.keys: dict[int, dict[StateKey, None]] = {}  # no sets: checkpoints hold them in this order
        self.names: dict[tuple[int, str], int] = {}
        self.is_found = False
        self._here = here
        self._after = after
        self._deleted: set[StateKey] = set()  # since the search began
        self._slice_rows = slice_rows
        self._search = self._found(store.keys(), list(replies.remembered()))

    def find(self) -> bool:
        """Search some more; whether all are found, and ``note`` keeps them so."""
        self.is_found = self.is_found or next(self._search, self) is self
        return self.is_found

    def wrote(self, to: int, key: StateKey, value: bytes | None) -> None:
        """An epoch has written a key that moves to this partition."""
        if value is None:
            self.keys.get(to, {}).pop(key, None)
            self._deleted.add(key)
        else:
            self.keys.setdefault(to, {})[key] = None
            self._deleted.discard(key)

    def __len__(self) -> int:
        return sum(map(len, self.keys.values())) + len(self.names)

    def items(self) -> Iterator[Item]:
        """All, in order. Those of a destination are put in order when it is its turn, so no step takes long."""
        names: dict[int, list[tuple[int, str]]] = {}
        for name, to in self.names.items():
            names.setdefault(to, []).append(name)
        for to in sorted({*self.keys, *names}):
            yield from (item_of_key(to, key) for key in sorted(self.keys.get(to, ())))
            yield from ((to, sequencer, "", name) for sequencer, name in sorted(names.get(to, ())))

    def _found(self, keys: list[StateKey], replies: list[tuple[int, int, ReplyState]]) -> Iterator[None]:
        here, gone = self._here, self._deleted
        for start in range(0, len(keys), self._slice_rows):
            some = keys[start : start + self._slice_rows]
            for key, to in zip(some, self._after.place_all(some), strict=True):
                if to != here and key not in gone:
                    self.keys.setdefault(to, {})[key] = None
            yield
        for start in range(0, len(replies), FIND_REPLIES):
            for _, _, given in replies[start : start + FIND_REPLIES]:
                if (to := home_of_reply(self._after, given)) is not None and to != here:
                    self.names[given.sequencer, given.id] = to
            yield
