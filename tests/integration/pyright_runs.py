"""Programs that pyright checks: ``# error: RULE`` and ``# type: TYPE`` at the ends of their lines say what it finds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]
Mode = Literal["standard", "strict"]


def run_pyright(folder: Path, checked: str, mode: Mode = "standard") -> dict[str, Any]:
    settings = {"include": [checked], "extraPaths": [str(ROOT)], "typeCheckingMode": mode}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    return json.loads(done.stdout)


def found_in(program: str, folder: Path, mode: Mode = "standard") -> dict[int, tuple[str, str]]:
    """Line -> (rule or "type", message) as pyright gives them."""
    (folder / "program.py").write_text(program)
    found = {}
    for entry in run_pyright(folder, "program.py", mode)["generalDiagnostics"]:
        kind = "type" if entry["severity"] == "information" else entry.get("rule", "syntax")
        found[entry["range"]["start"]["line"]] = (kind, entry["message"])
    return found


def expected(program: str, word: Literal["error", "type"]) -> dict[int, str]:
    """Line -> what is written there behind the word."""
    lines = enumerate(program.splitlines())
    return {number: match[1] for number, line in lines if (match := re.search(rf"# {word}: (.+)", line))}
