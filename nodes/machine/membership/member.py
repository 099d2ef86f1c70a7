"""One node as a member of its job: what it reads of the others, when it has joined, and which of them are gone.

Two rules for this file. A node of any kind of job decodes the control topic and the heartbeats here and nowhere else.
The kind of job decides the consequences for units of work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.control_state import ControlState
from nodes.machine.membership.failure_detector import Detector
from nodes.machine.ownership.ownership import Ownership


class Membership:
    """Of one incarnation of one node. ``joined``: its own Hello has been read; ``greeted_ms``: when it was written.

    Args: ``incarnation`` is the job's; where ``restarts`` is false the job never has another one. A Goodbye is written
    for a member without units that is silent for ``forget_after_ms``.
    """

    def __init__(
        self,
        node: str,
        number: int,
        incarnation: int,
        ownership: Ownership,
        *,
        failure_timeout_ms: int,
        forget_after_ms: int,
        restarts: bool = True,
    ) -> None:
        self.node = node
        self.number = number
        self.incarnation = incarnation
        self.ownership = ownership
        self.detector = Detector(failure_timeout_ms)
        self.joined = False
        self.greeted_ms: int | None = None
        self.bad_messages = 0
        self._restarts = restarts
        self._forget_after_ms = forget_after_ms
        self._forgotten: set[str] = set()
        self._others: tuple[int, list[str]] = (-1, [])
        self._has_begun = False

    @property
    def greeted(self) -> bool:
        """Whether a Hello of this node counts, or is on its way."""
        return self.joined or self.greeted_ms is not None

    # --- reading ----------------------------------------------------------------------------------------------------

    def facts(self, values: Sequence[bytes], now_ms: int) -> Iterator[f.Fact]:
        """The facts that records of the control topic turn out to mean, in order.

        Raises ``BadMessage`` at one of a newer version: a node that passed it over would disagree with others about
        all that follows.
        """
        for value in values:
            message = self._decoded(value, newer_matters=True)
            if message is None or not (self._restarts or message.incarnation == self.incarnation):
                continue
            self._noticed(message, self.detector.wrote, now_ms)
            for fact in self.ownership.apply(message):
                self.learn(fact)
                yield fact

    def heartbeats(self, values: Sequence[bytes], now_ms: int) -> list[str]:
        """Records of the heartbeat topic; the nodes that have written one themselves."""
        messages = (self._decoded(value) for value in values)
        found = [self.receive_heartbeat(message, now_ms) for message in messages if message is not None]
        return [node for node in found if node is not None]

    def receive_heartbeat(self, message: m.ControlMessage, now_ms: int) -> str | None:
        """Take one of them that was decoded already; the node, if it has written this itself."""
        self._noticed(message, self.detector.record_heartbeat, now_ms)
        if isinstance(message, m.Alive) and message.incarnation == self.incarnation:
            self.detector.record_heartbeats(message.nodes, now_ms)
        if isinstance(message, m.Heartbeat) and message.incarnation == self.incarnation:
            return message.node
        return None

    def restore(self, state: ControlState) -> None:
        """Go on from what others have folded: records that this node has not read are gone."""
        before = set(self.ownership.members)
        self.ownership.restore(state)
        for node in sorted(before.difference(self.ownership.members)):
            self._has_left(node)
        self.joined, self.greeted_ms = self.node in self.ownership.members, None

    def _decoded(self, value: bytes, *, newer_matters: bool = False) -> m.ControlMessage | None:
        try:
            return m.decode_control(value)
        except m.BadMessage as error:
            self.bad_messages += 1
            if newer_matters and error.reason is m.BadReason.NEWER_VERSION:
                raise
            return None

    def _noticed(self, message: m.ControlMessage, how: Callable[[str, int], None], now_ms: int) -> None:
        node = getattr(message, "node", None)
        if node is not None and message.incarnation == self.incarnation:
            how(node, now_ms)

    def learn(self, fact: f.Fact) -> None:
        """Take a fact that somebody else has folded."""
        if self.ownership.incarnation != self.incarnation:
            return
        match fact:
            case f.NodeJoined(node) if node == self.node:
                self.joined = self._has_begun  # else of an earlier incarnation under this name
            case f.NodeLeft(node):
                self._has_left(node)
                if node == self.node and self.joined:  # others took it for dead: it joins again
                    self.joined, self.greeted_ms = False, None
            case _:
                pass

    def _has_left(self, node: str) -> None:
        self.detector.forget(node)
        self._forgotten.discard(node)

    # --- the others -------------------------------------------------------------------------------------------------

    def suspects(self, now_ms: int) -> list[str]:
        """The other members that have been silent for too long, sorted."""
        if self._others[0] != self.ownership.changes:
            self._others = self.ownership.changes, [node for node in self.ownership.members if node != self.node]
        return self.detector.suspects(self._others[1], now_ms)

    def live(self, now_ms: int) -> list[str]:
        """All members but the suspects, sorted."""
        return sorted(set(self.ownership.members).difference(self.suspects(now_ms)))

    def needs_end(self, now_ms: int) -> bool:
        """Whether what comes next rests on knowing the control topic to its end: joining, a stall, a suspect's work."""
        if not self.joined or self.detector.stalled(now_ms):
            return True
        return any(self.ownership.owned_by(node) for node in self.suspects(now_ms))

    def gone(self, now_ms: int) -> list[m.Goodbye]:
        """Goodbyes for members without units that have been silent for very long; the first live node writes them.

        One that is alive all the same joins anew. Else members would pile up, one for each node that was ever killed.
        """
        silent = [
            node
            for node in self.suspects(now_ms)
            if node not in self._forgotten
            and (self.detector.silence_ms(node, now_ms) or 0) >= self._forget_after_ms
            and not self.ownership.owned_by(node)
        ]
        if not silent or self.live(now_ms)[:1] != [self.node]:  # one node is enough for it
            return []
        self._forgotten.update(silent)
        return [self.goodbye(node) for node in silent]

    # --- messages of an incarnation of this node --------------------------------------------------------------------

    def hello(self, now_ms: int) -> m.Hello:
        """An incarnation of this node begins, or goes on after others took it for dead."""
        self._has_begun, self.greeted_ms = True, now_ms
        return m.Hello(self.incarnation, self.node, self.number, self.ownership.node_incarnation(self.node) + 1)

    def leaving(self) -> m.Leaving:
        """This incarnation of this node hands over what it has."""
        return m.Leaving(self.incarnation, self.node, self.ownership.node_incarnation(self.node))

    def goodbye(self, node: str) -> m.Goodbye:
        """The incarnation of a node that this one knows of is over."""
        return m.Goodbye(self.incarnation, node, self.ownership.node_incarnation(node))
