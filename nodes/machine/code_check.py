"""Whether a program may go on with what a job's log holds, its code and the types of its state; for both kinds of job.

Two rules for this file. State that cannot be decoded is refused. Code that would change values, or results, in silence
is accepted only after the operator's confirmation, which is on the log from then on.
"""

from __future__ import annotations

from collections.abc import Sequence

from holon.fingerprint.fitting import StateMisfit
from holon.fingerprint.version import JobVersion
from nodes.errors import RunFailed

ACCEPT = "--accept-code"


class JobMismatch(RunFailed):
    """The state on the log belongs to another job, code or setting."""


def is_recorded(mine: JobVersion, recorded: Sequence[str]) -> bool:
    """Whether this code is one that the job goes on with. ``recorded``: versions on the log, the newest last."""
    return any(each.code == mine.code for each in _known(recorded))


def last_recorded(recorded: Sequence[str]) -> JobVersion | None:
    """The newest version on the log; None: a release began the job that recorded none, or other ones."""
    known = _known(recorded[-1:])
    return known[0] if known else None


def check_unknown(job: str, accept: bool, advice: str) -> None:
    """Of a job whose log records no code version that this release can read."""
    if not accept:
        raise JobMismatch(
            f"job {job!r} was begun by another release of Holon, which recorded less of its code and no types of its "
            f"state: whether they are the same is not known; {ACCEPT} goes on with this code and records it, {advice}"
        )


def check_state(job: str, mine: JobVersion, stored: JobVersion, accept: bool, advice: str) -> None:
    """Refuse what does not fit, by name. ``advice``: how to begin anew."""
    found = mine.misfits(stored)
    broken = [each for each in found if not each.decodes]
    if broken:
        raise JobMismatch(
            f"job {job!r} has state that this code cannot read:\n{_lines(broken)}\n"
            f"keep the old field and add one with a default for the new meaning, or {advice}"
        )
    if found and not accept:
        raise JobMismatch(
            f"job {job!r} has state that does not fit this code:\n{_lines(found)}\n"
            f"bring the old names and types back, {ACCEPT} if that is meant, or {advice}"
        )


def _lines(found: Sequence[StateMisfit]) -> str:
    return "\n".join(f"  {each}" for each in found)


def _known(recorded: Sequence[str]) -> list[JobVersion]:
    return [version for version in map(JobVersion.decode, recorded) if version is not None]
