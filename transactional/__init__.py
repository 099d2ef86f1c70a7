"""Transactions on the log: functions, epochs, commit and snapshots, as a pure protocol."""

from transactional.context import Context
from transactional.entities import Entity
from transactional.errors import Aborted, BadArguments, CallFailed, CallNotAwaited, LimitExceeded, UnknownFunction
from transactional.execution.serial import Serial
from transactional.operators import Limits, Operator, Program
from transactional.state.values import BadValue

__all__ = [
    "Aborted",
    "BadArguments",
    "BadValue",
    "CallFailed",
    "CallNotAwaited",
    "Context",
    "Entity",
    "LimitExceeded",
    "Limits",
    "Operator",
    "Program",
    "Serial",
    "UnknownFunction",
]
