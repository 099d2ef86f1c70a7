"""One check of `holon doctor`, and what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KAFKA = "kafka"
"""Name of the check whether the cluster of a log on Kafka answers."""


@dataclass(frozen=True, slots=True)
class Check:
    """``required``: nothing works without it. ``advice`` is what to do if it is missing or warned of."""

    name: str
    status: Literal["ok", "missing", "warning"]
    found: str
    required: bool
    advice: str = ""
