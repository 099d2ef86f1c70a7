"""A node in a network namespace of its own: its cable is pulled for 5 s and put back.

Where namespaces may not be made (they need root), the node is behind the proxy instead, which lets nothing through.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.integration.fleet_support import UNTRIMMED, owners
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_proxy import Proxy
from tests.integration.kafka_stage import OUTLASTS_ALL_CUTS, KafkaStage
from tests.integration.processes import PLENTY_S, until

NET = f"10.{10 + os.getpid() % 90}.{os.getpid() // 90 % 10}"
"""Of this process, so that several test runs of one machine do not meet; with as many characters as 127.0.0."""
HERE, THERE = f"{NET}.1", f"{NET}.2"
CUT_S = 5.0


def ip(*words: str) -> bool:
    """`ip ...`; False where it is not allowed or there is no such program."""
    if shutil.which("ip") is None:
        return False
    return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0


@contextmanager
def cable() -> Iterator[tuple[str, str] | None]:
    """(namespace, interface here) of a cable into a new namespace; None where this machine does not allow it."""
    space = f"holon{os.getpid()}"
    near, far = f"hn{os.getpid()}", f"hf{os.getpid()}"
    steps = (
        ("netns", "add", space),
        ("link", "add", near, "type", "veth", "peer", "name", far, "netns", space),
        ("addr", "add", f"{HERE}/30", "dev", near),
        ("link", "set", near, "up"),
        ("-n", space, "addr", "add", f"{THERE}/30", "dev", far),
        ("-n", space, "link", "set", far, "up"),
        ("-n", space, "link", "set", "lo", "up"),
    )
    try:
        yield (space, near) if all(ip(*step) for step in steps) else None
    finally:
        ip("link", "del", near)
        ip("netns", "del", space)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[KafkaStage]:
    stage = KafkaStage(tmp_path, session_bootstrap(), OUTLASTS_ALL_CUTS, UNTRIMMED)
    yield stage
    stage.log.close()


def interpreter_in(space: str, folder: Path) -> Path:
    """A Python that runs in the namespace."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec ip netns exec {space} "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return script


@pytest.mark.long
def test_a_node_whose_cable_is_pulled_for_5_s_is_replaced_and_comes_back(
    stage: KafkaStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    with ExitStack() as stack:
        there = stack.enter_context(cable())
        record_property("cut_by", "proxy" if there is None else "namespace")
        proxy = stack.enter_context(Proxy(session_bootstrap(), host="127.0.0.1" if there is None else HERE))
        run = stage.open()
        monitor = stage.monitor(run)
        fleet = stack.enter_context(stage.fleet(0))
        with monkeypatch.context() as patch:
            if there is not None:
                patch.setattr(sys, "executable", str(interpreter_in(there[0], tmp_path)))
            stage.add(fleet, 0, f"log.bootstrap={proxy.bootstrap}", expected=2)
        stage.add(fleet, 1, expected=2)
        with stage.feeding():
            stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions", fleet)
            rule = proxy.hold() if there is None else None
            assert there is None or ip("link", "set", there[1], "down")
            pulled_s = time.monotonic()
            stage.until(monitor, lambda: set(owners(monitor)) == {1}, "the other owns all", fleet)
            before = monitor.consumed
            stage.until(monitor, lambda: monitor.consumed > before + 500, "it works on", fleet)
            until(lambda: time.monotonic() > pulled_s + CUT_S, "the cable is put back")
            if rule is not None:
                rule.release()
            assert there is None or ip("link", "set", there[1], "up")
            first, second = fleet.running()
            second.process.terminate()  # while it lives, the first has to keep pace for half a minute to get anything
            stage.until(monitor, lambda: set(owners(monitor)) == {0}, "the first is back and owns all", fleet)
            before = monitor.consumed
            stage.until(monitor, lambda: monitor.consumed > before + 500, "it works too", fleet)
            assert second.process.wait(PLENTY_S) == 0
        assert fleet.running() == [first]
        stage.finish(run, fleet)
    stage.assert_exact()
