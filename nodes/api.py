"""The runtime's interface for programs that start jobs themselves: benchmarks, tests, notebooks."""

from __future__ import annotations

from nodes.cli.options import (
    ConfigOption,
    DefineOption,
    GivenOptions,
    JsonOption,
    LogLevelOption,
    begin,
    new_command,
    new_group,
    with_log_options,
)
from nodes.cli.output import console, emit_json, note
from nodes.errors import MissingDependency, RunFailed, SettingsError, UnknownName, Unreachable, nearest
from nodes.fleet.event_counts import events_on_log
from nodes.fleet.monitor import Monitor
from nodes.fleet.processes import Fleet, wait_for
from nodes.local_kafka.broker import passing as passing_broker
from nodes.log import EmbeddedLog, Log, LogAddress, LogError, MemoryLog, open_log
from nodes.machine.code_check import JobMismatch
from nodes.metrics.process_memory import private_bytes
from nodes.python_process import child_environment, deferred_interrupts, module_command
from nodes.results.reader import OutputReader
from nodes.runtime.log_opening import (
    drop_topics,
    local_kafka,
    log_address,
    open_job_log,
    open_settings_log,
    use_columns,
)
from nodes.runtime.user_modules import import_user_module
from nodes.settings.settings import Settings, load_settings, refined
from nodes.streams.jobs import declare_end, load_job, open_job, request_stop

__all__ = [
    "ConfigOption",
    "DefineOption",
    "EmbeddedLog",
    "Fleet",
    "GivenOptions",
    "JobMismatch",
    "JsonOption",
    "Log",
    "LogAddress",
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
    "begin",
    "child_environment",
    "console",
    "declare_end",
    "deferred_interrupts",
    "drop_topics",
    "emit_json",
    "events_on_log",
    "import_user_module",
    "load_job",
    "load_settings",
    "local_kafka",
    "log_address",
    "module_command",
    "nearest",
    "new_command",
    "new_group",
    "note",
    "open_job",
    "open_job_log",
    "open_log",
    "open_settings_log",
    "passing_broker",
    "private_bytes",
    "refined",
    "request_stop",
    "use_columns",
    "wait_for",
    "with_log_options",
]
