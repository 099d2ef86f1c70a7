"""The client of a simulated fleet, and those who request layouts and upgrades, are cut off from the log at times.

They see the log as it was meanwhile. Their writes are lost, arrive late, or arrive at once, and each raises an error. A
client sends the same requests again, under the same ids; a command ends. A command may also stand still between any two
of its calls. The fleet goes on meanwhile, and another command may request a layout or an upgrade. A rival is one that
does so between the last read of the first command and its write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec

from nodes.log.contract import Appended, FetchedRecords, Log, LogUnavailable, TopicPartition
from nodes.sim.case import ELEVENTH_SEED, THIRTEENTH_SEED
from nodes.transactions.clients.client import RepliesTrimmed, TransactionClient
from tests.sim.cut_off_log import CutOffLog
from tests.sim.moving_faults import WAYS
from transactional.requests.requests import WireRequest

COMMAND_CALLS = 25
"""A command that changes a layout makes about so many calls of the log."""
RIVAL_STEPS = (0, 10, 1_500, 1_500)
"""So many pass at most between what a rival writes, and what the first command does: fewer if that holds before."""
MOST_WAITS = 20
"""A command that sees no news gives up after so many."""


class CallerLog(CutOffLog):
    """A write while it is cut off has one of three fates, and raises ``LogUnavailable``."""

    def __init__(self, log: Log, now_ms: Callable[[], int], draw: Random) -> None:
        super().__init__(log, now_ms, lambda: 0, lambda topic, values: None)
        self._fates = draw
        self._late: list[tuple[int, Callable[[], Appended]]] = []
        self.met = {"lost": 0, "late": 0, "arrived": 0}

    def send(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> None:
        done = more.pop("done", lambda end: None)
        appended = self.append(topic, partition, values, **more)
        done(appended.first_offset + appended.count)

    def append(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> Appended:
        if not self._writes_held:
            return self._log.append(topic, partition, values, **more)
        fate = self._fates.choice(sorted(self.met))
        self.met[fate] += 1
        write = lambda: self._log.append(topic, partition, values, **more)  # noqa: E731
        if fate == "arrived":
            write()
        elif fate == "late":
            self._late.append((self._now_ms() + self._fates.choice([10, 300, 2_000]), write))
        raise LogUnavailable(f"{topic}[{partition}]: cut off by the simulator")

    def add_partitions(self, topic: str, partitions: int) -> None:
        self._check_writes()
        self._log.add_partitions(topic, partitions)

    def go_on(self, *, all_of_it: bool = False) -> None:
        """Late writes arrive."""
        due = [write for at_ms, write in self._late if all_of_it or at_ms <= self._now_ms()]
        self._late = [each for each in self._late if not all_of_it and each[0] > self._now_ms()]
        for write in due:
            write()


class CommandLog(CallerLog):
    """Of one command, which stands still at some call, or before it writes, and may be cut off from there on."""

    def __init__(
        self,
        log: Log,
        now_ms: Callable[[], int],
        draw: Random,
        pause: Callable[[], None],
        way: tuple[bool, bool] | None,
        *,
        before_it_writes: bool = False,
    ) -> None:
        super().__init__(log, now_ms, draw)
        self._pause_at = 0 if before_it_writes else draw.choice([0, 1 + draw.randrange(COMMAND_CALLS)])
        self._pause = pause
        self._way = way
        self._calls = self._waits = 0
        self._paused = False

    def read(self, topic: str, partition: int, offset: int, **most: int) -> FetchedRecords:
        self._count()
        return super().read(topic, partition, offset, **most)

    def end_offset(self, topic: str, partition: int) -> int:
        self._count()
        return super().end_offset(topic, partition)

    def append(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> Appended:
        self._count(writes=True)
        return super().append(topic, partition, values, **more)

    def add_partitions(self, topic: str, partitions: int) -> None:
        self._count()
        super().add_partitions(topic, partitions)

    def wait(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> list[TopicPartition]:
        self._waits += 1
        if self._waits > MOST_WAITS:
            raise LogUnavailable("cut off by the simulator: nothing new is to be seen")
        return super().wait(positions, timeout_s)

    def _count(self, *, writes: bool = False) -> None:
        self._calls += 1
        if not self._paused and (writes if self._pause_at == 0 else self._calls == self._pause_at):
            self._paused = True
            self._pause()
            if self._way is not None:
                reads, writes = self._way
                self.cut_off(reads=reads, writes=writes)


class CutOffCallers:
    """Of one fleet, from a stream of its own. ``met``: how often each came.

    ``go_on`` is a step of the fleet, for those that stand still; ``rival`` is another command, which comes meanwhile.
    ``is_settled``: nothing that a command has requested is under way.
    ``rivals``: so many commands met one; ``has_rivals``: some may.
    """

    def __init__(
        self,
        seed: int,
        log: Log,
        now_ms: Callable[[], int],
        go_on: Callable[[], None],
        rival: Callable[[], None],
        is_settled: Callable[[], bool],
    ) -> None:
        draw = self._draw = Random(seed ^ 0xC11E47)
        self.drawn = seed >= ELEVENTH_SEED
        self._client_odds = draw.choice([0.0, 0.0, 0.005, 0.02]) if self.drawn else 0.0
        self._command_odds = draw.choice([0.0, 0.4, 0.8]) if self.drawn else 0.0
        self._rival_draw = Random(seed ^ 0x21FA1)  # its own stream, so that earlier draws stay as they are
        self._rival_odds = self._rival_draw.choice([0.0, 0.5, 1.0]) if seed >= THIRTEENTH_SEED else 0.0
        self._log = log
        self._now_ms = now_ms
        self._step, self._rival, self._is_settled = go_on, rival, is_settled
        self._client = CallerLog(log, now_ms, draw)
        self._commands: list[CommandLog] = []
        self._until_ms = 0
        self._sent: dict[str, WireRequest] = {}
        self._again: list[tuple[int, list[WireRequest]]] = []
        self._stands = False
        self.splits = self.retries = self.paused = self.cut_commands = self.rivals = 0

    @property
    def has_rivals(self) -> bool:
        return self._rival_odds > 0

    @property
    def met(self) -> dict[str, int]:
        """By what it was; writes of both, by what became of them."""
        found = {"client cut off": self.splits, "retried": self.retries}
        found |= {"command stood still": self.paused, "command cut off": self.cut_commands, "rival": self.rivals}
        for each in (self._client, *self._commands):
            found |= {fate: found.get(fate, 0) + count for fate, count in each.met.items()}
        return found

    @property
    def client_log(self) -> Log:
        """The log of the fleet's client, which is cut off at times."""
        return self._client

    def command_log(self, rival: Callable[[], None] | None = None) -> Log:
        """Of the next command, which may stand still and be cut off. ``rival``: another one of its kind."""
        if not self._stands and self._rival_odds and self._rival_draw.random() < self._rival_odds:
            meets = partial(self._meets_rival, rival or self._rival)
            return CommandLog(self._log, self._now_ms, self._rival_draw, meets, None, before_it_writes=True)
        if self._stands or not self._command_odds or self._draw.random() >= self._command_odds:
            return self._log
        way = self._draw.choice([None, *WAYS])
        self.cut_commands += way is not None
        made = CommandLog(self._log, self._now_ms, self._draw, self._stand_still, way)
        self._commands.append(made)
        return made

    def _meets_rival(self, rival: Callable[[], None]) -> None:
        """When the first command writes, the request of the rival is under way, or done, or it was void."""
        self.rivals += 1
        self._stands = True
        rival()
        for _ in range(self._rival_draw.choice(RIVAL_STEPS)):
            self._step()
            if self._is_settled():
                break
        self._stands = False

    def _stand_still(self) -> None:
        self.paused += 1
        self._stands = True
        steps = self._draw.choice([0, 5, 60, 200, 400])
        if self._draw.random() < 0.5:
            self._rival()
        for _ in range(steps):
            self._step()
        self._stands = False

    # --- the client -------------------------------------------------------------------------------------------------

    def send_all(self, client: TransactionClient, requests: list[WireRequest]) -> None:
        """As the client does, and once more later where it gets an error. Ids are those of the first try."""
        if self.drawn:
            requests = [self.first_of(client, each) for each in requests]
        try:
            client.send_all(requests)
        except LogUnavailable:
            self._later(requests)

    def first_of(self, client: TransactionClient, request: WireRequest) -> WireRequest:
        """With the place from which its id counts, as of the first try."""
        if request.id not in self._sent:
            since = client.first_since(request.id) if request.since is None else request.since
            self._sent[request.id] = msgspec.structs.replace(request, since=since)
        return self._sent[request.id]

    def poll(self, client: TransactionClient) -> None:
        """Replies; where some are gone all requests that have none are sent again."""
        try:
            client.poll()
        except RepliesTrimmed:
            self._later(self._sent.values())

    def go_on(self, client: TransactionClient, waiting: Collection[str]) -> None:
        """Splits begin and end, late writes arrive, and requests without a reply are sent again."""
        draw, now_ms = self._draw, self._now_ms()
        for each in (self._client, *self._commands):
            each.go_on()
        if self._client.is_cut_off and now_ms >= self._until_ms:
            self._client.rejoin()
        elif self._client_odds and not self._client.is_cut_off and draw.random() < self._client_odds:
            self._client.cut_off(**dict(zip(("reads", "writes"), draw.choice(WAYS), strict=True)))
            self._until_ms = now_ms + draw.choice([50, 400, 1_500, 4_000])
            self.splits += 1
            if draw.random() < 0.5:  # its patience is over before the split is
                self._later(self._sent.values())
        self._sent = {name: each for name, each in self._sent.items() if name in waiting}
        due = [made for at_ms, made in self._again if at_ms <= now_ms]
        self._again = [each for each in self._again if each[0] > now_ms]
        for made in due:
            left = [each for each in made if each.id in waiting]
            self.retries += len(left)
            if left:
                self.send_all(client, left)

    def _later(self, requests: Iterable[WireRequest]) -> None:
        self._again.append((self._now_ms() + self._draw.choice([5, 200, 1_000]), list(requests)))

    def end(self) -> None:
        """All are there again, and what was late has arrived."""
        self._client_odds = self._command_odds = self._rival_odds = 0.0
        self._client.rejoin()
        for each in (self._client, *self._commands):
            each.go_on(all_of_it=True)
