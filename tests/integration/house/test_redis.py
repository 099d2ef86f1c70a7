"""deploy/redis.sh finds a Redis server, or says exactly what is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "deploy/redis.sh"
BASH = shutil.which("bash") or "/bin/bash"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A machine with hardly any program, whose user is not root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dirname").symlink_to(shutil.which("dirname") or "/usr/bin/dirname")
    add(folder, "id", "echo 1000")
    return folder


def add(folder: Path, name: str, line: str) -> Path:
    program = folder / name
    program.write_text(f"#!{BASH}\n{line}\n")
    program.chmod(0o755)
    return program


def ask(programs: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BASH, str(SCRIPT)],
        env={"PATH": str(programs), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def test_a_server_that_is_there_is_named_and_nothing_else_is_done(programs: Path) -> None:
    valkey = add(programs, "valkey-server", "exit 9")
    assert ask(programs).stdout == f"{valkey}\n"
    redis = add(programs, "redis-server", "exit 9")
    assert ask(programs).stdout == f"{redis}\n"
    assert ask(programs, HOLON_REDIS_SERVER="valkey-server").stdout == f"{valkey}\n"


def test_a_user_who_cannot_install_it_is_told_how_it_is_done(programs: Path) -> None:
    asked = ask(programs)
    assert (asked.returncode, asked.stdout) == (3, "")
    assert "redis-server is not installed" in asked.stderr and "sudo apt-get install redis-server" in asked.stderr
    asked = ask(programs, HOLON_REDIS_SERVER="nowhere")
    assert asked.returncode == 3 and "HOLON_REDIS_SERVER=nowhere is no program" in asked.stderr
