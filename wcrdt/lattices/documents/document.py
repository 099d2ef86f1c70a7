"""Shared documents of Yjs as lattices: what ``YText``, ``YMap`` and ``YArray`` have in common (extra ``yjs``).

The state is, for each actor, the numbered Yjs updates of its edits; merge is their union. Yjs promises that documents
with the same updates read the same, in any order (Nicolaescu et al., "Near real-time peer-to-peer shared editing on
extensible data types", GROUP 2016). So the value is a function of the state.

Deviation from encoding the document itself: Yjs cuts and joins its blocks by the order of arrival, so two replicas with
equal content can encode to different bytes. The list of updates has one form. An edit by actor a has the client id
``a + 1``, never a random one, so the same edits give the same bytes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

from wcrdt.codec import DecodeError, index_from_wire, require, rows_from_wire
from wcrdt.lattice import E, Lattice, V, type_of_wire
from wcrdt.lattices.columns import rows_of
from wcrdt.lattices.folding import require_same

MAX_ACTOR = 2**53 - 2
"""Client ids of Yjs have 53 bits."""

_ROOT = "d"


def library() -> Any:
    """pycrdt, or an ``ImportError`` that names the extra."""
    try:
        import pycrdt
    except ImportError as error:
        raise ImportError("Yjs documents need pycrdt: pip install 'holon-streams[yjs]'") from error
    return pycrdt


class ActorUpdates:
    """Numbered updates of one actor: 0..n-1 without a gap, and a few ahead of a gap."""

    __slots__ = ("ahead", "run")

    def __init__(self) -> None:
        self.run: list[bytes] = []
        self.ahead: dict[int, bytes] = {}

    def take(self, first: int, updates: list[bytes]) -> list[bytes]:
        """Know these updates from number ``first`` on; returns those that are new."""
        fresh = []
        for number, update in enumerate(updates[max(0, len(self.run) - first) :], max(first, len(self.run))):
            if number not in self.ahead:
                self.ahead[number] = update
                fresh.append(update)
        while len(self.run) in self.ahead:
            self.run.append(self.ahead.pop(len(self.run)))
        return fresh

    def spans(self) -> list[tuple[int, list[bytes]]]:
        """Runs of consecutive numbers as ``(first, updates)``, as long as they are, ascending."""
        found: list[tuple[int, list[bytes]]] = [(0, list(self.run))] if self.run else []
        for number in sorted(self.ahead):
            if found and found[-1][0] + len(found[-1][1]) == number:
                found[-1][1].append(self.ahead[number])
            else:
                found.append((number, [self.ahead[number]]))
        return found

    def covers(self, other: ActorUpdates) -> bool:
        """True if every update of the other is known."""
        return all(
            first + offset < len(self.run) or first + offset in self.ahead
            for first, updates in other.spans()
            for offset in range(len(updates))
        )


class YDocument(Lattice[E, V]):
    """The common part of the three document types.

    A value belongs to the thread that made it (so does pycrdt's document).
    """

    __slots__ = ("_actor", "_doc", "_histories", "_root")

    def __init__(self) -> None:
        self._histories: dict[int, ActorUpdates] = {}
        self._doc: Any = None  # made at need, and again for another actor
        self._root: Any = None
        self._actor = -1

    @abstractmethod
    def _root_type(self) -> Any:
        """pycrdt's type of the document's root."""

    @abstractmethod
    def _edit(self, element: E) -> Callable[[Any], None] | None:
        """The edit of the root that this element makes, None if it changes nothing; raises if it is refused."""

    def bottom(self) -> Self:
        return type(self)()

    def check(self, element: E) -> None:
        self._edit(element)

    def check_many(self, elements: Any) -> None:
        trial = self.copy()  # what an edit may do depends on the edits before it
        for element in rows_of(elements):
            trial.insert(element)

    def insert(self, element: E, *, actor: int = 0) -> Self:
        delta = self.bottom()
        self._open(actor)
        edit = self._edit(element)
        if edit is None:
            return delta
        history = self._histories.setdefault(actor, ActorUpdates())
        assert not history.ahead, f"actor {actor} edits without its own edits {len(history.run)}.. before"
        made: list[bytes] = []
        subscription = self._doc.observe(lambda event: made.append(event.update))
        with self._doc.transaction():
            edit(self._root)
        self._doc.unobserve(subscription)
        if made:
            delta._histories[actor] = ActorUpdates()
            delta._histories[actor].take(len(history.run), made)
            history.take(len(history.run), made)
        else:
            self._forget_empty(actor)
        return delta

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        """One edit after the other; those before a refused one stay (``check_many`` tries on a copy)."""
        delta = self.bottom()
        for element in rows_of(elements):
            delta.merge(self.insert(element, actor=actor))
        return delta

    def _forget_empty(self, actor: int) -> None:
        if not self._histories[actor].run:
            del self._histories[actor]

    def _open(self, actor: int | None = None) -> Any:
        """The root of the document, for this actor's edits or (None) for reading."""
        if self._doc is None or (actor is not None and actor != self._actor):
            actor = 0 if actor is None else actor
            if not 0 <= actor <= MAX_ACTOR:
                raise ValueError(f"an actor that edits a Yjs document is between 0 and {MAX_ACTOR}, not {actor}")
            self._doc = library().Doc(client_id=actor + 1)
            self._root = self._doc.get(_ROOT, type=self._root_type())
            self._actor = actor
            for name in sorted(self._histories):
                for _, updates in self._histories[name].spans():
                    self._apply(updates)
        return self._root

    def _apply(self, updates: list[bytes]) -> None:
        with self._doc.transaction():
            for update in updates:
                self._doc.apply_update(update)

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        changed = False
        for actor in sorted(other._histories):
            mine = self._histories.setdefault(actor, ActorUpdates())
            for first, updates in other._histories[actor].spans():
                fresh = mine.take(first, updates)
                changed = changed or bool(fresh)
                if self._doc is not None:
                    self._apply(fresh)
        return changed

    def leq(self, other: Self) -> bool:
        return all(other._histories.get(actor, ActorUpdates()).covers(mine) for actor, mine in self._histories.items())

    def to_wire(self) -> type_of_wire:
        return [
            [actor, [[first, updates] for first, updates in self._histories[actor].spans()]]
            for actor in sorted(self._histories)
        ]

    def from_wire(self, wire: type_of_wire) -> Self:
        fresh = self.bottom()
        before = -1
        for actor, spans in rows_from_wire(wire, 2):
            require(before < index_from_wire(actor) <= MAX_ACTOR, "actors must ascend, from 0")
            before = actor
            end = -1  # a span that starts where the one before ended belongs to it
            history = fresh._histories[actor] = ActorUpdates()
            for first, updates in rows_from_wire(spans, 2):
                require(end < index_from_wire(first), "spans must ascend and not touch")
                require(type(updates) is list and len(updates) > 0, "a span has at least one update")
                require(all(type(update) is bytes for update in updates), "updates are bytes")
                history.take(first, updates)
                end = first + len(updates)
            require(end >= 0, "an actor without updates")
        try:
            fresh._open()
        except (ValueError, RuntimeError) as error:
            raise DecodeError(f"damaged Yjs update: {error}") from None
        return fresh
