"""The set-up script's decisions, tried by calling its functions with stand-ins for what is on a machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.tidy.source import ROOT

SCRIPT = ROOT / "deploy/setup.sh"
TOOLS = ("awk", "bash", "cat", "cksum", "dirname", "head", "sed")


def run_functions(call: str, path: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Source the script, then run `call`; `path` replaces the whole search path for programs."""
    env = {**os.environ, **environment, "PATH": str(path) if path else os.environ["PATH"]}
    env.pop("JAVA_HOME", None)
    command = ["/bin/bash", "-c", f"source {SCRIPT}; {call}"]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)


def machine_with(folder: Path, **programs: str) -> Path:
    """A folder with the usual small tools and the given scripts as programs."""
    for tool in TOOLS:
        (folder / tool).symlink_to(next(p for p in (Path("/usr/bin") / tool, Path("/bin") / tool) if p.exists()))
    for name, script in programs.items():
        program = folder / name.replace("_", "-")
        program.write_text(f"#!/bin/bash\n{script}\n")
        program.chmod(0o755)
    return folder


def test_lock_entry_comes_with_its_hashes_alone() -> None:
    lines = run_functions("locked uv").stdout.splitlines()
    assert lines[0].startswith("uv==")
    assert len(lines) > 1 and all("--hash=sha256:" in line for line in lines[1:])


def test_this_python_is_usable_and_nonsense_is_not() -> None:
    assert run_functions(f"usable {sys.executable}").returncode == 0
    assert run_functions("usable /nowhere/python").returncode != 0


def test_old_python_is_refused_with_what_to_install(tmp_path: Path) -> None:
    machine = machine_with(tmp_path, python3="exit 1")
    done = run_functions("choose_python", machine, PYTHON="")
    assert done.returncode == 3
    assert "needs Python 3.11, 3.12 or 3.13" in done.stderr and "apt-get install" in done.stderr


def test_second_candidate_is_taken_where_the_first_is_too_old(tmp_path: Path) -> None:
    machine = machine_with(tmp_path, python3="exit 1", **{"python3.12": "exit 0"})
    assert run_functions("choose_python", machine, PYTHON="").stdout.strip() == str(machine / "python3.12")


def test_new_java_is_left_alone(tmp_path: Path) -> None:
    machine = machine_with(tmp_path, java="echo 'openjdk version \"21.0.2\" 2024-01-16' >&2")
    done = run_functions("offer_java", machine, HOLON_JAVA="")
    assert (done.returncode, done.stdout) == (0, "")


def test_old_java_is_replaced_by_root(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    machine = machine_with(
        tmp_path, java="echo 'java version \"1.8.0_391\"' >&2", id="echo 0", apt_get=f'echo "$@" >>{calls}'
    )
    done = run_functions("offer_java", machine, HOLON_JAVA="")
    assert done.returncode == 0 and "installing it with apt-get" in done.stdout
    assert calls.read_text().splitlines() == ["update -qq", "install -y -qq openjdk-17-jre-headless"]


def test_missing_java_is_only_reported_to_other_users(tmp_path: Path) -> None:
    done = run_functions("offer_java", machine_with(tmp_path, id="echo 1000"), HOLON_JAVA="")
    assert done.returncode == 0 and "sudo apt-get install openjdk-17-jre-headless" in done.stdout


def test_java_that_cannot_be_installed_stops_nothing(tmp_path: Path) -> None:
    done = run_functions("offer_java", machine_with(tmp_path, id="echo 0", apt_get="exit 100"), HOLON_JAVA="")
    assert done.returncode == 0 and "Install it, for example" in done.stdout


def test_java_is_not_touched_when_asked_not_to(tmp_path: Path) -> None:
    done = run_functions("offer_java", machine_with(tmp_path, id="echo 0", apt_get="exit 100"), HOLON_JAVA="no")
    assert (done.returncode, done.stdout) == (0, "")
