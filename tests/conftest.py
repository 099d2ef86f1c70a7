"""Rules for every test: markers by folder, hypothesis profiles, no skips in continuous integration; compiled loops."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from holon.columnar.loops import install
from nodes.compiled import loading as compiled
from nodes.compiled.loading import Compiled
from nodes.light_start import start_lightly
from nodes.runtime.process_start import collect_rarely
from nodes.sim.many import fresh_base_seed

TESTS = Path(__file__).parent
FOLDERS = ("unit", "laws", "sim", "integration", "attack")
IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")

# No deadlines: the machine is shared, and a slow example is not a wrong one. Slow data generation is no fault either.
_NO_TIMING = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=50, **_NO_TIMING)
# A run that decides whether a change lands draws the same examples for the same code, as hypothesis does in CI by
# itself. Each ``make check`` and every night draw new ones. Simulations draw new seeds everywhere.
settings.register_profile("ci", max_examples=30, derandomize=True, print_blob=True, **_NO_TIMING)
settings.register_profile("nightly", max_examples=2_000, derandomize=False, print_blob=True, **_NO_TIMING)
# A test that has found a planted bug need not look for its smallest example.
settings.register_profile(
    "mutants", max_examples=50, phases=[Phase.explicit, Phase.reuse, Phase.generate], **_NO_TIMING
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if IN_CI else "dev"))

if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # Containers often set it. Hundreds of processes that tests start would then compile the same modules again.
    sys.dont_write_bytecode = False

# JVMs live for seconds here, and the second compiler costs more than it saves. Without it two tests with Spark take
# 43 s of CPU instead of 63, and a broker with two runs of 50,000 events 5 s instead of 8.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC")
start_lightly()  # so do processes that tests start, and the workers of this one

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell: processes that tests start, and interrupt, would ignore it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--nightly``: the tests marked nightly too; ``--drawn``: a third of those marked long, as in ``make test``.

    ``--long-first``: tests marked long come before others, so that no worker begins one when all others have ended.
    """
    parser.addoption("--nightly", action="store_true", help="also run the tests that are marked nightly")
    parser.addoption("--drawn", action="store_true", help="run one third of the tests that are marked long, drawn anew")
    parser.addoption("--long-first", action="store_true", help="run the tests that are marked long before the others")


def pytest_configure(config: pytest.Config) -> None:
    """One base seed of the simulations for the whole run, also where several processes share it; how many by night."""
    os.environ.setdefault("SIM_BASE_SEED", str(fresh_base_seed()))
    if config.getoption("--nightly"):
        os.environ["SIM_NIGHT"] = "1"


def pytest_collection_finish() -> None:
    """Tests make their objects as nodes do, and thousands of modules and tests are no garbage."""
    collect_rarely()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The variables that run the same simulations again."""
    if any("tests/sim/" in report.nodeid for report in terminalreporter.stats.get("passed", [])):
        terminalreporter.write_line(f"simulations: SIM_BASE_SEED={os.environ['SIM_BASE_SEED']}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test with the folder that it lies in; leave the nightly ones, and those not drawn, to the night."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder in FOLDERS:
            item.add_marker(folder)
    left_out: set[pytest.Item] = set()
    if not config.getoption("--nightly") and "nightly" not in config.getoption("markexpr"):
        left_out |= {item for item in items if item.get_closest_marker("nightly")}
    if config.getoption("--drawn"):
        long = [item for item in items if item.get_closest_marker("long") and item not in left_out]
        left_out |= set(long) - set(long[int(os.environ["SIM_BASE_SEED"]) % 3 :: 3])
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    if config.getoption("--long-first"):
        items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="module")
def loops_installed() -> Iterator[None]:
    """Tests of this module have the compiled loops; no others of this process."""
    assert compiled.ensure(), "numba is part of the development environment"
    yield
    install(None)


@pytest.fixture(scope="module")
def loops() -> Iterator[Compiled]:
    """The compiled loops; no others of this process have them."""
    compiled.ensure()
    found = compiled.loops()
    install(None)
    assert found is not None
    yield found


@pytest.fixture
def no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of processes with a limit on the size of files: Python cuts bytecode off there, and reads it again."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failure where nobody would read the skip."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = _complaint(item.nodeid, report.longrepr)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself while it is imported."""
    report = yield
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = _complaint(collector.nodeid, report.longrepr)
    return report


def _complaint(node_id: str, longrepr: object) -> str:
    """The message instead of pytest's (path, line, "Skipped: reason")."""
    reason = longrepr[2] if isinstance(longrepr, tuple) and len(longrepr) == 3 else longrepr
    return f"{node_id}: {reason}. In CI a skip is a failure: set up what it needs."
