"""The compiled loops of ``holon.columnar``: kept as machine code beside other caches, loaded without the compiler.

Numba compiles them once for a machine and a release, in a process of its own (``compiled/build.py``); importing it
would cost each node half a second and 100 MB. The kept machine code has no symbol that it needs from outside.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import importlib.util
import logging
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holon.columnar.loops import install, installed
from nodes.cache_folder import cache_folder
from nodes.python_process import child_environment, module_command

logger = logging.getLogger(__name__)

SOURCES = ("holon.columnar.kernel", "holon.columnar.layout", "holon.columnar.vectors", "holon.columnar.spreading",
           "holon.columnar.numbering", "holon.columnar.int_index_kernel", "holon.columnar.times_kernel",
           "holon.columnar.spans_kernel",
           "holon.columnar.structs.kernel", "holon.columnar.structs.kinds", "holon.columnar.structs.powers",
           "holon.columnar.structs.values_kernel", "holon.columnar.structs.texts_kernel",
           "holon.columnar.structs.floats_kernel", "holon.columnar.structs.names_kernel",
           "nodes.log.codecs.crc32c", "nodes.log.codecs.crc32c_tables", "nodes.log.embedded.columns_kernel",
           "nodes.log.codecs.crc32", "nodes.log.codecs.lz4", "nodes.log.codecs.lz4_layout",
           "nodes.log.kafka.direct.write_records_kernel", "nodes.log.kafka.direct.read_batches_kernel",
           "nodes.log.kafka.direct.read_batches_table")  # fmt: skip
"""Modules of which the machine code is made, with all of this project that they import."""
_BUILDERS = "nodes.compiled.build", "nodes.compiled.loading"
NAMES = {
    "project": ("holon.columnar.kernel", 14),
    "compose": ("holon.columnar.kernel", 7),
    "spread": ("holon.columnar.spreading", 7),
    "read_structs": ("holon.columnar.structs.kernel", 13),
    "iso_times": ("holon.columnar.times_kernel", 5),
    "iso_datetimes": ("holon.columnar.times_kernel", 6),
    "number_spans": ("holon.columnar.numbering", 9),
    "find_ints": ("holon.columnar.int_index_kernel", 9),
    "enter_ints": ("holon.columnar.int_index_kernel", 8),
    "hash_spans": ("holon.columnar.spans_kernel", 6),
    "equal_spans": ("holon.columnar.spans_kernel", 8),
    "crc32c": ("nodes.log.codecs.crc32c", 3),
    "unpack": ("nodes.log.embedded.columns_kernel", 5),
    "copy_folding": ("nodes.log.codecs.crc32", 5),
    "write_records": ("nodes.log.kafka.direct.write_records_kernel", 9),
    "lz4_frame": ("nodes.log.codecs.lz4", 4),
    "count_records": ("nodes.log.kafka.direct.read_batches_kernel", 2),
    "walk": ("nodes.log.kafka.direct.read_batches_kernel", 10),
    "find_header": ("nodes.log.kafka.direct.read_batches_kernel", 7),
}
"""Compiled functions: their modules, and how many arguments they take."""
BUILD_TIMEOUT_S = 300
RETRY_AFTER_S = 3_600.0
"""A build that failed is tried again after that time, or when one of its modules has changed."""
FAILED = ".failed"
_MAGIC = b"HOLON-LOOPS-1\n"
_DIGEST_BYTES = 32
_KEPT: list[Any] = []  # engines: they own the code
LOADED: list[Compiled] = []  # by ``loops_if``


class Compiled:
    """Calls machine code as numba compiles it: with a place for its result, and one for an exception."""

    def __init__(self, addresses: dict[str, int]) -> None:
        self.secret = secrets.randbits(62) | 1
        for name, (_, arguments) in NAMES.items():
            setattr(self, name, _function(addresses[name], arguments))

    project: Callable[..., int]
    compose: Callable[..., int]
    spread: Callable[..., int]
    read_structs: Callable[..., int]
    iso_times: Callable[..., int]
    iso_datetimes: Callable[..., int]
    number_spans: Callable[..., int]
    find_ints: Callable[..., int]
    enter_ints: Callable[..., int]
    hash_spans: Callable[..., int]
    equal_spans: Callable[..., int]
    crc32c: Callable[..., int]
    unpack: Callable[..., int]
    copy_folding: Callable[..., int]
    write_records: Callable[..., int]
    lz4_frame: Callable[..., int]
    count_records: Callable[..., int]
    walk: Callable[..., int]
    find_header: Callable[..., int]

    @staticmethod
    def address(column: Any) -> int:
        """Where the rows of an array are, which lie one behind the other."""
        try:
            return ctypes.addressof(_BYTE.from_buffer(column))  # a fifth of the time that NumPy takes for it
        except (TypeError, ValueError):  # it must not be written, or has no row
            return column.ctypes.data


_BYTE = ctypes.c_char
_CELL = ctypes.c_int64
_CELLS = _CELL * 2  # the result, and the place of an exception


def _function(address: int, arguments: int) -> Callable[..., int]:
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * arguments)
    code = kind(address)

    def call(*values: int) -> int:
        cells = _CELLS()
        at = ctypes.addressof(cells)
        status = code(at, at + ctypes.sizeof(_CELL), *values)
        assert status == 0, f"a compiled loop gave status {status}"
        return cells[0]

    return call


def loops() -> Compiled | None:
    """Those of this process, if it has some."""
    found = installed()
    return found if isinstance(found, Compiled) else None


def ensure(*, build: bool = True) -> bool:
    """Have the loops in this process, if that is possible: load them, or compile them first where ``build``.

    False where the extra ``fast`` is not installed, or this machine cannot run what it compiles: then everything is
    done in Python.
    """
    if installed() is not None:
        return True
    if importlib.util.find_spec("llvmlite") is None:
        return False
    path = loops_file()
    if build and not _is_made(path):
        _build(path)
    found = load(path)
    install(found)
    return found is not None


@contextmanager
def loops_if(wanted: bool) -> Iterator[None]:
    """In here this process has the loops if they are ``wanted`` and were compiled before, else none."""
    before = installed()
    install(None)
    try:
        if wanted and not LOADED and ensure(build=False):
            LOADED.extend(filter(None, [loops()]))
        install(LOADED[0] if wanted and LOADED else None)
        yield
    finally:
        install(before)


def load(path: Path) -> Compiled | None:
    """The loops of a file that ``compiled_build`` wrote; None if there is none, or it is not whole."""
    import llvmlite.binding as llvm

    try:
        data = path.read_bytes()
    except OSError:
        return None
    parts = unpacked(data)
    if parts is None:
        logger.warning("%s is damaged; without it decoding is slower. Delete it, and it is made again", path)
        return None
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for _, code in parts.values():
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _KEPT.append(engine)
    return Compiled({name: engine.get_function_address(symbol) for name, (symbol, _) in parts.items()})


def packed(parts: dict[str, tuple[str, bytes]]) -> bytes:
    """Symbol and object code by name, as a file: a digest first, lengths before texts."""
    body = b""
    for name, (symbol, code) in parts.items():
        for text in (name.encode(), symbol.encode(), code):
            body += len(text).to_bytes(4, "big") + text
    return _MAGIC + hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() + body


def unpacked(data: bytes) -> dict[str, tuple[str, bytes]] | None:
    """The reverse; None if it is not whole."""
    head = len(_MAGIC) + _DIGEST_BYTES
    body = data[head:]
    digest = hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : head] != digest:
        return None
    texts, at = [], 0
    while at < len(body):
        length = int.from_bytes(body[at : at + 4], "big")
        texts.append(body[at + 4 : at + 4 + length])
        at += 4 + length
    rows = zip(texts[::3], texts[1::3], texts[2::3], strict=True)
    parts = {name.decode(): (symbol.decode(), code) for name, symbol, code in rows}
    return parts if set(parts) == set(NAMES) else None


def loops_file() -> Path:
    """The file for this release, compiler and processor."""
    from importlib.metadata import PackageNotFoundError, version

    import llvmlite.binding as llvm

    texts = [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), llvm.get_process_triple()]
    for package in ("numba", "llvmlite"):
        try:
            texts.append(version(package))
        except PackageNotFoundError:
            texts.append("none")
    digest = hashlib.blake2b("\n".join(texts).encode(), digest_size=12)
    for source in _sources():
        digest.update(source.read_bytes())
    return cache_folder() / "loops" / f"{digest.hexdigest()}.bin"


def _sources() -> Iterable[Path]:
    for name in (*SOURCES, *_BUILDERS):
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None, name
        yield Path(spec.origin)


def _build(path: Path) -> None:
    """Compile into ``path``; one process does it, others wait for it. Failures are logged and cost speed only."""
    failed = path.with_suffix(FAILED)
    if importlib.util.find_spec("numba") is None or _is_recent(failed):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_made(path) or _is_recent(failed):
                return
            command = module_command("nodes.compiled.build", str(path))
            done = subprocess.run(
                command, env=child_environment(), capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
            )
            reason = (done.stderr or done.stdout).strip()[-500:] or f"exit code {done.returncode}"
            if done.returncode == 0:
                failed.unlink(missing_ok=True)
                return
            write(failed, reason.encode())
    except subprocess.TimeoutExpired as error:
        reason = str(error)
        failed.write_text(reason)
    except OSError as error:
        reason = str(error)
    logger.warning("the compiled loops could not be made; decoding is slower without them: %s", reason)


def _is_made(path: Path) -> bool:
    """A crash of the machine may leave an empty file."""
    return path.exists() and path.stat().st_size > 0


def _is_recent(failed: Path) -> bool:
    """Whether a build failed a short time ago; its reason is logged again."""
    try:
        age_s, reason = time.time() - failed.stat().st_mtime, failed.read_text(errors="replace")
    except OSError:
        return False
    if age_s >= RETRY_AFTER_S:
        return False
    logger.warning("the compiled loops could not be made %.0f min ago; decoding is slower: %s", age_s / 60, reason)
    return True


def write(path: Path, data: bytes) -> None:
    """Put a file in its place at once."""
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)


if __name__ == "__main__":
    ensure()
