"""`holon txn autoscale`: options that cannot be, refused by name before a log is opened; and when it takes samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from nodes.cli.main import run
from nodes.cli.txn import autoscale
from nodes.log.contract import LogError, LogFull
from nodes.transactions.autoscaling.autoscaler import Outcome
from nodes.transactions.autoscaling.deciding import Action, Sample


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ([], 2, "name what provides nodes: --program or --deployment"),
        (["--program", "a:b", "--deployment", "c"], 2, "--program and --deployment: nodes come from one of them"),
        (["--dry-run", "--nodes", "4:1"], 2, "--nodes 4:1: MIN:MAX with 1 <= MIN <= MAX is expected"),
        (["--dry-run", "--nodes", "0:1"], 2, "--nodes 0:1"),
        (["--dry-run", "--partitions", "some"], 2, "--partitions some: MIN:MAX is expected, as 1:4"),
        (["--dry-run", "--p99-ms", "0"], 2, "limits of the autoscaler: at least one sample"),
        (["--program", "nodes.errors:nothing"], 2, "no program 'nodes.errors:nothing'"),
        (["--dry-run"], 4, "no log in the folder"),
        (["--history"], 4, "no log in the folder"),
    ],
)
def test_options_that_cannot_be_are_named(
    options: list[str], code: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "log"
    assert run(["txn", "autoscale", *options, "--log-dir", str(where)]) == code
    assert text in capsys.readouterr().err and not where.exists()


class Scene:
    """A clock that waits move on, and an autoscaler whose samples take so long: the first one, and the others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first_s: float, later_s: float, stop_s: float) -> None:
        self.now_s, self.sample_s, self.later_s, self.stop_s = 100.0, first_s, later_s, 100.0 + stop_s
        self.sampled: list[float] = []
        self.checked = 0
        self.event = self
        monkeypatch.setattr(autoscale.time, "monotonic", lambda: self.now_s)

    def wait(self, timeout: float) -> bool:
        self.now_s = min(self.now_s + timeout + 0.001, max(self.now_s, self.stop_s))
        return self.now_s >= self.stop_s

    def check(self) -> None:
        self.checked += 1

    def turn(self) -> Outcome:
        assert len(self.sampled) < 50, "it is not stopped"
        self.sampled.append(round(self.now_s - 100.0, 1))
        self.now_s += self.sample_s
        self.sample_s = self.later_s
        return Outcome(Sample(at_ms=0, nodes=1, partitions=1), Action("none", 1, 1, ""))

    def run(self) -> None:
        mine = cast("Any", self)
        assert list(autoscale.outcomes(mine, mine, 2.0, 0, 0, mine)) == []


def test_a_sample_that_takes_longer_than_the_interval_keeps_it_from_neither_its_nodes_nor_the_signal_to_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch, 1.0, 1.0, 6.5)
    scene.run()
    assert scene.sampled == [2.0, 4.0, 6.0] and scene.checked > 10
    slow = Scene(monkeypatch, 7.0, 1.0, 30.0)
    slow.run()
    assert slow.sampled[:4] == [2.0, 9.0, 11.0, 13.0], "one that was late is not made up for"
    always = Scene(monkeypatch, 7.0, 7.0, 30.0)
    always.run()
    assert always.sampled == [2.0, 9.0, 16.0, 23.0] and always.checked >= 4


class Failing(Scene):
    """Its samples meet these errors, one after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, errors: list[LogError | None]) -> None:
        super().__init__(monkeypatch, 0.0, 0.0, 2.0 * len(errors) + 0.5)
        self.errors = errors

    def turn(self) -> Outcome:
        outcome = super().turn()
        if (error := self.errors[len(self.sampled) - 1]) is not None:
            raise error
        return outcome


def test_a_full_disk_is_told_once_while_it_lasts_and_samples_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full, away = LogFull("topic 't': no space left"), LogError("gone")
    scene = Failing(monkeypatch, [None, full, full, None, full, away])
    scene.run()
    assert scene.sampled == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    waits = "waits for room on the log, and nothing is decided until then: topic 't': no space left"
    assert capsys.readouterr().err.splitlines() == [waits, waits, "no sample: gone"]
