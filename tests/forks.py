"""``-p tests.forks --forks N``: tests are collected once, and run in N forks of the process that has collected them.

A worker of xdist imports every test module itself, which for ``tests/unit`` costs more than its tests. A fork has them
imported. It takes whole modules, one ahead of the one that it runs, and sends all reports to the first process.
"""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Iterator
from itertools import chain, groupby, pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

Modules = list[list[pytest.Item]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="run the tests in so many forks of this process")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """In place of pytest's own loop, which has the same end."""
    forks, options = session.config.getoption("--forks"), session.config.option
    if not forks or options.collectonly or (session.testsfailed and not options.continue_on_collection_errors):
        return None
    modules = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
    first = _First(session, modules)
    try:
        first.run(min(forks, len(modules)))
    finally:
        first.stop()
    return True


class _First:
    """The process that has collected the tests: it hands out modules, and hears of what became of them."""

    def __init__(self, session: pytest.Session, modules: Modules) -> None:
        self._session, self._modules = session, modules
        self._left = iter(range(len(modules)))
        self._forks: dict[Connection, BaseProcess] = {}
        self._unheard: dict[Connection, dict[str, pytest.Item]] = {}

    def run(self, forks: int) -> None:
        """Until all tests have run, or as many have failed as may."""
        context = get_context("fork")
        for _ in range(forks):
            ours, theirs = context.Pipe()
            process = context.Process(target=_run_in_fork, args=(theirs, self._session, self._modules))
            process.start()
            theirs.close()  # so that the end of the process is the end of what is read
            self._forks[ours], self._unheard[ours] = process, {}
        while self._forks:
            for connection in wait(list(self._forks)):
                assert isinstance(connection, Connection)
                self._hear(connection)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        missing = [item for place in self._left for item in self._modules[place]]
        if missing:
            self._fail(missing, "not run: no process is left")

    def stop(self) -> None:
        """End the forks that still run."""
        for process in self._forks.values():
            process.terminate()
            process.join()

    def _hear(self, connection: Connection) -> None:
        unheard, hook = self._unheard[connection], self._session.config.hook
        try:
            kind, content = connection.recv()
        except (EOFError, ConnectionResetError):
            process = self._forks.pop(connection)
            process.join()
            self._fail(list(unheard.values()), f"the process that runs it has ended with exit code {process.exitcode}")
            return
        if kind == "more":
            place = next(self._left, None)
            unheard.update({item.nodeid: item for item in ([] if place is None else self._modules[place])})
            connection.send(place)
        elif kind == "report":
            report = hook.pytest_report_from_serializable(config=self._session.config, data=content)
            hook.pytest_runtest_logreport(report=report)
        elif kind == "warning":
            hook.pytest_warning_recorded.call_historic(kwargs=_warning(*content))
        elif kind == "logstart":
            hook.pytest_runtest_logstart(**content)
        else:
            unheard.pop(content["nodeid"])
            hook.pytest_runtest_logfinish(**content)

    def _fail(self, items: list[pytest.Item], why: str) -> None:
        for item in items:
            report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
            self._session.config.hook.pytest_runtest_logreport(report=report)


def _run_in_fork(connection: Connection, session: pytest.Session, modules: Modules) -> None:
    config = session.config
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:  # the file that holds what a test writes is shared with the other forks
        capture.stop_global_capturing()
        capture.start_global_capturing()
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(_Sender(connection, config), "forks-sender")
    for item, following in pairwise(chain(_handed(connection, modules), [None])):
        assert item is not None
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    atexit._run_exitfuncs()  # temporary folders are given back so, and a fork has none of these itself


def _handed(connection: Connection, modules: Modules) -> Iterator[pytest.Item]:
    """The items of the modules that this process is given."""
    while True:
        connection.send(("more", None))
        place = connection.recv()
        if place is None:
            return
        yield from modules[place]


class _Sender:
    """Hands the reports of this process to the first one, which shows them."""

    def __init__(self, connection: Connection, config: pytest.Config) -> None:
        self._connection, self._config = connection, config

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self._connection.send(("logstart", {"nodeid": nodeid, "location": location}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        self._connection.send(("logfinish", {"nodeid": nodeid, "location": location}))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        seen = warning_message
        told = (str(seen.message), seen.category.__name__, seen.filename, seen.lineno, when, nodeid, location)
        self._connection.send(("warning", told))


def _warning(text: str, category: str, filename: str, line: int, when: str, nodeid: str, location: Any) -> dict:
    """Of a category that this process need not know."""
    kind = type(category, (Warning,), {})
    message = warnings.WarningMessage(kind(text), kind, filename, line)
    return {"warning_message": message, "when": when, "nodeid": nodeid, "location": location}
