"""The records that the state machine wants on the log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AppendCalls:
    """To the calls of a state partition. ``as_it_is``: not compressed."""

    partition: int
    value: bytes
    as_it_is: bool = False


@dataclass(frozen=True, slots=True)
class AppendEpochs:
    value: bytes


@dataclass(frozen=True, slots=True)
class AppendReply:
    """To the replies of a state partition."""

    partition: int
    value: bytes


@dataclass(frozen=True, slots=True)
class AppendCommit:
    """To the commits of a state partition."""

    partition: int
    value: bytes


Append = AppendCalls | AppendEpochs | AppendReply | AppendCommit
