"""Other processes in the tests of the embedded log: ``python -m tests.integration.log_child COMMAND ...``.

Each acknowledgement is printed as one line, so that a test that kills the process knows what was acknowledged.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys

from nodes.log import EmbeddedLog, TopicPartition
from nodes.log.embedded.environment import Environment
from nodes.log.embedded.folder import LogFolder
from nodes.log.embedded.lock_file import READER_LOCK
from nodes.log.embedded.open_environments import registry


def append(path: str, partition: str, name: str, rounds: str, batch: str, size: str) -> None:
    """Append ``rounds`` batches (0: for ever) of records ``name:number:padding``."""
    with EmbeddedLog(path) as log:
        say("ready")
        number = 0
        while int(rounds) == 0 or number < int(rounds) * int(batch):
            values = [f"{name}:{at}:".encode().ljust(int(size), b".") for at in range(number, number + int(batch))]
            done = log.append("t", int(partition), values)
            number += int(batch)
            say(f"{done.first_offset} {done.count}")


def echo(path: str, rounds: str) -> None:
    """Answer each record of partition 0 with one in partition 1."""
    with EmbeddedLog(path) as log:
        say("ready")
        for number in range(int(rounds)):
            while not log.wait({TopicPartition("t", 0): number}, 10):
                pass
            log.append("t", 1, log.read("t", 0, number, max_records=1).values)


def hold(path: str, partition: str) -> None:
    """Append one record, then hold LMDB's write lock with a half-done transaction until the input ends."""
    log = EmbeddedLog(path)
    log.append("t", int(partition), [b"acknowledged by the holder"])
    environment = environment_of(log, int(partition))
    with environment.begin_write() as txn:
        txn.put(b"\x00" * 8, b"never committed")
        say("holding")
        sys.stdin.read()
        txn.abort()


def hold_reader_lock(path: str, partition: str) -> None:
    """Hold the lock under which LMDB gives readers their places, as if stopped in the middle of it."""
    log = EmbeddedLog(path)
    log.append("t", int(partition), [b"acknowledged by the holder"])
    # Never closed: that would drop the locks by which others see that the environment is in use.
    descriptor = os.open(environment_of(log, int(partition)).path / "lock.mdb", os.O_RDWR)
    mapped = mmap.mmap(descriptor, 4096)
    lock = ctypes.c_char.from_buffer(mapped, READER_LOCK * 4)
    assert ctypes.CDLL(None).pthread_mutex_lock(ctypes.byref(lock)) == 0
    say("holding")
    sys.stdin.read()


def create(path: str, partitions: str) -> None:
    """Create a log and topics when told to; say what the topics are."""
    say("ready")
    sys.stdin.readline()
    with EmbeddedLog(path) as log:
        for number in range(20):
            log.create_topic(f"topic-{number}", int(partitions))
            log.append(f"topic-{number}", 0, [b"x"])
        say(repr(log.topics()))


def environment_of(log: EmbeddedLog, partition: int) -> Environment:
    """The files of a partition that has been used; the log that has it open goes on to hold it."""
    path = LogFolder(log.path).partition_path("t", partition)
    store = registry().acquire(path, f"partition {partition}", "none", 1.0)
    registry().release(store)
    return store.env


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


COMMANDS = {command.__name__: command for command in (append, echo, hold, hold_reader_lock, create)}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
