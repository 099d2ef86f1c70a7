"""Events of a player, one of three kinds by a tag: how many of each kind, and the seconds played."""

import json
import random
from collections.abc import Iterator
from itertools import count

import msgspec

from holon import WCRDT, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.dataflow import Flow, Group
from wcrdt import GCounter, MapOf, RecordOf


class Play(msgspec.Struct, tag="play"):
    seconds: int


class Seek(msgspec.Struct, tag="seek"):
    to: float


class Stop(msgspec.Struct, tag="stop"):
    reason: str | None = None


class Event(msgspec.Struct):
    ts: int
    body: Play | Seek | Stop


KINDS = {Play: "play", Seek: "seek", Stop: "stop"}


class Player(ProcessingFunction[Event]):
    seen = WCRDT(MapOf(RecordOf(count=GCounter(), seconds=GCounter())), Tumbling.of(seconds=10))

    def process_batch(self, batch: Batch[Event], ctx: Context) -> None:
        ones, seconds = batch.ts_ms * 0 + 1, batch.filled("body.Play.seconds", 0)
        self.seen.insert_many((batch["body.type"], (ones, seconds)), batch.ts_ms)

    @on_window(seen, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        for kind, one in (await self.seen.window_value(window)).items():
            ctx.emit({"window_start": window.start_ms, "kind": kind, **one})


class ByRecord(Player):
    process_batch = None  # type: ignore[assignment]

    def process(self, event: Event, ctx: Context) -> None:
        body = event.body
        self.seen.insert((KINDS[type(body)], (1, getattr(body, "seconds", 0))), event.ts)


job = Job("player", Source("player", JsonColumns(Event), timestamp="ts"), Player, output="player-out")
by_record = Job(
    "player-by-record",
    Source("player", Json(Event), timestamp=lambda event: event.ts),
    ByRecord,
    output="player-out",
)


class Played(msgspec.Struct):
    kind: str
    seconds: int


class Row(msgspec.Struct):
    window_start: int
    kind: str
    count: int
    seconds: int


def played(event: Event) -> Played:
    match event.body:
        case Play(seconds=seconds):
            return Played("play", seconds)
        case Seek():
            return Played("seek", 0)
        case Stop():
            return Played("stop", 0)


def result(group: Group[str, Played]) -> Row:
    return Row(group.window.start_ms, group.key, group.count(), group.sum(lambda event: event.seconds))


flow = Flow("player-flow", columnar=True)
_events = flow.source("player", Json(Event), time=lambda event: event.ts).map(played)
_events.key_by(lambda event: event.kind).window(Tumbling.of(seconds=10)).agg(result).sink("player-out")


def records(draw: random.Random) -> Iterator[bytes]:
    """Without an end."""
    for number in count():
        kind = draw.choice(("play", "play", "seek", "stop"))
        own = {
            "play": {"seconds": draw.randrange(600)},
            "seek": {"to": round(draw.uniform(0, 600), 2)},
            "stop": {"reason": None},
        }[kind]
        row = {
            "ts": 1_753_000_000_000 + number // 10,
            "user": f"{draw.getrandbits(48):012x}",
            "body": {"type": kind, **own},
            "app": {"version": "4.1", "platform": "web"},
        }
        yield json.dumps(row, separators=(",", ":")).encode()
