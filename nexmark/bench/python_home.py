"""The environment of a peer in Python: its own, made once in the cache from the hashed requirements in its folder."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from nodes.errors import MissingDependency, Unreachable
from nodes.local_kafka.jars import cache_folder, locked

PEERS = Path(__file__).parents[2] / "deploy" / "peers"
"""Queries and requirements: part of the source tree, not of the package."""
FETCH_TIMEOUT_S = 900
PROBE_TIMEOUT_S = 300
PACKAGES = {"quix": "quixstreams"}
"""Packages that have another name than the peer."""
_READY = "ready"


@dataclass(frozen=True, slots=True)
class PythonHome:
    """``python`` is the environment's interpreter; ``peer`` the folder of the peer's queries."""

    name: str
    python: Path
    peer: Path
    version: str


def python_home(name: str, cache: Path | None = None, peers: Path = PEERS) -> PythonHome:
    """Find the peer's environment, or make it (a minute; Pathway's is 1.2 GB). Safe to call at once.

    Raises ``MissingDependency`` without the source tree, or where the peer does not start on this machine.
    Raises ``Unreachable`` where its packages cannot be fetched or are not those that its folder locks.
    """
    peer = peers / name
    wanted = peer / "requirements.txt"
    if not wanted.is_file():
        raise MissingDependency(f"the peer {name} is a part of the source tree ({peer}), which is not here")
    text = wanted.read_bytes()
    key = f"{name}-py{sys.version_info[0]}{sys.version_info[1]}-{hashlib.sha256(text).hexdigest()[:12]}"
    base = (cache or cache_folder()) / "peers"
    base.mkdir(parents=True, exist_ok=True)
    folder = base / key
    with locked(base / f"{name}.lock"):
        if not (folder / _READY).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            _make(name, folder, wanted, PACKAGES.get(name, name))
    return PythonHome(name, _python(folder), peer, version_of(text.decode(), PACKAGES.get(name, name)))


def version_of(requirements: str, name: str) -> str:
    """Of a package, as the requirements pin it."""
    found = (line.split("==")[1].split()[0] for line in requirements.splitlines() if line.startswith(f"{name}=="))
    return next(found, "?")


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _make(name: str, folder: Path, wanted: Path, package: str) -> None:
    venv.create(folder, with_pip=True)
    command = [str(_python(folder)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-cache-dir", "--no-compile", "--only-binary", ":all:", "--require-hashes", "-r", str(wanted)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"the packages of {name} did not arrive within {FETCH_TIMEOUT_S} s; try again") from error
    if "No matching distribution found for" in done.stderr:
        python = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
        raise MissingDependency(
            f"{name} has no package for {python} on this machine; output of pip:\n{done.stderr[-1500:]}"
        )
    if done.returncode != 0:
        raise Unreachable(f"the packages of {name} could not be fetched; output of pip:\n{done.stderr[-1500:]}")
    probe = [str(_python(folder)), "-c", f"import {package}"]
    tried = subprocess.run(probe, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    if tried.returncode != 0:
        raise MissingDependency(f"{name} is installed but does not start here:\n{tried.stderr[-1500:]}")
    (folder / _READY).touch()
