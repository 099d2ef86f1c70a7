"""A node whose output topic takes its time while a file exists: ``python -m tests.integration.slow_node JOB FILE ...``.

Arguments: reference of the job, path of the file, seconds of each append, folder of the log, ``-D`` definitions.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from nodes.log import EmbeddedLog, Log
from nodes.log.contract import Appended
from nodes.runtime import process_start
from nodes.settings.settings import Settings, load_settings
from nodes.streams import process
from nodes.streams.jobs import load_job
from tests.integration.jobs_mixed import OUTPUT


class SlowLog(EmbeddedLog):
    """Appends to the output topic take ``delay_s`` longer while ``flag`` exists."""

    flag = Path()
    delay_s = 0.0

    def append(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        headers: Sequence[bytes] | None = None,
        keys: Sequence[bytes | None] | None = None,
    ) -> Appended:
        if topic == OUTPUT and self.flag.exists():
            threading.Event().wait(self.delay_s)
        return super().append(topic, partition, values, headers=headers, keys=keys)


def opened(settings: Settings) -> Log:
    return SlowLog(settings.log.path)


def main() -> None:
    assert hasattr(process_start, "open_node_log"), "the place that opens the log has moved"
    reference, flag, delay_s, *definitions = sys.argv[1:]
    SlowLog.flag, SlowLog.delay_s = Path(flag), float(delay_s)
    process_start.open_node_log = opened
    process.run_node(load_job(reference), load_settings(definitions=definitions, environ={}), number=0)


if __name__ == "__main__":
    main()
