"""Jobs whose deltas, or whose results, are larger than a record of Kafka's default size."""

from __future__ import annotations

import hashlib

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from tests.integration.jobs_mixed import INPUT, OUTPUT, Event, time_of
from wcrdt.lattices.sets import GSet

TEXT_BYTES = 2_000


def text_of(event: Event) -> str:
    """A long text of its own for each event."""
    return hashlib.blake2b(str(event.id).encode(), digest_size=32).hexdigest() * (TEXT_BYTES // 64)


def digest(texts: list[str]) -> str:
    return hashlib.blake2b("".join(sorted(texts)).encode(), digest_size=16).hexdigest()


class Bulky(ProcessingFunction[Event]):
    """Every window's texts; the result names how many there are and their digest."""

    texts = WCRDT(GSet(), Tumbling(60_000))

    def process(self, event: Event, ctx: Context) -> None:
        self.texts.insert(text_of(event), event.ts)

    @on_window(texts, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        texts = await self.texts.window_value(window)
        ctx.emit({"end": window.end_ms, "count": len(texts), "digest": digest(list(texts))})


def bulky() -> Job[Event]:
    return Job("bulky", Source(INPUT, Json(Event), timestamp=time_of), Bulky, output=OUTPUT)


class Wordy(ProcessingFunction[Event]):
    """A short result for each event, and a very long one for the event that is marked."""

    def process(self, event: Event, ctx: Context) -> None:
        ctx.emit({"id": event.id, "text": "x" * (300_000 if event.poison == "long" else 1)}, key=b"key-%d" % event.id)


def wordy() -> Job[Event]:
    return Job("wordy", Source(INPUT, Json(Event), timestamp=time_of), Wordy, output=OUTPUT)
