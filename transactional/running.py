"""What a state partition knows of the epoch in work."""

from __future__ import annotations

from dataclasses import dataclass, field

from transactional.errors import Aborted
from transactional.execution import Execution
from transactional.messages import Request
from transactional.operators import StateKey
from transactional.settling import Redoing
from transactional.site import Site


@dataclass(slots=True)
class Running:
    """``round``: the last one that ran here."""

    site: Site
    redoing: Redoing
    round: int = 0
    executions: dict[int, Execution] = field(default_factory=dict)
    roots: dict[int, Request] = field(default_factory=dict)
    aside: list[Request] = field(default_factory=list)  # repeats and refusals
    outcomes: list[tuple[int, Request, bytes | Aborted]] = field(default_factory=list)
    writes: dict[StateKey, bytes | None] = field(default_factory=dict)
    committed: bool = False
    shipped: bool = False
    agreed: int = 0  # to how many that hang
