"""Node processes of transactional programs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.integration.processes import PLENTY_S, ROOT

SEQUENCERS = 2
# A node that is only slow must not be taken for dead all the time.
# And what judges them afterwards reads the whole log.
PATIENT = ("-D", "node.failure_timeout_ms=1000", "-D", "node.truncate_internal_topics=false")


@contextmanager
def nodes(
    count: int,
    program: str,
    *options: str,
    last: Sequence[str] = PATIENT,
    stderr: int | None = None,
    each: Sequence[Sequence[str]] = (),
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Node processes of a program; what is left of them is killed. ``stderr``: as ``Popen`` has it.

    ``each``: further options of the first node, the second and so on.
    """
    command = [sys.executable, "-m", "nodes.cli", "txn", "node", program]
    command += ["--sequencers", str(SEQUENCERS), *options, *last]
    own = [*each, *[()] * (count - len(each))]
    started = [
        subprocess.Popen([*command, *own[number], "--number", str(number)], cwd=ROOT, stderr=stderr)
        for number in range(count)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait(PLENTY_S)
