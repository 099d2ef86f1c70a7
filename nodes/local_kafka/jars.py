"""Jars of a local Kafka broker, and of Spark's and Flink's connectors to Kafka: fetched once into a cache by jgo."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nodes.cache_folder import cache_folder
from nodes.errors import MissingDependency, Unreachable
from nodes.local_kafka.java import INSTALL_JAVA, JAVA_VERSION, java_program, version_of

KAFKA_VERSION = "4.1.1"
_SCALA = "2.13"
_SLF4J_VERSION = "1.7.36"
REQUEST_TIMEOUT_S = 30
_NOT_AT_RUN_TIME = frozenset(["test", "provided"])


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


def kafka_jars(cache: Path | None = None, bundle: Bundle = BROKER) -> Path:
    """The folder of the jars; fetched if it is not there yet (a broker: 46 jars, 43 MB, up to a minute).

    Safe to call at once. Raises ``MissingDependency`` without jgo, ``Unreachable`` where they cannot be fetched.
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
            _fetch(base, folder, bundle)
    return folder


def _fetch(base: Path, folder: Path, bundle: Bundle) -> None:
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=base) as temporary:
        work = Path(temporary)
        jars = work / "jars"
        jars.mkdir()
        try:
            for path in _fetched(work / "repository", bundle):
                path.rename(jars / path.name)
        except (OSError, RuntimeError, ValueError) as error:  # of requests, and what jgo makes of an answer
            raise Unreachable(
                f"the jars of {bundle.title} could not be fetched from Maven Central; check the connection (a proxy: "
                f"HTTPS_PROXY) and try again: {type(error).__name__}: {error}"
            ) from error
        jars.rename(folder)


def _fetched(repository: Path, bundle: Bundle) -> list[Path]:
    """The modules and, of a transitive bundle, all that they need when they run."""
    try:
        from jgo.maven import MavenContext
    except ImportError as error:
        raise MissingDependency(
            f"jgo fetches the jars of {bundle.title}, and is not here ({error}); install it: "
            f"pip install 'holon-streams[broker]'"
        ) from error
    context = MavenContext(repo_cache=repository, timeout=REQUEST_TIMEOUT_S)
    wanted = [context.create_dependency(":".join(module)) for module in bundle.modules]
    if bundle.transitive:
        inputs, needed = context.resolver.resolve(wanted)
        wanted = [each for each in (*inputs, *needed) if each.scope not in _NOT_AT_RUN_TIME]
    return sorted({each.artifact.resolve() for each in wanted})


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Within, no other process of this machine holds the lock of that file. A killed holder leaves it free."""
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
