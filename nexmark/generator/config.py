"""Parameters of a generated stream, besides the event number."""

from __future__ import annotations

from dataclasses import dataclass

from nexmark.model import BASE_TIME_MS, EVENTS_PER_S


@dataclass(frozen=True, slots=True)
class GeneratorConfig:
    """One logical generator: ids and event numbers count from 0, all partitions share one timeline.

    ``out_of_order_group`` shuffles events within groups of that many (1: in order; the reference's knob is 1000).
    """

    seed: int = 0
    base_time_ms: int = BASE_TIME_MS
    events_per_s: int = EVENTS_PER_S
    out_of_order_group: int = 1

    def __post_init__(self) -> None:
        if self.events_per_s < 1:
            raise ValueError(f"events_per_s is {self.events_per_s}; it must be at least 1")
        if self.out_of_order_group < 1:
            raise ValueError(f"out_of_order_group is {self.out_of_order_group}; it must be at least 1 (1 is in order)")
        if self.out_of_order_group % 953 == 0:
            raise ValueError("out_of_order_group must not be a multiple of 953, which would repeat event ids")
