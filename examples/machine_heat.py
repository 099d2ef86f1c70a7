"""Readings of machines: the quantiles of each machine's heat in five minutes, and at once what is dangerous.

``fold`` takes any lattice: here a sketch whose size does not grow with the readings.
"""

import msgspec

from holon import Json, Sliding
from holon.dataflow import Flow
from wcrdt import Distribution, Quantiles


class Reading(msgspec.Struct):
    """``celsius`` is missing where the sensor was out of order."""

    ts: int
    machine: str
    celsius: float | None = None


class Heat(msgspec.Struct):
    machine: str
    ts: int
    celsius: float


class Spread(msgspec.Struct):
    machine: str
    half: float
    most: float


def sound(reading: Reading) -> Heat | None:
    return None if reading.celsius is None else Heat(reading.machine, reading.ts, reading.celsius)


def spread(row: tuple[str, Distribution]) -> Spread:
    machine, heat = row
    return Spread(machine, heat.quantile(0.5) or 0.0, heat.quantile(0.99) or 0.0)


flow = Flow("machine-heat")
heat = flow.source("readings", Json(Reading), time=lambda reading: reading.ts, out_of_order="1s").filter_map(sound)
heat.filter(lambda row: row.celsius > 90).sink("alarms", key=lambda row: row.machine)
windows = heat.key_by(lambda row: row.machine).window(Sliding("5m", "1m"))
windows.fold(Quantiles(0.01), lambda row: row.celsius).map(spread).sink("spread", key=lambda row: row.machine)
