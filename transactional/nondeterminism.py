"""How it shows that a function is not deterministic: two records of one name differ."""

from __future__ import annotations

from collections.abc import Iterator

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
