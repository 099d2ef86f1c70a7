"""Removes duplicates of outputs behind the log: what "exactly once" is promised behind.

Per source partition, track, topic and output partition identities only grow, so one pair is all that is kept (Holon,
section 3.3: "a map from partitions to window numbers").
"""

from __future__ import annotations

from holon.outputs.identity import NOTHING_SEEN, IdentityError, LastSeen, OutputId


class Deduplicator:
    """Keeps the first record of each identity and counts the others; one for each output topic.

    Records of an older incarnation that come after a newer one started are dropped too (``stale``).
    """

    def __init__(self) -> None:
        self._last: dict[tuple[int, str, int, int], LastSeen] = {}
        self._incarnation: dict[str, int] = {}
        self.repeats = 0
        self.stale = 0

    def is_new(self, output_partition: int, identity: OutputId) -> bool:
        """True the first time that an identity (or a later one of its sequence) is seen on this output partition."""
        current = self._incarnation.get(identity.job, -1)
        if identity.incarnation < current:
            self.stale += 1
            return False
        if identity.incarnation > current:
            self._incarnation[identity.job] = identity.incarnation
            for key in [key for key in self._last if key[1] == identity.job]:
                del self._last[key]
        key = (output_partition, identity.job, identity.partition, int(identity.track))
        seen = (identity.position, identity.n)
        if seen <= self._last.get(key, NOTHING_SEEN):
            self.repeats += 1
            return False
        self._last[key] = seen
        return True

    def to_wire(self) -> dict[str, list[list[int | str]]]:
        """Last pairs and incarnations as plain sorted lists (JSON-able), to go on with after a restart."""
        last = [[*key, *seen] for key, seen in sorted(self._last.items())]
        return {"last": last, "incarnations": [[job, number] for job, number in sorted(self._incarnation.items())]}

    @classmethod
    def from_wire(cls, wire: dict[str, list[list[int | str]]]) -> Deduplicator:
        """The filter that ``to_wire`` described, its counters at zero; raises ``IdentityError`` on anything else."""
        restored = cls()
        try:
            for output_partition, job, partition, track, position, n in wire["last"]:
                key = (int(output_partition), str(job), int(partition), int(track))
                restored._last[key] = (int(position), int(n))
            restored._incarnation = {str(job): int(number) for job, number in wire["incarnations"]}
        except (KeyError, TypeError, ValueError) as error:
            raise IdentityError("not the saved state of a deduplicator") from error
        return restored
