"""Rows that a thread has loaded leave room for others once they are dropped, as when keys move away from a node."""

from __future__ import annotations

import subprocess
import sys

from nodes.python_process import child_environment

MB = 60
PROGRAM = f"""
import sys
from threading import Thread
import psutil
from nodes.heap import share_heap

if sys.argv[1] == "shared":
    assert share_heap()
rows = []
def load():
    rows.extend(bytes(1_000) for _ in range({MB} * 1_000))
thread = Thread(target=load)
thread.start()
thread.join()
before = psutil.Process().memory_info().rss
for number in range(0, len(rows), 2):
    rows[number] = None
others = [bytes(1_000) for _ in range({MB} * 500)]
print((psutil.Process().memory_info().rss - before) // 1_000_000)
"""


def more_mb(heap: str) -> int:
    """Resident memory, where every other row was dropped, and as many have come in another thread."""
    command = [sys.executable, "-c", PROGRAM, heap]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_dropped_rows_of_a_thread_leave_room_for_those_of_another() -> None:
    assert more_mb("shared") < MB // 10
    assert more_mb("apart") > MB // 3, "it is this setting that does it"
