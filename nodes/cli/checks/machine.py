"""What Holon needs of a machine, check by check. Each reports what was found and what to do."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from nodes.cli.checks.check import KAFKA, Check
from nodes.local_kafka.java import INSTALL_JAVA, JAVA_VERSION, java_program, version_of
from nodes.settings.settings import Settings

CORE = ("lmdb", "msgspec", "numpy", "obstore", "psutil", "rich", "structlog", "typer")
EXTRAS = {
    "arrow": ("pyarrow",),
    "avro": ("fastavro",),
    "broker": ("confluent-kafka", "jgo"),
    "fast": ("cramjam", "numba"),
    "kafka": ("confluent-kafka",),
    "metrics": ("prometheus-client",),
    "plots": ("matplotlib",),
    "protobuf": ("protobuf",),
    "redis": ("redis",),
    "serve": ("starlette", "uvicorn"),
    "sketches": ("datasketches",),
    "spark": ("pyspark", "pandas", "pyarrow"),
    "yjs": ("pycrdt",),
}
LOW_DISK_BYTES = 1 << 30


def all_checks(settings: Settings) -> Iterator[Check]:
    """Every check, one after the other."""
    yield _python()
    yield from (_package(name, None) for name in CORE)
    yield _lmdb_write()
    yield _free_disk(Path(settings.log.path))
    yield _machine()
    for extra, packages in EXTRAS.items():
        yield from (_package(name, extra) for name in packages)
    yield _java()
    yield _redis_server()
    if settings.log.kind == "kafka":
        yield from _kafka(settings)


def _kafka(settings: Settings) -> Iterator[Check]:
    from nodes.log.contract import LogUnavailable
    from nodes.runtime.log_opening import log_address

    try:
        from nodes.cli.checks.kafka import kafka_checks

        yield from kafka_checks(log_address(settings))
    except ImportError:
        return  # the check of the extra has reported it
    except LogUnavailable as error:
        yield Check(KAFKA, "missing", str(error), True, "holon kafka up starts a broker on this machine")


def _python() -> Check:
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.flags.optimize:
        return Check("python", "missing", f"{found} with -O", True, "run Python without -O: invariants are asserted")
    return Check("python", "ok" if sys.version_info >= (3, 11) else "missing", found, True, "install Python 3.11+")


def _package(name: str, extra: str | None) -> Check:
    label = f"package {name}" if extra is None else f"extra {extra}: {name}"
    try:
        return Check(label, "ok", metadata.version(name), extra is None)
    except metadata.PackageNotFoundError:
        advice = f"pip install {name}" if extra is None else f"pip install 'holon-streams[{extra}]'"
        return Check(label, "missing", "not installed", extra is None, advice)


def _lmdb_write() -> Check:
    name, advice = "embedded log", "set TMPDIR to a writable local folder (LMDB needs shared file mappings)"
    try:
        import lmdb
    except ImportError as error:
        return Check(name, "missing", str(error), True, "pip install lmdb")
    try:
        with tempfile.TemporaryDirectory(prefix="holon-doctor-") as folder:
            with lmdb.open(folder, map_size=1 << 20) as env, env.begin(write=True) as transaction:
                transaction.put(b"key", b"value")
            with lmdb.open(folder, readonly=True) as env, env.begin() as transaction:
                assert transaction.get(b"key") == b"value"
            return Check(name, "ok", f"LMDB writes and reads in {os.path.dirname(folder)}", True)
    except (lmdb.Error, OSError, AssertionError) as error:
        return Check(name, "missing", f"LMDB: {error}", True, advice)


def _free_disk(log_path: Path) -> Check:
    existing = next(folder for folder in (log_path.absolute(), *log_path.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    low = free < LOW_DISK_BYTES
    found = f"{free / (1 << 30):.1f} GiB free for {log_path}"
    return Check(
        "free disk", "warning" if low else "ok", found, False, "free some space, or move log.path" if low else ""
    )


def _machine() -> Check:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = f"{platform.system()} {platform.machine()}, {cores} cores, {memory:.1f} GiB of memory"
    if platform.system() != "Linux":
        return Check("machine", "warning", found, False, "only Linux is tested")
    return Check("machine", "ok", found, False)


def _java() -> Check:
    """The Java that Spark starts: of JAVA_HOME, else of the path."""
    name = f"java {JAVA_VERSION}+ (Spark, local Kafka)"
    program = java_program()
    if not program:
        return Check(name, "missing", "no java on the path, no JAVA_HOME", False, INSTALL_JAVA)
    try:
        version = version_of(program)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name, "missing", f"{program}: {error}", False, INSTALL_JAVA)
    if version is None or version < JAVA_VERSION:
        return Check(name, "missing", f"{program}: version {version or 'unknown'}", False, INSTALL_JAVA)
    return Check(name, "ok", f"{version} ({program})", False)


def _redis_server() -> Check:
    program = shutil.which("redis-server")
    if program is None:
        advice = "apt-get install redis-server (checkpoints, views)"
        return Check("redis-server", "missing", "not on the path", False, advice)
    return Check("redis-server", "ok", program, False)
