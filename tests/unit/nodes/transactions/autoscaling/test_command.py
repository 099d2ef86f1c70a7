"""`holon txn autoscale` with options that cannot be: refused by name before a log is opened or a node is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.cli.main import run


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
