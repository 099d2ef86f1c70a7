"""Every benchmark is listed, and run by `make bench`."""

from __future__ import annotations

import subprocess

from tests.tidy.source import ROOT

BENCHES = ROOT / "deploy" / "bench"
SCRIPTS = sorted(
    path.relative_to(BENCHES).with_suffix("").as_posix()
    for path in BENCHES.rglob("[!_]*.py")
    if "ordinary" not in path.parts  # jobs, which ``holon bench`` runs
)


def make(*arguments: str) -> str:
    done = subprocess.run(["make", "-s", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_list_tells_what_each_script_measures() -> None:
    listed = {line.split()[0]: line.split()[1:] for line in make("benches").splitlines() if not line.startswith(" ")}
    assert set(listed) == {*SCRIPTS, "side-by-side", "ordinary"}
    assert all(len(said) > 3 for said in listed.values())


def test_bench_runs_all_of_them_with_their_options() -> None:
    run = make("-n", "bench", "OPTIONS_scale=--sizes 3:4")
    missing = [name for name in SCRIPTS if f".venv/bin/python deploy/bench/{name}.py" not in run]
    assert SCRIPTS and not missing
    assert "deploy/bench/scale.py --sizes 3:4;" in run and "holon nexmark bench --engines holon,flink" in run
    assert "holon bench deploy.bench.ordinary --engines holon,flink,bytewax,quix" in run
    only = make("-n", "bench", "BENCHES=ramp")
    assert "ramp.py --events" in only and "scale.py" not in only
