"""The jars of a local Kafka broker: fetched once into a cache by the Ivy that comes with pyspark."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nodes.cli.checks import INSTALL_JAVA, JAVA_VERSION, java_version
from nodes.errors import MissingDependency, Unreachable

KAFKA_VERSION = "4.1.1"
_SCALA = "2.13"
_SLF4J_VERSION = "1.7.36"
FETCH_TIMEOUT_S = 240
_MODULES = f"""\
<ivy-module version="2.0">
  <info organisation="holon" module="broker"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_{_SCALA}" rev="{KAFKA_VERSION}" conf="default->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="{_SLF4J_VERSION}" conf="default->default"/>
  </dependencies>
</ivy-module>
"""


def find_java(environ: Mapping[str, str] = os.environ) -> str:
    """The program: of JAVA_HOME, else of the path. Raises ``MissingDependency`` if there is none or it is too old."""
    home = environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else shutil.which("java", path=environ.get("PATH"))
    what = f"a Kafka broker needs Java {JAVA_VERSION} or newer"
    if not program:
        raise MissingDependency(f"{what}, and there is none on the path; install it: {INSTALL_JAVA}")
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingDependency(f"{what}, and {program} does not run ({error}); install it: {INSTALL_JAVA}") from error
    version = java_version(done.stderr + done.stdout)
    if version is None or version < JAVA_VERSION:
        raise MissingDependency(f"{what}, and {program} is {version or 'unknown'}; install it: {INSTALL_JAVA}")
    return program


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where things are kept that can be fetched again."""
    base = environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "holon"


def kafka_jars(java: str, cache: Path | None = None) -> Path:
    """The folder of the jars; fetched if it is not there yet (45 jars, 43 MB, up to a minute). Safe to call at once.

    Raises ``MissingDependency`` without pyspark, ``Unreachable`` where the jars cannot be fetched.
    """
    base = (cache or cache_folder()) / "kafka"
    folder = base / f"kafka_{_SCALA}-{KAFKA_VERSION}"
    if folder.is_dir():
        return folder
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unreachable(f"cannot make the cache {base} ({error.strerror}); set XDG_CACHE_HOME to another") from error
    with locked(base / "lock"):
        if not folder.is_dir():
            _fetch(java, base, folder)
    return folder


def _fetch(java: str, base: Path, folder: Path) -> None:
    ivy = _ivy_jar()
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=base) as temporary:
        work = Path(temporary)
        (work / "ivy.xml").write_text(_MODULES, encoding="utf-8")
        command = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", str(ivy), "org.apache.ivy.Main"]
        command += ["-cache", str(work / "cache"), "-ivy", str(work / "ivy.xml")]
        command += ["-retrieve", str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise Unreachable(
                f"the jars of Kafka {KAFKA_VERSION} did not arrive within {FETCH_TIMEOUT_S} s; check the connection to "
                f"Maven Central and try again"
            ) from error
        if done.returncode != 0 or not list((work / "jars").glob("kafka_*.jar")):
            said = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if line.strip(". \t"))
            raise Unreachable(
                f"the jars of Kafka {KAFKA_VERSION} could not be fetched from Maven Central; check the connection "
                f"(a proxy: JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=...). Ivy says:\n{said[-1500:]}"
            )
        (work / "jars").rename(folder)


def _ivy_jar() -> Path:
    found = importlib.util.find_spec("pyspark")
    jars = (
        [jar for place in (found.submodule_search_locations or ()) for jar in Path(place).glob("jars/ivy-*.jar")]
        if found
        else []
    )
    if not jars:
        raise MissingDependency(
            "the Ivy inside pyspark fetches Kafka's jars, and pyspark is not here; install it: "
            "pip install 'holon-streams[spark]'"
        )
    return max(jars)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Within, no other process of this machine holds the lock of that file. A killed holder leaves it free."""
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
