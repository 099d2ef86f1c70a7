"""How it shows that a function is not deterministic: two records of one name differ."""

from __future__ import annotations

from collections.abc import Iterator

from transactional.execution import Execution
from transactional.messages import Mark


class Nondeterministic(AssertionError):
    """The log has another record of the same name: a function is no function of its input."""


def parted(known: Mark, computed: Mark) -> str:
    """Where two marks differ."""
    parts: Iterator[str] = (
        f"{name} {getattr(known, name)!r} on the log, {getattr(computed, name)!r} here"
        for name in ("sends", "contribution")
        if getattr(known, name) != getattr(computed, name)
    )
    return "; ".join(parts)


def timed_out_alone(partition: int, epoch: int, execution: Execution) -> Nondeterministic:
    """A function ran too long here, and by the log it did not."""
    return Nondeterministic(
        f"state partition {partition}, epoch {epoch}: {execution.timed_out} in transaction {execution.tid} here, and "
        "on the log it has ended in time. It takes about as long as it may: raise node.function_timeout_ms"
    )
