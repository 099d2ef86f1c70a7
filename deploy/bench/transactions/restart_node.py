"""A transactional node that writes down what it has read, and spent, until its first reply; for restart.py."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

from deploy.bench.transactions.state import anonymous_mb
from nodes.runtime.process_start import node_log
from nodes.settings.settings import load_settings
from nodes.transactions.process import GC_THRESHOLDS, SWITCH_S, TransactionProcess
from transactional.workloads.ycsb_t import workload

MOST_REPLIES = 5_000
"""Epochs that were open are replied to first; after so many it has long been at new requests."""


def main() -> None:
    """``NUMBER SEQUENCERS FILE [-D setting ...]``."""
    number, sequencers, file, *options = sys.argv[1:]
    settings = load_settings(definitions=options[1::2], environ={})
    sys.setswitchinterval(SWITCH_S)
    began_s = time.monotonic()
    with node_log(settings, GC_THRESHOLDS) as log:
        process = TransactionProcess(workload.program, log, settings, int(number), int(sequencers))
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, process.request_stop)
        turned, meter, job = process.metrics.turned, process.metrics.counted, process.topics.job
        replied, began_cpu_s = 0, time.process_time()

        def check() -> None:
            nonlocal replied
            turned()
            replies = process.driver.steps.tally.replies
            if replies != replied and replies < MOST_REPLIES:
                replied = replies
                read = {topic.removeprefix(f"{job}-txn-"): (t.records, t.size_bytes) for topic, t in meter.read.items()}
                found = {
                    "first_reply_s": round(time.monotonic() - began_s, 2),
                    "cpu_s": round(time.process_time(), 2),
                    "begin_cpu_s": round(began_cpu_s, 2),
                }
                found |= {"peak_mb": round(anonymous_mb()), "read": read}
                Path(file).write_text(json.dumps(found), encoding="ascii")

        process.metrics.turned = check  # type: ignore[method-assign]
        process.loop()


if __name__ == "__main__":
    main()
