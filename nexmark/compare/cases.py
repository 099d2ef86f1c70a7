"""Cases of a comparison: a job, and by convention the code of each peer in folders beside its module.

For ``my.module:job`` of the file ``my/module.py`` these are ``my/flink/module.sql``, ``my/python/module.py`` (for
Bytewax and Quix) and ``my/pathway/module.py``. A second job of the module, ``by_record``, is the same record by
record, and ``flow`` the same as a flow.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import ModuleType

from holon import Job
from holon.dataflow import Flow
from nodes.api import RunFailed, SettingsError, UnknownName, import_user_module, load_job

FILES = {
    "flink": "flink/{}.sql",
    "bytewax": "python/{}.py",
    "quix": "python/{}.py",
    "pathway": "pathway/{}.py",
}
"""Where the code of a peer is, beside the folder of the job's module."""
BY_RECORD = "holon-records"
BY_FLOW = "holon-flow"
BESIDE = {BY_RECORD: ("by_record", Job), BY_FLOW: ("flow", Flow)}
"""Ways of Holon that the module of a job has beside it: by which name, and what it is."""
WAYS = ("holon", *BESIDE)
ENGINES = (*WAYS, *FILES)
DEFAULT_RECORDS = 1_000_000
Records = Callable[[random.Random], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class ComparedJob:
    """``reference`` is MODULE:JOB; ``beside`` those that give the same, by engine; ``draw`` gives records."""

    name: str
    reference: str
    path: Path
    beside: Mapping[str, str] = field(default_factory=dict)
    draw: Records | None = None

    def code(self, engine: str) -> Path:
        """The file of a peer's code. Raises ``RunFailed`` where there is none."""
        path = self.path.parent / FILES[engine].format(self.path.stem)
        if not path.is_file():
            raise RunFailed(f"there is no code for {engine}: expected {path}")
        return path

    def job(self, engine: str) -> str:
        """Which job Holon runs. Raises ``RunFailed`` where the module has none by that name."""
        if engine not in BESIDE:
            return self.reference
        if engine not in self.beside:
            name, kind = BESIDE[engine]
            raise RunFailed(f"{self.reference.partition(':')[0]} has no {kind.__name__.lower()} {name}")
        return self.beside[engine]


def cases_of(target: str) -> list[ComparedJob]:
    """Of ``MODULE:JOB`` one case; of ``MODULE`` its ``job``, or that of each module in it. Raises ``UnknownName``."""
    module_name, colon, _ = target.partition(":")
    if colon:
        load_job(target)
        return [_case(import_user_module(module_name), target)]
    module = import_user_module(module_name)
    if hasattr(module, "job"):
        return [_case(module, f"{module_name}:job")]
    found = [_case(inner, f"{inner.__name__}:job") for inner in _inside(module) if hasattr(inner, "job")]
    if not found:
        raise UnknownName("job", f"{target} (expected MODULE:JOB, or a package whose modules have a job)")
    return found


def chosen(cases: list[ComparedJob], names: Sequence[str] | None) -> list[ComparedJob]:
    """Those of these names. Raises ``UnknownName``."""
    by_name = {case.name: case for case in cases}
    for name in names or ():
        if name not in by_name:
            raise UnknownName("job", name, by_name)
    return cases if names is None else [by_name[name] for name in names]


def records(case: ComparedJob, data: Path | None, count: int | None, seed: int) -> Iterator[bytes]:
    """The lines of a file that are not empty, or as many records as requested of the case's own generator.

    Raises ``RunFailed`` where the file cannot be read, and ``SettingsError`` where there is no way to get records.
    """
    if data is None:
        if case.draw is None:
            raise SettingsError(f"{case.reference} has no generator records(draw): name a file with --data")
        yield from islice(case.draw(random.Random(seed)), DEFAULT_RECORDS if count is None else count)
        return
    try:
        with data.open("rb") as file:
            lines = (text for line in file if (text := line.rstrip(b"\r\n")))
            yield from islice(lines, count)
    except OSError as error:
        raise RunFailed(f"--data {data}: {error.strerror}") from None


def _case(module: ModuleType, reference: str) -> ComparedJob:
    assert module.__file__ is not None, "a module with a job is a file"
    known = BESIDE.items() if reference.endswith(":job") else ()
    has = {engine: name for engine, (name, kind) in known if isinstance(getattr(module, name, None), kind)}
    return ComparedJob(
        name=module.__name__.rpartition(".")[2],
        reference=reference,
        path=Path(module.__file__),
        beside={engine: f"{module.__name__}:{name}" for engine, name in has.items()},
        draw=getattr(module, "records", None),
    )


def _inside(module: ModuleType) -> Iterator[ModuleType]:
    for info in sorted(pkgutil.iter_modules(getattr(module, "__path__", ())), key=lambda info: info.name):
        if not info.ispkg:
            yield importlib.import_module(f"{module.__name__}.{info.name}")
