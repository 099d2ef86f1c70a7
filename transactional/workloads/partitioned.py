"""Programs of workloads with another number of partitions, by name: ``ycsb-m/16``, ``ycsb-t/next/16``.

A node process finds its program by ``MODULE:NAME``, so such a name is one of this module. Only the number differs: the
functions are the same, and so is the code that a job knows them by.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from transactional.operators import Program
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import BenchWorkload, NextVersion

MOST_PARTITIONS = 1024


def with_partitions(workload: BenchWorkload, partitions: int) -> BenchWorkload:
    """The workload on so many partitions of each operator, also after an upgrade."""
    following = workload.following
    if following is not None:
        following = replace(following, reference=f"{__name__}:{workload.name}/next/{partitions}")
    return replace(
        workload,
        program=resized(workload.program, partitions),
        reference=f"{__name__}:{workload.name}/{partitions}",
        following=following,
    )


def resized(program: Program, partitions: int) -> Program:
    """The same functions, with so many partitions of each operator."""
    made = program.wrapped(lambda operator, name, function: function)
    made.partitions = partitions
    for operator in made.operators.values():
        operator.partitions = partitions
    return made


def __getattr__(name: str) -> Program:
    """Of this module: the program that is meant by ``name``."""
    head, _, number = name.rpartition("/")
    workload, _, version = head.partition("/")
    if workload not in WORKLOADS or version not in ("", "next") or not number.isdecimal():
        raise AttributeError(
            f"{__name__} has no program {name!r}: it is WORKLOAD/PARTITIONS or WORKLOAD/next/PARTITIONS"
        )
    chosen = WORKLOADS[workload]
    program = _loaded(chosen.following) if version else chosen.program
    if program is None or not 1 <= int(number) <= MOST_PARTITIONS:
        raise AttributeError(f"{__name__} has no program {name!r}")
    return resized(program, int(number))


def _loaded(version: NextVersion | None) -> Program | None:
    if version is None:
        return None
    module, _, program = version.reference.partition(":")
    found: Program = getattr(import_module(module), program)
    return found
