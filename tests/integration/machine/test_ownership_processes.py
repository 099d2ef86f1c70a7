"""Ownership is equal in every process."""

from __future__ import annotations

import subprocess
import sys

from nodes.machine.ownership.assignment import target


def test_the_digest_is_the_same_in_every_process() -> None:
    program = (
        "from nodes.machine import messages as m; from nodes.machine.ownership.ownership import Ownership;"
        "o = Ownership(2);"
        "[o.apply(x) for x in (m.JobStarted(0, 'f', 2), *(m.Hello(0, n, 1) for n in 'cab'), m.Command(0, 'stop'))];"
        "print(o.digest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1


def test_all_releases_and_all_processes_choose_alike() -> None:
    expected = {0: "a", 1: "a", 2: "b", 3: "b", 4: "b", 5: "c", 6: "c"}
    assert target(7, ["a", "b", "c"], {3: "b"}) == expected
    program = "from nodes.machine.ownership.assignment import target; print(target(7, ['a', 'b', 'c'], {3: 'b'}))"
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == str(expected)
