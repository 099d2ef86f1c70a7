"""The root command: exit codes, one clear line for an error, JSON alone on standard output, commands found lazily."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
import typer

from nodes.cli import registry
from nodes.cli.main import run
from nodes.cli.output import emit_json, fail
from nodes.errors import MissingDependency, RunFailed, SettingsError, UnknownName, Unreachable
from nodes.log import LogFull, LogUnavailable, TopicExists, UnknownTopic
from nodes.runtime.logging_setup import undo_logging


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty folder without settings, no memory of rows, and the loggers as they were."""
    monkeypatch.chdir(tmp_path)
    registry.rows.cache_clear()
    yield
    registry.rows.cache_clear()
    undo_logging()


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


def raising(error: BaseException):
    def command(as_json: bool = typer.Option(False, "--json")) -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (RunFailed("wrong"), 1),
        (LogFull("full"), 1),
        (UnknownName("query", "q77", ["q7"]), 2),
        (SettingsError("unknown"), 2),
        (UnknownTopic("no topic"), 2),
        (TopicExists("other partitions"), 2),
        (MissingDependency("install it"), 3),
        (ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql"), 3),
        (Unreachable("no broker"), 4),
        (LogUnavailable("no folder"), 4),
        (OSError(28, "No space left"), 1),
        (ZeroDivisionError("division by zero"), 1),
        (KeyboardInterrupt(), 130),
        (typer.Exit(4), 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_each_kind_of_error_has_its_exit_code(plug_in, capfd, error, exit_code):
    plug_in(raising(error))
    assert run(["plugged"]) == exit_code
    out, err = capfd.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.count("\n") == (0 if isinstance(error, typer.Exit) else 1)


@pytest.mark.parametrize("error", [RunFailed("wrong"), Unreachable("no broker"), KeyboardInterrupt()], ids=repr)
def test_an_error_is_one_line_of_json_too(plug_in, capfd, error):
    plug_in(raising(error))
    exit_code = run(["plugged", "--json"])
    out, err = capfd.readouterr()
    (line,) = out.splitlines()
    assert json.loads(line)["error"]["exit_code"] == exit_code
    assert err != ""


def test_an_unexpected_error_shows_its_traceback_with_debug_only(plug_in, capfd):
    plug_in(raising(ZeroDivisionError("division by zero")))
    run(["plugged"])
    _, err = capfd.readouterr()
    assert "ZeroDivisionError" in err and "--log-level debug" in err
    assert run(["version", "--log-level", "debug"]) == 2  # only commands with settings have it
    logging.getLogger("holon").setLevel(logging.DEBUG)
    run(["plugged"])
    assert "Traceback" in capfd.readouterr().err


def test_a_result_is_not_followed_by_the_json_of_an_error(plug_in, capfd):
    def wrong(as_json: bool = typer.Option(False, "--json")) -> None:
        emit_json({"validated": False})
        fail(1, "3 differences")

    plug_in(wrong)
    assert run(["plugged", "--json"]) == 1
    out, err = capfd.readouterr()
    assert (out, err) == ('{"validated":false}\n', "holon: error: 3 differences\n")


def test_standard_output_is_back_after_a_json_command(plug_in, capfd):
    plug_in(raising(RunFailed("wrong")))
    run(["plugged", "--json"])
    capfd.readouterr()
    os.write(1, b"here\n")
    assert capfd.readouterr().out == "here\n"


def test_a_command_may_emit_json_without_the_root(capfd):
    emit_json({"a": 1})
    assert capfd.readouterr().out == '{"a":1}\n'


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [(["lgo"], "log"), (["log", "tial"], "tail"), (["log", "ls", "--jsno"], "--json"), (["doctr"], "doctor")],
)
def test_an_unknown_name_is_a_usage_error_with_the_nearest(capfd, arguments, nearest):
    assert run(arguments) == 2
    out, err = capfd.readouterr()
    assert out == "" and nearest in err


def test_without_a_command_the_help_is_shown_as_a_usage_error(capfd):
    assert run([]) == 2
    assert "Usage: holon" in capfd.readouterr().err


def test_a_group_of_commands_is_found_by_its_entry_point(plug_in, capfd):
    group = typer.Typer()
    group.command("one")(lambda: typer.echo("1"))
    group.command("two")(lambda: typer.echo("2"))
    plug_in(group)
    assert run(["plugged", "two"]) == 0
    assert capfd.readouterr().out == "2\n"
    assert run(["--help"]) == 0
    assert "plugged" in capfd.readouterr().out


def test_an_entry_point_cannot_take_a_built_in_name(plug_in, capfd):
    plug_in(raising(RunFailed("taken over")), name="version")
    assert run(["version"]) == 0


def test_an_entry_point_that_is_gone_is_named(monkeypatch, capfd):
    point = metadata.EntryPoint("ghost", "no_such_package.cli:app", registry.ENTRY_POINTS)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point])
    assert run(["ghost"]) == 3
    assert "no_such_package.cli:app" in capfd.readouterr().err
    assert run(["--help"]) == 0


def test_the_help_of_an_entry_point_is_read_without_importing_it(monkeypatch, capfd, tmp_path: Path):
    package = tmp_path / "slow_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    (package / "cli.py").write_text('"""Commands that are slow to import."""\n')
    monkeypatch.syspath_prepend(tmp_path)
    point = metadata.EntryPoint("slow", "slow_package.cli:app", registry.ENTRY_POINTS)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point])
    assert run(["--help"]) == 0
    assert "Commands that are slow to import." in capfd.readouterr().out


def commands() -> list[list[str]]:
    """Every command and group of the runtime's own table."""
    found: list[list[str]] = []
    for row in registry.BUILT_IN:
        command = registry.load(row)
        found.append([row.name])
        found += [[row.name, name] for name in getattr(command, "commands", {})]
    return found


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_the_help_of_every_command_has_an_example(capfd, path):
    assert run([*path, "--help"]) == 0
    assert f"Example: holon {path[0]}" in capfd.readouterr().out


def test_global_options_stand_before_the_command_or_after_it(capfd):
    key = "node.checkpoint_interval_ms"
    assert run(["-D", f"{key}=2", "-D", "log.path=/a", "config", "show", "--json", "-D", f"{key}=3"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert shown[key] == {"value": 3, "origin": f"-D {key}"}
    assert shown["log.path"]["value"] == "/a"


def test_config_show_hides_secrets(capfd):
    assert run(["config", "show", "--origin", "-D", "checkpoints.url=redis://ann:swordfish@store/0"]) == 0
    out = capfd.readouterr().out
    assert "checkpoints.url = redis://***@store/0  (-D checkpoints.url)" in out and "swordfish" not in out


def test_a_settings_file_in_the_folder_is_used(capfd, tmp_path: Path):
    (tmp_path / "holon.toml").write_text("[node]\ncheckpoint_intervl_ms = 2\n")
    assert run(["config", "show"]) == 2
    assert "nearest: node.checkpoint_interval_ms" in capfd.readouterr().err


def test_the_version_is_the_distributions(capfd):
    assert run(["version", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["version"] == registry.distribution_version()
    assert run(["--version"]) == 0
    assert registry.distribution_version() in capfd.readouterr().out
