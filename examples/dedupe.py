"""Drop events that a partition has seen within the last hour of event time; no window and no other partition needed."""

import msgspec

from holon import Context, Job, Json, Local, ProcessingFunction, Source

HORIZON_MS = 3_600_000


class Event(msgspec.Struct):
    id: str
    ts: int
    text: str = ""


class Dedupe(ProcessingFunction[Event]):
    """``seen`` maps ids to event times in the order in which they came, which checkpoints keep."""

    seen = Local[dict[str, int]]({})

    def process(self, event: Event, ctx: Context) -> None:
        seen = self.seen.value
        while seen and (oldest := next(iter(seen))) and seen[oldest] < event.ts - HORIZON_MS:
            del seen[oldest]
        if event.id not in seen:
            seen[event.id] = event.ts
            ctx.emit(event)


job = Job("dedupe", Source("events", Json(Event), timestamp=lambda event: event.ts), Dedupe, output="events-once")
