"""Fingerprints of functions are equal in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.unit.holon.fingerprint.test_reach import HELPER, HELPERS, JOB, MAIN

ROOT = Path(__file__).parents[3]


def test_it_is_equal_in_every_process_whatever_the_hash_seed(tmp_path: Path) -> None:
    """Also of every query of the benchmark and every example."""
    (tmp_path / f"{HELPERS}.py").write_text(HELPER)
    (tmp_path / f"{MAIN}.py").write_text(JOB)
    found = [seeded(tmp_path, seed) for seed in ("0", "1", "77")]
    assert found[0] == found[1] == found[2] and len(found[0]) > 15, sorted(found[0])


def seeded(folder: Path, seed: str) -> dict[str, Any]:
    program = """
import importlib, json, pkgutil, examples, nexmark.queries, shop_job
from holon.job import Job
from holon.fingerprint.reach import code_print
from nodes.streams.jobs import load_job
from transactional.describing import version_of
from transactional.operators import Program
found = {"shop": code_print({"function": shop_job.process}, [shop_job.process]).parts}
for each in pkgutil.iter_modules(examples.__path__):
    for name, value in vars(importlib.import_module(f"examples.{each.name}")).items():
        if isinstance(value, Job):
            found[f"{each.name}:{name}"] = value.program.code.parts
        elif isinstance(value, Program):
            found[f"{each.name}:{name}"] = version_of(value).encode()
for name in nexmark.queries.QUERIES:
    found[name] = load_job(f"nexmark.queries:{name}").program.code.parts
print(json.dumps(found))
"""
    path = os.pathsep.join([str(ROOT), str(folder)])
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
