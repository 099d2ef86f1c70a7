"""Every Python block of README and of the pages runs, or, where it needs more than a folder, has the right types."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.integration.documented_code import AROUND, ROOT, Block, blocks, blocks_of
from tests.integration.processes import PLENTY_S
from tests.integration.pyright_runs import run_pyright

BLOCKS = blocks()
RUN = [block for block in BLOCKS if not (block.around.typed or block.around.proposal)]
TYPED = [block for block in BLOCKS if block.around.typed]
PROPOSALS = [block for block in BLOCKS if block.around.proposal]


def ran(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program)
    command = [sys.executable, "program.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PLENTY_S, check=False
    )


@pytest.mark.parametrize("block", RUN, ids=str)
def test_a_block_runs(block: Block, tmp_path: Path) -> None:
    done = ran(block.program, tmp_path)
    assert done.returncode == 0, f"{block}:\n{done.stderr}"


@pytest.mark.long
def test_blocks_that_need_more_than_a_folder_have_the_right_types(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for number, block in enumerate(TYPED):
        inner = block.around.before.endswith(":\n")
        code = textwrap.indent(block.code, "    ") if inner else block.code
        (programs / f"block{number}.py").write_text(f"# {block}\n{block.around.before}{code}")
    report = run_pyright(tmp_path, "programs")
    assert report["summary"]["filesAnalyzed"] == len(TYPED) > 0
    assert [f"{found['file']}: {found['message']}" for found in report["generalDiagnostics"]] == []


@pytest.mark.parametrize("block", PROPOSALS, ids=str)
def test_a_block_of_a_proposal_is_python(block: Block) -> None:
    body = textwrap.indent(block.code, "    ")
    assert ast.parse(f"async def proposal():\n{body}").body


def test_what_is_around_blocks_is_that_of_some_block() -> None:
    unused = set(AROUND) - {(block.page, block.first) for block in BLOCKS}
    assert not unused, f"no block begins with {sorted(unused)}: bring tests/integration/documented_code.py up to date"


def test_a_block_that_fails_is_found_with_its_page_and_line(tmp_path: Path) -> None:
    (block,) = blocks_of("docs/page.md", "Text.\n\n```python\nassert 1 == 2, 'wrong'\n```\n\n```\nnot Python\n```\n")
    done = ran(block.program, tmp_path)
    assert (str(block), done.returncode) == ("docs/page.md:3", 1)
    assert "AssertionError: wrong" in done.stderr
