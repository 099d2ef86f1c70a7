"""Types for an editor and pyright: handles are typed by their states, and mistakes are marked where they are made."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import msgspec
from holon import (
    WCRDT, Batch, Context, Job, Json, JsonColumns, Local, ProcessingFunction, Source, Tumbling, Window, WLocal,
    on_window,
)
from wcrdt import GCounter, MapOf, TopK

class Bid(msgspec.Struct):
    ts: int
    price: int

class Other(msgspec.Struct):
    name: str

class Typed(ProcessingFunction[Bid]):
    total = WCRDT(GCounter(), Tumbling.of(seconds=10))
    by_key = WLocal(MapOf[str, int, int](GCounter()), Tumbling(5))
    top = WCRDT(TopK[int, str](3), Tumbling(5))
    seen = Local[dict[str, int]]({})
    count = Local(0)

    def process(self, event: Bid, ctx: Context) -> None:
        self.total.insert(1, event.ts)
        self.total.insert("one", event.ts)  # error: reportArgumentType
        self.by_key.insert(("a", 1), event.ts)
        self.by_key.insert((1, "a"), event.ts)  # error: reportArgumentType
        self.total.insert(1, "now")  # error: reportArgumentType
        self.total.add(1)  # error: reportAttributeAccessIssue
        reveal_type(self.seen.value)  # type: dict[str, int]
        reveal_type(self.count.value)  # type: int
        self.count.value = "x"  # error: reportAttributeAccessIssue
        reveal_type(self.total.peek(Window(0, 1)))  # type: int | None
        reveal_type(self.total.global_watermark_ms)  # type: int
        reveal_type(ctx[Typed.total])  # type: WindowedHandle[int, int]
        reveal_type(ctx[Typed.seen])  # type: LocalHandle[dict[str, int]]

    @on_window(total)
    async def close(self, window: Window, ctx: Context) -> None:
        reveal_type(await self.total.window_value(window))  # type: int
        reveal_type(await self.by_key.window_value(window))  # type: dict[str, int]
        reveal_type(await self.top.window_value(window))  # type: tuple[tuple[int, str], ...]
        forgot = self.total.window_value(window) + 1  # error: reportOperatorIssue

source = Source("bids", Json(Bid), timestamp=lambda bid: bid.ts)
reveal_type(source)  # type: Source[Bid]
reveal_type(Job("typed", source, Typed))  # type: Job[Bid]
Job("typed", Source("others", Json(Other)), Typed)  # error: reportArgumentType
Job("typed", source, Typed, outptu="x")  # error: reportCallIssue
Job("typed", source, Typed, on_error="ignore")  # error: reportArgumentType

def function(event: Other, ctx: Context) -> None: ...

Job("typed", Source("others", JsonColumns(Other)), function)
Job("typed", source, function)  # error: reportArgumentType

def columns(batch: Batch[Bid], ctx: Context) -> None:
    reveal_type(batch.ts_ms)  # type: ndarray[tuple[Any, ...], dtype[signedinteger[_64Bit]]]

Job("typed", source, process_batch=columns)
"""


def run_pyright(folder: Path, checked: str) -> dict[str, Any]:
    settings = {"include": [checked], "extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[str, str]]:
    """Line -> (rule or "type", message) as pyright gives them."""
    folder = tmp_path_factory.mktemp("types")
    (folder / "program.py").write_text(PROGRAM)
    report = run_pyright(folder, "program.py")
    found = {}
    for entry in report["generalDiagnostics"]:
        kind = "type" if entry["severity"] == "information" else entry.get("rule", "syntax")
        found[entry["range"]["start"]["line"]] = (kind, entry["message"])
    return found


def test_every_mistake_is_found_and_nothing_else(findings: dict[int, tuple[str, str]]) -> None:
    expected = {
        number: match[1]
        for number, line in enumerate(PROGRAM.splitlines())
        if (match := re.search(r"# error: (\w+)", line))
    }
    assert {number: rule for number, (rule, _) in findings.items() if rule != "type"} == expected


def test_values_have_the_types_of_their_states(findings: dict[int, tuple[str, str]]) -> None:
    expected = {
        number: match[1]
        for number, line in enumerate(PROGRAM.splitlines())
        if (match := re.search(r"# type: (.+)", line))
    }
    shown = {number: message.split(' is "')[1][:-1] for number, (rule, message) in findings.items() if rule == "type"}
    assert {number: shown.get(number) for number in expected} == expected


def test_the_examples_have_no_type_errors(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    report = run_pyright(tmp_path, "examples")
    assert report["generalDiagnostics"] == []
    assert report["summary"]["filesAnalyzed"] == len(list((ROOT / "examples").glob("**/*.py")))
