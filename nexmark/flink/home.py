"""Flink's jars: fetched once into the cache, from the packages that the peer's folder names, and checked by hash."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nodes.errors import MissingDependency, Unreachable
from nodes.local_kafka.jars import Bundle, cache_folder, find_java, kafka_jars, locked

FLINK_VERSION = "2.2.1"
CONNECTOR_VERSION = "5.0.0-2.2"
FETCH_TIMEOUT_S = 600

PEER = Path(__file__).parents[2] / "deploy" / "peers" / "flink"
"""Settings, queries and hashes: part of the source tree, not of the package."""

_CONNECTOR = Bundle(
    f"Flink's connector to Kafka, {CONNECTOR_VERSION}, and its SQL gateway",
    (
        ("org.apache.flink", "flink-sql-connector-kafka", CONNECTOR_VERSION),
        ("org.apache.flink", "flink-sql-gateway", FLINK_VERSION),
    ),
    transitive=False,
)
_FROM_LIBRARIES = ("deps/lib/", "deps/opt/flink-python-", "deps/bin/bash-java-utils.jar")


@dataclass(frozen=True, slots=True)
class FlinkHome:
    """Where Java, the jars (one folder) and the peer's files are."""

    java: str
    jars: Path
    peer: Path = PEER


def flink_home(cache: Path | None = None) -> FlinkHome:
    """Find the jars, or fetch them (330 MB, a minute or two). Safe to call at once.

    Raises ``MissingDependency`` without Java, pip, jgo or the source tree, ``Unreachable`` where they cannot be
    fetched or are not those that the peer's folder names.
    """
    if not PEER.is_dir():
        raise MissingDependency(f"the Flink peer is a part of the source tree ({PEER}), which is not here")
    java = find_java(needed_by="Flink")
    cache = cache or cache_folder()
    base, folder = cache / "flink", cache / "flink" / f"flink-{FLINK_VERSION}-kafka-{CONNECTOR_VERSION}"
    if not folder.is_dir():
        base.mkdir(parents=True, exist_ok=True)
        with locked(base / "lock"):
            if not folder.is_dir():
                _fetch(cache, base, folder)
    return FlinkHome(java, folder)


def _fetch(cache: Path, base: Path, folder: Path) -> None:
    connector = kafka_jars(cache, _CONNECTOR)
    check_hashes(PEER / "jars.sha256", connector)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=base) as temporary:
        work = Path(temporary)
        jars = work / "jars"
        jars.mkdir()
        for jar in connector.glob("*.jar"):
            shutil.copy(jar, jars)
        _unpack(_download(work), jars)
        jars.rename(folder)


def _download(work: Path) -> Path:
    """The archive of Flink's own jars, through pip, which checks its hash."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    command += ["--no-cache-dir", "--require-hashes", "-r", str(PEER / "requirements.txt"), "-d", str(work)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"Flink's jars did not arrive within {FETCH_TIMEOUT_S} s; try again") from error
    if "No module named pip" in done.stderr:
        raise MissingDependency("Flink's jars come through pip, which is not here; install it: python -m ensurepip")
    archives = list(work.glob("apache_flink_libraries-*.tar.gz"))
    if done.returncode != 0 or not archives:
        raise Unreachable(f"Flink's jars could not be fetched; output of pip:\n{done.stderr[-1500:]}")
    return archives[0]


def _unpack(archive: Path, jars: Path) -> None:
    """The jars that are needed, side by side."""
    with tarfile.open(archive) as opened:
        for member in opened:
            _, _, path = member.name.partition("/")
            if member.isfile() and path.startswith(_FROM_LIBRARIES) and path.endswith(".jar"):
                source = opened.extractfile(member)
                assert source is not None, f"{member.name} is a file"
                with source, open(jars / Path(path).name, "wb") as target:
                    shutil.copyfileobj(source, target)


def check_hashes(sums: Path, folder: Path) -> None:
    """Raises ``Unreachable`` if a file that ``sums`` (as of sha256sum) names is not there, or is another."""
    for line in sums.read_text(encoding="utf-8").splitlines():
        wanted, name = line.split()
        path = folder / name
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "not there"
        if found != wanted:
            raise Unreachable(f"{path} is not the file that {sums.name} names: {found}; delete {folder} and try again")
