"""Rows that a loader has made leave room for others once they are dropped, as when keys move away from a node."""

from __future__ import annotations

import subprocess
import sys
from platform import libc_ver

from nodes.python_process import child_environment

MB = 60
PROGRAM = f"""
import sys
from threading import Event, Thread
import psutil
from nodes.checkpoints.saver import ThreadSaver
from nodes.heap import begin_in_first_heap

loader = ThreadSaver("loader")
if sys.argv[1] == "first":
    begin_in_first_heap(loader.begin)
until, begun = Event(), Event()
def wait():
    begun.set()
    until.wait()
others = [Thread(target=wait, daemon=True) for _ in range(6)]  # as those of clients of a log
for each in others:
    each.start()
    begun.wait()
rows, loaded = [], Event()
def load():
    rows.extend(bytes(1_000) for _ in range({MB} * 1_000))
    loaded.set()
loader.save(load)
loaded.wait()
before = psutil.Process().memory_info().rss
for number in range(0, len(rows), 2):
    rows[number] = None
others = [bytes(1_000) for _ in range({MB} * 500)]
print((psutil.Process().memory_info().rss - before) // 1_000_000)
"""


def more_mb(heap: str) -> int:
    """Resident memory, where every other row was dropped, and as many have come in the first thread."""
    command = [sys.executable, "-c", PROGRAM, heap]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_dropped_rows_of_a_loader_leave_room_for_those_of_the_loop() -> None:
    assert more_mb("first") < MB // 10
    if libc_ver()[0] == "glibc":
        assert more_mb("own") > MB // 3, "it is this setting that does it"
