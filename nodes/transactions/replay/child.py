"""One run of the log of a transactional job in a process of its own: see ``comparison.py``."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import msgspec

from nodes.errors import RunFailed
from nodes.runtime.log_opening import open_settings_log
from nodes.settings.settings import load_settings
from nodes.transactions.function_timeout import FunctionWatch
from nodes.transactions.process import load_program
from nodes.transactions.replay.log_run import LogReplay
from transactional.errors import ProgramMissing, RerunHangs

FAILED_EXIT = 2
POLL_INTERVAL_S = 0.05


class RunInput(msgspec.Struct):
    """The input of a run, beside the settings, which are in the environment."""

    reference: str
    path: list[str]
    from_epoch: int
    to_epoch: int | None


def main() -> int:
    """Read ``RunInput`` from the first file, write an ``EpochRun`` a line to the second."""
    given = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=RunInput)
    sys.path += [entry for entry in given.path if entry not in sys.path]
    program = load_program(given.reference)
    settings = load_settings(needs_bootstrap=False)
    watch = FunctionWatch(settings.node.function_timeout_ms)
    watch.begin()
    threading.Thread(target=_watch_functions, args=(watch,), daemon=True).start()
    try:
        with open_settings_log(settings) as log, Path(sys.argv[2]).open("wb") as out:
            for run in LogReplay(log, program, given.from_epoch, given.to_epoch).run():
                out.write(msgspec.json.encode(run) + b"\n")
                out.flush()  # the next epoch may end the process
    except (RunFailed, RerunHangs, ProgramMissing) as error:
        sys.stderr.write(f"{error}\n")
        return FAILED_EXIT
    return 0


def _watch_functions(watch: FunctionWatch) -> None:
    """Functions that exceed their timeout are ended as in a node."""
    pause = threading.Event()
    while not pause.wait(POLL_INTERVAL_S):
        watch.check()


if __name__ == "__main__":
    sys.exit(main())
