"""Jobs that are not functions of their input, each in its own way, and one that is."""

from __future__ import annotations

import random
import time

from holon import Context, Job, Json, Local, ProcessingFunction, Source
from tests.integration.jobs_mixed import INPUT, OUTPUT, Event, time_of

KINDS = ("none", "random", "wall time", "time zone", "set order", "state", "undeclared state")
FROM_ID = 60
WORDS = tuple(f"word {n}" for n in range(40))


class Chance(ProcessingFunction[Event]):
    """From event ``FROM_ID`` on it shows what it must not depend on."""

    seen = Local(0)

    def __init__(self, kind: str = "none") -> None:
        self.kind = kind
        self.undeclared = [0]

    def process(self, event: Event, ctx: Context) -> None:
        self.seen.value += 1
        self.undeclared[0] += 1
        shown: object = self.seen.value
        if event.id >= FROM_ID:
            match self.kind:
                case "random":
                    shown = random.random()
                case "wall time":
                    shown = time.time_ns()
                case "time zone":
                    shown = time.localtime(event.ts / 1000).tm_min
                case "set order":
                    shown = list(set(WORDS))
                case "undeclared state":
                    shown = self.undeclared[0]
                case "state":
                    self.seen.value += random.randrange(1, 1 << 30)
                    shown = "the same"
        ctx.emit({"id": event.id, "shown": shown})


def job(kind: int = 0) -> Job[Event]:
    """As ``tests.integration.jobs_random:job?kind=1``."""
    return Job("chance", Source(INPUT, Json(Event), timestamp=time_of), Chance(KINDS[kind]), output=OUTPUT)
