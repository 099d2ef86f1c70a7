"""Jobs that go wrong, and variants of one job that must not share state."""

from __future__ import annotations

import os
import re
import threading
import time

from holon import WCRDT, Context, Job, Json, Local, ProcessingFunction, Source, Tumbling, Window, on_window
from tests.integration.jobs_mixed import INPUT, OUTPUT, Event, time_of
from tests.integration.jobs_waiting import wait_at_gate
from wcrdt.lattices.counters import GCounter


class Poisoned(ProcessingFunction[Event]):
    """Does what the record says, and passes all others on."""

    def process(self, event: Event, ctx: Context) -> None:
        match event.poison:
            case "raise":
                wait_at_gate()
                raise ValueError(f"cannot stand event {event.id}")
            case "exit":
                raise SystemExit(3)
            case "hang":
                while True:
                    time.sleep(0.01)
            case "end the process":
                os._exit(0)
            case "hold":
                re.match("(a+)+$", "a" * 60 + "b")
            case "fork":
                if os.fork() == 0:
                    return  # the child goes on in the node's own loop
                os.wait()
            case "leak":
                hoard: list[bytes] = []
                while True:
                    hoard.append(bytes(1 << 24))
            case "slow":
                threading.Event().wait(0.3)
        ctx.emit({"id": event.id})


def poisoned() -> Job[Event]:
    return Job("poisoned", Source(INPUT, Json(Event), timestamp=time_of), Poisoned, output=OUTPUT)


class Locked(ProcessingFunction[Event]):
    """Keeps what no checkpoint can hold."""

    doors = Local[dict[str, object]]({})

    def process(self, event: Event, ctx: Context) -> None:
        self.doors.value["front"] = threading.Lock()


def locked() -> Job[Event]:
    return Job("locked", Source(INPUT, Json(Event), timestamp=time_of), Locked, output=OUTPUT)


class Small(ProcessingFunction[Event]):
    seen = Local(0)

    def process(self, event: Event, ctx: Context) -> None:
        self.seen.value += 1
        ctx.emit({"id": event.id, "seen": self.seen.value})


class SmallChanged(ProcessingFunction[Event]):
    """The same states, other code."""

    seen = Local(0)

    def process(self, event: Event, ctx: Context) -> None:
        self.seen.value += 1
        ctx.emit({"id": event.id, "seen": self.seen.value, "new": True})


def small(changed: int = 0, delay_ms: int = 0) -> Job[Event]:
    """One job in several versions: with other code, or with another declaration."""
    from holon import BoundedOutOfOrderness

    source = Source(INPUT, Json(Event), timestamp=time_of, watermarks=BoundedOutOfOrderness(delay_ms))
    return Job("small", source, SmallChanged if changed else Small, output=OUTPUT)


class Guarded(ProcessingFunction[Event]):
    """Counts windows of records whose time is near the log's own."""

    count = WCRDT(GCounter(), Tumbling(1000))

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, event.ts)

    @on_window(count, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit({"end": window.end_ms, "count": await self.count.window_value(window)})


def guarded(default: int = 0) -> Job[Event]:
    """With a skew guard of a minute, or the default one; events of odd amounts are filtered."""
    guard = "live" if default else 60_000
    source = Source(INPUT, Json(Event), timestamp=time_of, filter=lambda e: e.amount % 2 == 0, max_future_skew_ms=guard)
    return Job("guarded", source, Guarded, output=OUTPUT)


undeclared = Job("lost", Source("inn", Json(Event), timestamp=time_of), Small, output="nowhere")
