"""A child that is started before its node is known: it becomes that node, or ends and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil

from nodes.fleet.prepared_child import MODULE, PreparedChild, PreparedChildren
from nodes.python_process import child_environment
from nodes.runtime.child_node import JobNode, child_command
from tests.integration.processes import until
from tests.tidy.source import ROOT

NOTHING = JobNode(job="no_such_module:job", number=7)


def test_it_is_the_node_of_its_argument_with_the_environment_that_it_was_given() -> None:
    children = PreparedChildren()
    with children:
        environment = child_environment({"HOLON__LOGGING__FORMAT": "json"})
        process = children.begin(child_command(NOTHING)[-1], environment)
        assert process is not None
        output, _ = process.communicate()
        assert process.returncode == 2
        assert output.startswith(b"{") and b"no_such_module" in output, "the setting came with the node"
        assert children.begin(child_command(NOTHING)[-1], environment) is None, "there was one"


def test_one_that_is_not_needed_ends_with_the_block() -> None:
    with PreparedChildren():
        child = one_prepared_by(os.getpid())
    assert not child.is_running()


def test_one_that_has_died_is_no_node() -> None:
    child = PreparedChild()
    child.process.kill()
    child.process.wait()
    assert child.begin("x" * 100_000, {}) is None


def test_it_ends_by_itself_where_the_command_is_killed() -> None:
    waits = "import sys\nfrom nodes.fleet.prepared_child import PreparedChildren\n"
    waits += "with PreparedChildren():\n    print(flush=True)\n    sys.stdin.read()"
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", waits], cwd=ROOT, env=child_environment(), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    with parent:
        assert parent.stdout is not None and parent.stdout.readline()
        child = one_prepared_by(parent.pid)
        parent.send_signal(signal.SIGKILL)
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the end of the child")


def test_a_command_that_starts_no_node_ends_with_its_error() -> None:
    """The child has its pipe for standard output, so the command would wait for it for ever."""
    command = [sys.executable, "-P", "-m", "nodes.cli", "run", "no_such_module:job", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no_such_module" in done.stderr


def prepared_by(parent: int) -> list[psutil.Process]:
    """Such children of this process."""
    return [child for child in psutil.Process(parent).children() if is_prepared(child)]


def is_prepared(child: psutil.Process) -> bool:
    try:
        return MODULE in child.cmdline()
    except psutil.Error:  # it has ended
        return False


def one_prepared_by(parent: int) -> psutil.Process:
    """The one such child of this process, once it runs its module."""
    until(lambda: len(prepared_by(parent)) == 1, "a prepared child")
    return prepared_by(parent)[0]
