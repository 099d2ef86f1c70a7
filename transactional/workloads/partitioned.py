"""Programs of workloads with another number of partitions, and their next versions: ``ycsb-m/16``, ``ycsb-t/next/16``.

A node process finds its program by ``MODULE:NAME``, so such a name is one of this module. Where only the number differs
the functions are the same, and so is the code that a job knows them by.
"""

from __future__ import annotations

from dataclasses import replace

from transactional.operators import Program
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import BenchWorkload
from transactional.workloads.next_version import next_version

MOST_PARTITIONS = 1024


def with_partitions(workload: BenchWorkload, partitions: int) -> BenchWorkload:
    """The workload on so many partitions of each operator."""
    program = resized(workload.program, partitions)
    return replace(workload, program=program, reference=f"{__name__}:{workload.name}/{partitions}")


def next_reference(workload: BenchWorkload) -> str:
    """Where a node process finds the next version of its program, on as many partitions of each operator."""
    return f"{__name__}:{workload.name}/next/{workload.program.partitions}"


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
    if not 1 <= int(number) <= MOST_PARTITIONS:
        raise AttributeError(f"{__name__} has no program {name!r}")
    program = resized(WORKLOADS[workload].program, int(number))
    return next_version(program) if version else program
