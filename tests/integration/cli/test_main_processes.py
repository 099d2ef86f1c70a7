"""The command as a process: imports, output, completion."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
import typer

from nodes.cli import registry
from nodes.cli.main import run
from nodes.cli.output import emit_json

ROOT = Path(__file__).parents[3]


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch):
    """Register an object as the command `plugged` through an entry point, as another package would."""

    def _plug_in(found: object, name: str = "plugged") -> None:
        module = ModuleType("a_plug_in")
        module.__dict__["it"] = found
        monkeypatch.setitem(sys.modules, "a_plug_in", module)
        point = metadata.EntryPoint(name, "a_plug_in:it", registry.ENTRY_POINTS)
        monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group == registry.ENTRY_POINTS else [])
        registry.rows.cache_clear()

    return _plug_in


def test_json_is_alone_on_standard_output_whatever_a_library_prints(plug_in, capfd):
    def chatty(as_json: bool = typer.Option(False, "--json")) -> None:
        print("from Python")
        subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
        emit_json({"rows": 3})
        print("afterwards")

    plug_in(chatty)
    assert run(["plugged", "--json"]) == 0
    out, err = capfd.readouterr()
    assert out == '{"rows":3}\n'
    assert all(text in err for text in ("from Python", "from a child", "afterwards"))


def test_help_imports_nothing_heavy():
    script = (
        "import sys\nfrom nodes.cli.main import run\nassert run(['--help']) == 0\n"
        "heavy = {'numpy', 'pydantic', 'structlog', 'rich', 'lmdb', 'msgspec', 'nexmark', 'pyspark', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("holon no", ["node"]),
        ("holon txn c", ["call"]),
        ("holon run --repl", ["--replicas"]),
        ("holon run --on-error ", ["fail", "dead-letter"]),
        ("holon lgo ta", []),
    ],
)
def test_shells_complete_commands_options_and_choices(typed, words):
    asked = {"_HOLON_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "nodes.cli"], cwd=ROOT, env={**os.environ, **asked}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, words, "")


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "nodes.cli", "lgo"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "nearest: log" in done.stderr
