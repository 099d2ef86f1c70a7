"""Jars of a local Kafka broker, and of Spark's connector to Kafka: fetched once into a cache by the Ivy in pyspark."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nodes.errors import MissingDependency, Unreachable
from nodes.java import INSTALL_JAVA, JAVA_VERSION, java_program, version_of

KAFKA_VERSION = "4.1.1"
_SCALA = "2.13"
_SLF4J_VERSION = "1.7.36"
FETCH_TIMEOUT_S = 240
_DEPENDENCY = '<dependency org="{}" name="{}" rev="{}" conf="default->{}" transitive="{}"/>'


@dataclass(frozen=True, slots=True)
class Bundle:
    """Modules (organisation, name, version) with all that they need; the first gives the folder its name.

    ``transitive`` False: these modules alone.
    """

    title: str
    modules: tuple[tuple[str, str, str], ...]
    transitive: bool = True

    @property
    def folder(self) -> str:
        _, name, version = self.modules[0]
        return f"{name}-{version}"

    def ivy(self) -> str:
        """The file that tells Ivy what to fetch."""
        kind = ("default", "true") if self.transitive else ("master", "false")
        rows = "".join(_DEPENDENCY.format(*module, *kind) for module in self.modules)
        info = '<info organisation="holon" module="bundle"/>'
        return f'<ivy-module version="2.0">{info}<dependencies>{rows}</dependencies></ivy-module>'


BROKER = Bundle(
    f"Kafka {KAFKA_VERSION}",
    (("org.apache.kafka", f"kafka_{_SCALA}", KAFKA_VERSION), ("org.slf4j", "slf4j-simple", _SLF4J_VERSION)),
)


def spark_connector(spark_version: str) -> Bundle:
    """Spark's own source and sink of Kafka, which must have exactly the version of Spark."""
    module = ("org.apache.spark", f"spark-sql-kafka-0-10_{_SCALA}", spark_version)
    return Bundle(f"Spark's connector to Kafka, version {spark_version},", (module,))


def find_java(environ: Mapping[str, str] = os.environ, needed_by: str = "a Kafka broker") -> str:
    """The program: of JAVA_HOME, else of the path. Raises ``MissingDependency`` if there is none or it is too old."""
    program = java_program(environ)
    what = f"{needed_by} needs Java {JAVA_VERSION} or newer"
    if not program:
        raise MissingDependency(f"{what}, and there is none on the path; install it: {INSTALL_JAVA}")
    try:
        version = version_of(program)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingDependency(f"{what}, and {program} does not run ({error}); install it: {INSTALL_JAVA}") from error
    if version is None or version < JAVA_VERSION:
        raise MissingDependency(f"{what}, and {program} is {version or 'unknown'}; install it: {INSTALL_JAVA}")
    return program


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where things are kept that can be fetched again."""
    base = environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "holon"


def kafka_jars(java: str, cache: Path | None = None, bundle: Bundle = BROKER) -> Path:
    """The folder of the jars; fetched if it is not there yet (a broker: 45 jars, 43 MB, up to a minute).

    Safe to call at once. Raises ``MissingDependency`` without pyspark, ``Unreachable`` where they cannot be fetched.
    """
    base = (cache or cache_folder()) / "kafka"
    folder = base / bundle.folder
    if folder.is_dir():
        return folder
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unreachable(f"cannot make the cache {base} ({error.strerror}); set XDG_CACHE_HOME to another") from error
    with locked(base / "lock"):
        if not folder.is_dir():
            _fetch(java, base, folder, bundle)
    return folder


def _fetch(java: str, base: Path, folder: Path, bundle: Bundle) -> None:
    ivy = _ivy_jar()
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=base) as temporary:
        work = Path(temporary)
        (work / "ivy.xml").write_text(bundle.ivy(), encoding="utf-8")
        command = [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", str(ivy), "org.apache.ivy.Main"]
        command += ["-cache", str(work / "cache"), "-ivy", str(work / "ivy.xml")]
        command += ["-retrieve", str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise Unreachable(
                f"the jars of {bundle.title} did not arrive within {FETCH_TIMEOUT_S} s; check the connection to "
                f"Maven Central and try again"
            ) from error
        if done.returncode != 0 or not list((work / "jars").glob(f"{bundle.modules[0][1]}-*.jar")):
            said = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if line.strip(". \t"))
            raise Unreachable(
                f"the jars of {bundle.title} could not be fetched from Maven Central; check the connection "
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
