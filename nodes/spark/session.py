"""A local Spark session that keeps quiet: no console output, no web page, nothing listening outside of this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.cache_folder import cache_folder
from nodes.class_archive import ClassArchive
from nodes.local_kafka.java import java_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_JAVA = 17
TASK_ATTEMPTS = 3
_STOP_WAIT_S = 30
_INSTALL = "install one: apt-get install openjdk-17-jre-headless (Debian), brew install openjdk@17 (macOS)"
_ROOT = str(Path(__file__).resolve().parents[2])  # where the packages are, installed or not


class SparkStartFailed(Exception):
    """The JVM did not come up; the message ends with its last output."""


def java_problem() -> str | None:
    """The fault of this machine's Java, with the command that helps; None if Spark can run."""
    java = java_program()
    if java is None:
        return f"Spark needs Java {MIN_JAVA} or newer, and there is none; {_INSTALL}"
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        return f"Spark needs Java {MIN_JAVA} or newer, and {java} does not run ({error}); {_INSTALL}"
    version = re.search(r'version "(\d+)', printed)
    if version is None or int(version[1]) < MIN_JAVA:
        found = version[1] if version else "of unknown version"
        return f"Spark needs Java {MIN_JAVA} or newer, and {java} is {found}; {_INSTALL}"
    return None


def spark_problem() -> str | None:
    """As `java_problem`, with the Python packages that Spark needs."""
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        return f"Spark is not installed here ({error}); install it: pip install 'holon-streams[spark]'"
    return java_problem()


@contextmanager
def spark_session(*, cores: int = 2, memory: str = "2g", jars: Sequence[Path] = ()) -> Iterator[SparkSession]:
    """The running session if there is one, else a new one, with these jars, that is stopped at the end."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    with tempfile.TemporaryDirectory(prefix="holon-spark-") as folder:
        classes = _class_archive(folder)
        session = _start(folder, _settings(folder, cores, memory, jars), _options(classes))
        try:
            yield session
        finally:
            session.stop()
            _stop_jvm()
            if classes is not None:
                classes.keep()


def _class_archive(folder: str) -> ClassArchive | None:
    """With an archive of its classes a session starts with half the CPU; the first one makes it when it ends."""
    from pyspark.find_spark_home import _find_spark_home

    java = java_program()
    if java is None:
        return None  # the start names what is missing
    try:
        return ClassArchive(cache_folder() / "spark", java, Path(_find_spark_home(), "jars"), Path(folder))
    except OSError:
        return None  # likewise


def _options(classes: ClassArchive | None) -> dict[str, str]:
    """The variable of Spark's launcher for options of the JVM, with those that are there already."""
    if classes is None:
        return {}
    return {"SPARK_SUBMIT_OPTS": " ".join(filter(None, [os.environ.get("SPARK_SUBMIT_OPTS"), classes.option()]))}


def _start(folder: str, settings: Mapping[str, str], options: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf().setAppName("holon").setAll(list(settings.items()))
    jvm_log = Path(folder, "jvm.log")
    # The workers inherit the JVM's output, so that nothing of theirs comes between lines of ours.
    with jvm_log.open("wb") as output, _environment({**_worker_environment(), **options}):
        try:
            gateway = launch_gateway(conf, {"stdout": output, "stderr": output})
            context = SparkContext(gateway=gateway, conf=conf)
        except (PySparkException, OSError) as error:
            tail = jvm_log.read_text(errors="replace")[-2000:]
            raise SparkStartFailed(f"Spark did not start: {error}\n{tail}") from error
    context.setLogLevel("ERROR")
    return SparkSession(context)


def _settings(folder: str, cores: int, memory: str, jars: Sequence[Path]) -> dict[str, str]:
    given = {"spark.jars": ",".join(map(str, jars))} if jars else {}
    return given | {
        "spark.master": f"local[{cores},{TASK_ATTEMPTS}]",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": str(Path(folder, "warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",  # two attempts at a loading task would both append
        "spark.python.daemon.module": "nodes.spark.daemon",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores),
    }


def _worker_environment() -> dict[str, str]:
    """Workers are this very interpreter and find the same packages."""
    paths = [_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONSAFEPATH": "1",  # a module of the current folder must not shadow one that a worker imports
    }


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Variables that the JVM, and through it the workers, inherit."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _stop_jvm() -> None:
    """End the JVM, which would otherwise stay until this process ends, holding its memory."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    if process is not None:
        process.stdin.close()  # the end of its input ends the JVM
        try:
            process.wait(timeout=_STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
