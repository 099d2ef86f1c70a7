"""The installed package: the wheel's files, its metadata, a light plain install, and the lock file."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.tidy.source import ROOMS, ROOT

# Packages that come with extras only; a plain install must work without.
EXTRAS = (
    "confluent_kafka datasketches hypothesis pandas prometheus_client pyarrow pycrdt pyspark pytest redis"
).split()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel as the build backend makes it, without network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=ROOT, check=True, timeout=120)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_wheel_holds_the_rooms_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    (info,) = (top for top in tops if top.endswith(".dist-info"))
    assert info.startswith("holon_streams-")
    assert tops == {*ROOMS, info}


def test_wheel_holds_every_module_and_the_typing_marker(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for room in ROOMS:
        assert f"{room}/py.typed" in names
        modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / room).rglob("*.py")}
        assert modules and modules <= names, sorted(modules - names)


def test_wheel_brings_the_licence_and_the_command(wheel: zipfile.ZipFile) -> None:
    (licence,) = (name for name in wheel.namelist() if name.endswith("/LICENSE"))
    assert b"Apache License" in wheel.read(licence)
    (points,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    text = wheel.read(points).decode()
    assert "holon = nodes.cli.entry:main" in text
    assert "[holon.commands]\nbench = nexmark.compare.commands:app\nnexmark = nexmark.cli:app" in text


def test_plain_install_needs_nothing_of_the_extras(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
    needs = metadata.get_all("Requires-Dist") or []
    plain = {re.split(r"[<>=;\[ ]", need)[0] for need in needs if "extra ==" not in need}
    assert plain == set("lmdb msgspec numpy obstore psutil rich structlog typer".split())
    assert set(metadata.get_all("Provides-Extra") or []) >= {"spark", "redis", "yjs", "all"}


def test_extra_all_names_every_other_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras.pop("all")
    assert everything == f"holon-streams[{','.join(sorted(extras))}]"


def test_importing_the_rooms_loads_no_extra() -> None:
    script = f"import sys, {', '.join(ROOMS)}, nodes.log\nprint(*(set({EXTRAS!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr


def locked() -> dict[str, str]:
    """Each line of the lock file that pins a package, with the hashes that follow."""
    text = (ROOT / "requirements.lock").read_text()
    entries = re.split(r"(?m)^(?=[a-z])", re.sub(r"(?m)^\s*#.*\n", "", text))
    return {entry.split("==")[0].split("[")[0]: entry for entry in entries if entry.strip()}


def test_lock_pins_and_hashes_every_package() -> None:
    for name, entry in locked().items():
        assert re.match(r"[a-z0-9.-]+(\[[a-z,]+\])?==\S+", entry), entry
        assert "--hash=sha256:" in entry, name


def test_lock_covers_every_extra_and_tool() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    wanted += [need for name, needs in extras.items() if name != "all" for need in needs]
    assert {re.split(r"[<>=\[]", need)[0] for need in wanted} <= set(locked())
    assert "pyspark==4.0.0" in locked()["pyspark"]


def test_lock_names_no_package_source() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"://|--index|--extra-index|--find-links|-i ", text)


def test_build_backend_is_locked() -> None:
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert re.split(r"[<>=]", backend)[0] in locked()
    assert Path(sys.executable).with_name("hatchling").exists()
