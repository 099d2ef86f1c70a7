"""Is a transactional job deterministic? Two runs over its log, which differ in what must not matter, and its records.

Each run has its own seed of Python's hashes and time zone, later times and other random numbers. Marks, replies and
commits are compared with the log, and what functions did, call by call, of one run with that of the other.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import msgspec

from nodes.errors import RunFailed
from nodes.python_process import child_environment, module_command
from nodes.replay.comparison import WAYS
from nodes.settings.settings import Settings
from nodes.transactions.replay.child import FAILED_EXIT, RunInput
from nodes.transactions.replay.log_run import Differs, EpochRun, LoggedRequest
from transactional.execution.tracing import Traced

POLL_S = 0.2
NO_MORE = "does nothing more"


class Parting(msgspec.Struct):
    """Where they part. ``operator``, ``key`` and ``function``: of the call that is the cause, as far as it shows.

    ``expected``: on the log, or of the first run where only the runs differ. ``request``: None if it is not known.
    """

    epoch: int
    what: str
    expected: str
    found: str
    tid: int | None = None
    operator: str | None = None
    key: str | None = None
    function: str | None = None
    request: LoggedRequest | None = None


class TransactionReplay(msgspec.Struct):
    """``epochs`` and ``replies``: those that were the same, from ``from_epoch`` on."""

    job: str
    from_epoch: int
    epochs: int
    replies: int
    deterministic: bool
    divergence: Parting | None = None


def replay_log_twice(
    reference: str,
    job: str,
    settings: Settings,
    from_epoch: int,
    to_epoch: int | None,
    show: Callable[[int, int], None],
) -> TransactionReplay:
    """Run both and compare. ``show`` receives the run and its epochs so far. Raises ``RunFailed`` if one cannot end."""
    given = RunInput(reference, sys.path, from_epoch, to_epoch)
    found = TransactionReplay(job, from_epoch, 0, 0, True)
    with tempfile.TemporaryDirectory(prefix="holon-txn-replay-") as folder:
        files = [_run(Path(folder, str(way)), given, settings, way, show) for way in range(len(WAYS))]
        with files[0].open("rb") as one, files[1].open("rb") as other:
            for lines in zip_longest(one, other):
                first, second = (msgspec.json.decode(line, type=EpochRun) if line else None for line in lines)
                found.divergence = compared(first, second)
                if found.divergence is not None:
                    found.deterministic = False
                    break
                found.epochs += 1
                found.replies += 0 if first is None else first.replies
    return found


def _run(folder: Path, given: RunInput, settings: Settings, way: int, show: Callable[[int, int], None]) -> Path:
    folder.mkdir()
    (folder / "given").write_bytes(msgspec.json.encode(given))
    out = folder / "epochs"
    command = module_command("nodes.transactions.replay.child", str(folder / "given"), str(out))
    environment = child_environment(settings.environment(), WAYS[way])
    with (folder / "errors").open("wb") as errors, (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(command, env=environment, stdout=printed, stderr=errors)
        try:
            seen = 0
            while True:
                try:
                    process.wait(POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    seen = _count(out)
                    show(way, seen)
        finally:
            process.kill()  # nothing, if it has ended
            process.wait()
    if process.returncode:
        why = (folder / "errors").read_text(errors="replace").strip()
        if process.returncode == FAILED_EXIT:
            raise RunFailed(why)
        raise RunFailed(f"run {way + 1} over the log ended with exit code {process.returncode}:\n{why}")
    return out


def _count(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def compared(first: EpochRun | None, second: EpochRun | None) -> Parting | None:
    """Where the log and two runs of one epoch part; None if they are the same."""
    runs = [run for run in (first, second) if run is not None]
    assert runs
    differing = next((run for run in runs if run.differs is not None), None)
    parted = None if first is None or second is None else _parted(first.calls, second.calls)
    if differing is None and parted is None:
        return None
    epoch = runs[0].epoch
    requests = {tid: each for run in runs for tid, each in run.requests.items()}
    if parted is not None:
        call, acts = parted
        parting = Parting(epoch, f"what {call.function} does", *acts)
        if differing is not None and differing.differs is not None:
            parting.what = f"{differing.differs.what}: in one run it {acts[0]}, in the other it {acts[1]}"
            parting.expected, parting.found = differing.differs.logged, differing.differs.computed
        return _blamed(parting, call, requests)
    assert differing is not None and differing.differs is not None
    differs = differing.differs
    return _blamed(
        Parting(epoch, differs.what, differs.logged, differs.computed), _suspect(differs, differing.calls), requests
    )


def _parted(first: list[Traced], second: list[Traced]) -> tuple[Traced, tuple[str, str]] | None:
    """The first act that is another in the second run, with the call that does it."""
    found: list[tuple[int, Traced, tuple[str, str]]] = []
    for one, other in zip(first, second, strict=False):
        acts = zip(one.acts, one.steps, other.acts, strict=False)
        step = next(((step, one, (act, theirs)) for act, step, theirs in acts if act != theirs), None)
        if step is not None:
            found.append(step)
        elif len(one.acts) != len(other.acts):
            at = min(len(one.acts), len(other.acts))
            pair = (
                one.acts[at] if at < len(one.acts) else NO_MORE,
                other.acts[at] if at < len(other.acts) else NO_MORE,
            )
            found.append((one.steps[-1], one, pair))
    first_found = min(found, key=lambda each: each[0], default=None)
    return None if first_found is None else (first_found[1], first_found[2])


def _suspect(differs: Differs, calls: list[Traced]) -> Traced | None:
    """Both runs agree against the log: the last writer of what differs, else a suspect's root."""
    if differs.written is not None:
        writers = [call for call in calls if differs.written in call.written]
        return writers[-1] if writers else None
    return next((call for call in calls if call.root and call.tid in differs.tids), None)


def _blamed(parting: Parting, call: Traced | None, requests: dict[int, LoggedRequest]) -> Parting:
    if call is not None:
        parting.tid, parting.operator, parting.key, parting.function = call.tid, call.operator, call.key, call.function
        parting.request = requests.get(call.tid)
    return parting
