"""Errors that the runtime raises for the person at the keyboard; the command line gives each its exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MissingDependency(Exception):
    """A program or package that this machine lacks; the message names what to install (exit code 3)."""


class Unreachable(Exception):
    """A broker or store that does not answer; the message names it and its address (exit code 4)."""


class RunFailed(Exception):
    """A run that ended without its result or with a wrong one (exit code 1)."""


class SettingsError(Exception):
    """An unknown, wrong or contradictory setting; the message names key, value and origin (exit code 2)."""


class UnknownName(Exception):
    """A name that the user gave and nothing has: query, topic, module, scenario (exit code 2).

    ``kind`` is the word for what was looked up; the message ends with the nearest of the ``known`` names.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str] = ()) -> None:
        super().__init__(f"no {kind} {name!r}{nearest(name, known)}")
        self.name = name


def nearest(name: str, known: Iterable[str]) -> str:
    """``"; nearest: a, b"``, or the whole list if it is short, or nothing."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return f"; nearest: {', '.join(close)}"
    if 0 < len(names) <= 8:
        return f"; known: {', '.join(names)}"
    return ""
