"""What the runtime offers to programs that start jobs themselves: benchmarks, tests, notebooks."""

from __future__ import annotations

from nodes.cli.node_command import add_working_directory, log_dir_definition
from nodes.cli.options import (
    ConfigOption,
    DefineOption,
    JsonOption,
    LogDirOption,
    LogLevelOption,
    begin,
    new_command,
    new_group,
)
from nodes.cli.output import console, emit_json, note
from nodes.errors import MissingDependency, RunFailed, SettingsError, UnknownName, Unreachable, nearest
from nodes.fleet import Fleet, wait_for
from nodes.jobs import JobMismatch, ask_stop, declare_end, load_job, open_job
from nodes.log import EmbeddedLog, Log, LogError, MemoryLog, open_log
from nodes.monitor import Monitor
from nodes.process import open_job_log
from nodes.reader import OutputReader
from nodes.settings import Settings, load_settings

__all__ = [
    "ConfigOption",
    "DefineOption",
    "EmbeddedLog",
    "Fleet",
    "JobMismatch",
    "JsonOption",
    "Log",
    "LogDirOption",
    "LogError",
    "LogLevelOption",
    "MemoryLog",
    "MissingDependency",
    "Monitor",
    "OutputReader",
    "RunFailed",
    "Settings",
    "SettingsError",
    "UnknownName",
    "Unreachable",
    "add_working_directory",
    "ask_stop",
    "begin",
    "console",
    "declare_end",
    "emit_json",
    "load_job",
    "load_settings",
    "log_dir_definition",
    "nearest",
    "new_command",
    "new_group",
    "note",
    "open_job",
    "open_job_log",
    "open_log",
    "wait_for",
]
