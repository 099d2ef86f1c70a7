"""All settings of a node, a job and the command line: one immutable value that is passed as an argument.

Precedence: ``-D section.key=value``, then ``HOLON__SECTION__KEY``, then the TOML file, then the defaults below.
msgspec checks the values: pydantic costs every start 0.2 s of processor time, more than all other imports but numpy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta

from nodes.errors import SettingsError, nearest
from nodes.settings.kafka_properties import kafka_property, kafka_warnings
from nodes.settings.metrics import MetricsSettings, metrics_warnings, refused_metrics
from nodes.settings.renamed import RENAMED
from nodes.settings.schema_registry import RegistrySettings
from nodes.settings.sources import (
    KAFKA,
    GivenSources,
    environment_name,
    from_definitions,
    from_environment,
    from_toml,
    resolve_reference,
    settings_file,
)
from nodes.settings.stores import (
    CheckpointSettings,
    FilesSettings,
    RedisSettings,
    ViewSettings,
    refused_endpoint,
    store_warnings,
)
from nodes.settings.value_types import (
    Filled,
    NotNegative,
    Positive,
    Secret,
    Section,
    converted,
    is_secret,
    setting,
    shapes,
)


@dataclass(frozen=True)
class LogSettings(Section):
    """Which log, and where."""

    kind: Literal["embedded", "kafka", "memory"] = setting("embedded", "embedded (LMDB), kafka, or memory")
    path: Filled = setting("./holon-log", "folder of the embedded log")
    fsync: Literal["none", "interval", "batch"] = setting("interval", "when appends survive a power failure")
    fsync_interval_ms: Positive = setting(1000, "time between syncs where fsync is interval")
    bootstrap: str | None = setting(None, "HOST:PORT[,HOST:PORT...] of the Kafka brokers")
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{0,100}$")] = setting("", "precedes the names of Kafka topics")
    timeout_ms: Positive = setting(15_000, "how long a node waits for Kafka's brokers before it gives up")
    stall_timeout_ms: NotNegative = setting(
        10_000, "with Kafka: time without records of a partition after which its end is requested; 0: never"
    )
    transactional_outputs: bool = setting(
        False, "with Kafka: outputs of a batch in one transaction, for readers of what is committed"
    )
    transaction_timeout_ms: Positive = setting(
        10_000, "with Kafka: time after which the broker takes back an open transaction of outputs"
    )
    kafka: Mapping[str, str | Secret] = setting(
        MappingProxyType({}), "librdkafka properties, passed through (log.kafka.security.protocol=SSL)"
    )


@dataclass(frozen=True)
class NodeSettings(Section):
    """How a node works."""

    heartbeat_interval_ms: Positive = setting(80, "time between heartbeats")
    failure_timeout_ms: Positive = setting(250, "silence after which a node is suspected")
    batch_max_records: Positive = setting(20_000, "records that are read and processed at a time")
    broadcast_interval_ms: Positive = setting(200, "time between deltas that complete no window")
    broadcast_max_per_s: NotNegative = setting(
        500, "such deltas that a node reads a second; with many partitions they leave less often; 0: any"
    )
    checkpoint_interval_ms: Positive = setting(1000, "time between checkpoints of a partition")
    merged_checkpoint_interval_ms: NotNegative = setting(
        10_000, "time between merged checkpoints, or trims, of the job; 0: never"
    )
    truncate_internal_topics: bool = setting(True, "delete what no checkpoint needs of the job's own topics")
    state_memory_mb: NotNegative = setting(
        0, "memory for keyed state and that of transactions; the rest is spilled to disk; 0: all stays in memory"
    )
    state_path: Filled | None = setting(None, "folder for spilled state; none: beside the log")
    max_uncheckpointed_mb: NotNegative = setting(256, "deltas in no checkpoint above which input waits; 0: no limit")
    max_watermark_drift_ms: Positive = setting(60_000, "event time that a partition may be ahead of others")
    replicas: Positive = setting(1, "replicas of each partition in all; more than 1: hot standbys")
    standby_after_ms: Positive = setting(30, "how late results may be before a standby publishes them")
    compress_bytes: NotNegative = setting(4096, "transactions: longer internal records are compressed; 0: none is")
    move_portion_bytes: NotNegative = setting(32 << 20, "transactions: of an online move at once, a node; 0: all of it")
    function_timeout_ms: Positive = setting(
        10_000, "time that one call of a job's function may take; of a transactional one: CPU time"
    )
    handover_timeout_ms: NotNegative = setting(
        8_000, "transactions: time that a leaving node works on until others have what it had; 0: it leaves at once"
    )
    function_memory_mb: Positive = setting(
        1024, "memory that functions may take where what has ended nodes is tried apart"
    )
    on_error: Literal["fail", "dead-letter"] | None = setting(
        None, "when the job's function fails on a record: fail, or dead-letter; none: as the job declares"
    )


@dataclass(frozen=True)
class LoggingSettings(Section):
    """The messages logged to standard error, and their form."""

    level: Literal["debug", "info", "warning", "error"] = setting("warning", "lowest level that is shown")
    format: Literal["console", "json"] = setting("console", "console, or json: one object a line")


@dataclass(frozen=True)
class Settings:
    """Immutable; ``origin(key)`` names the source of a value."""

    log: LogSettings = LogSettings()
    node: NodeSettings = NodeSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    files: FilesSettings = FilesSettings()
    redis: RedisSettings = RedisSettings()
    schema_registry: RegistrySettings = RegistrySettings()
    view: ViewSettings = ViewSettings()
    logging: LoggingSettings = LoggingSettings()
    metrics: MetricsSettings = MetricsSettings()
    _given: Mapping[str, GivenSources] = field(default_factory=dict, repr=False, compare=False)

    def origin(self, key: str) -> str:
        """``-D ...``, ``environment variable ...``, the path of the TOML file, or ``default``."""
        given = self._given.get(key)
        return given.origin if given else "default"

    def items(self) -> list[tuple[str, object]]:
        """Every ``section.key`` with its value; secrets stay wrapped, so that printing shows asterisks."""
        rows: list[tuple[str, object]] = []
        for section in SECTIONS:
            given = getattr(self, section).items()
            rows += [(f"{section}.{key}", value) for key, value in given if (section, key) != ("log", "kafka")]
        return rows + [(KAFKA + name, value) for name, value in sorted(self.log.kafka.items())]

    def environment(self) -> dict[str, str]:
        """Variables that give a child process these settings. They hold references or secrets: never log them."""
        return {environment_name(key): _as_text(given.value) for key, given in sorted(self._given.items())}

    def checkpoint_url(self) -> str:
        """The store of checkpoints, password included; the default is a folder of the embedded log, else one here."""
        if self.checkpoints.url is not None:
            return self.checkpoints.url.get_secret_value()
        if self.log.kind == "kafka":  # logs that share a cluster have a folder each
            return os.path.join("./holon-checkpoints", self.log.prefix).rstrip("/")
        return os.path.join(self.log.path, "checkpoints")

    def spill_folder(self) -> str:
        """The folder for state that finds no room in memory; the default is in that of the embedded log, else here."""
        beside = self.log.path if self.log.kind == "embedded" else "."
        return self.node.state_path or os.path.join(beside, "holon-spill")

    def kafka_properties(self) -> dict[str, str]:
        """librdkafka properties with their secrets revealed, ``bootstrap.servers`` included: never log them."""
        revealed = {
            name: value.get_secret_value() if isinstance(value, Secret) else value
            for name, value in sorted(self.log.kafka.items())
        }
        return revealed | ({"bootstrap.servers": self.log.bootstrap} if self.log.bootstrap else {})

    def warnings(self) -> list[str]:
        """Settings that work but are unsafe, one line each."""
        log = kafka_warnings(self.log.bootstrap, self.log.kafka) if self.log.kind == "kafka" else []
        return log + store_warnings(self.checkpoints, self.view, self.files) + metrics_warnings(self.metrics)


SECTIONS: dict[str, type[Section]] = {
    name: type(each.default) for name, each in Settings.__dataclass_fields__.items() if name != "_given"
}


def load_settings(
    *,
    config: str | os.PathLike[str] | None = None,
    definitions: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
    needs_bootstrap: bool = True,
) -> Settings:
    """Read all sources; raises ``SettingsError``. ``environ`` and ``directory`` default to the process's own.

    ``needs_bootstrap``: a log on Kafka must name its brokers.
    """
    environ = os.environ if environ is None else environ
    file = settings_file(config, directory or Path.cwd())
    given: dict[str, GivenSources] = {}
    for value in (*(from_toml(file) if file else ()), *from_environment(environ), *from_definitions(definitions)):
        _require_known(value)
        given[value.key] = value
    return _settings(given, environ, needs_bootstrap)


def refined(settings: Settings, definitions: Iterable[str], environ: Mapping[str, str] | None = None) -> Settings:
    """The settings with more ``section.key=value``, which outrank what was there."""
    given = dict(settings._given)
    for value in from_definitions(definitions):
        _require_known(value)
        given[value.key] = value
    return _settings(given, os.environ if environ is None else environ, needs_bootstrap=True)


def _settings(given: dict[str, GivenSources], environ: Mapping[str, str], needs_bootstrap: bool) -> Settings:
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    kafka: dict[str, str | Secret] = {}
    for key, value in sorted(given.items()):
        if key.startswith(KAFKA):
            kafka[key[len(KAFKA) :]] = kafka_property(value, environ)
        else:
            section, _, name = key.partition(".")
            sections[section][name] = _converted(value, shapes(SECTIONS[section])[name], environ)
    if kafka:
        sections["log"]["kafka"] = MappingProxyType(kafka)
    made: dict[str, Any] = {name: kind(**sections[name]) for name, kind in SECTIONS.items()}
    settings = Settings(**made, _given=given)
    _require_consistent(settings, needs_bootstrap)
    return settings


def known_keys() -> dict[str, str]:
    """Every setting with its description."""
    return {f"{section}.{name}": text for section, kind in SECTIONS.items() for name, text in kind.described().items()}


def _require_known(given: GivenSources) -> None:
    known = known_keys()
    if given.key.startswith(KAFKA) and len(given.key) > len(KAFKA):
        return
    if given.key == KAFKA[:-1]:
        raise SettingsError(f"log.kafka ({given.origin}) is a table: set log.kafka.PROPERTY=VALUE")
    if given.key in RENAMED:
        raise SettingsError(f"setting {given.key} (from {given.origin}) is called {RENAMED[given.key]} now")
    if given.key not in known:
        raise SettingsError(f"unknown setting {given.key!r} (from {given.origin}){nearest(given.key, known)}")


def _converted(given: GivenSources, shape: Any, environ: Mapping[str, str]) -> object:
    secret = is_secret(shape)
    value = resolve_reference(given, environ) if secret else given.value
    try:
        # Text is converted ("100" is a number); values of a TOML file have types, and true is no number of ms.
        return converted(value, shape, typed=given.typed)
    except ValueError as error:
        shown = "the secret" if secret else repr(value)
        raise SettingsError(f"{given.key} = {shown} (from {given.origin}): {error}") from None


def _require_consistent(settings: Settings, needs_bootstrap: bool) -> None:
    node = settings.node
    if node.failure_timeout_ms <= node.heartbeat_interval_ms:
        raise SettingsError(
            f"node.failure_timeout_ms = {node.failure_timeout_ms} (from {settings.origin('node.failure_timeout_ms')}) "
            f"must be above node.heartbeat_interval_ms = {node.heartbeat_interval_ms} "
            f"(from {settings.origin('node.heartbeat_interval_ms')}); five times as much is a good start"
        )
    for section, store in (("checkpoints", settings.checkpoints), ("files", settings.files)):
        refused = refused_endpoint(store, section)
        if refused is not None:
            key = f"{section}.endpoint"
            raise SettingsError(f"{key} (from {settings.origin(key)}) is refused: {refused}")
    refused_metric = refused_metrics(settings.metrics)
    if refused_metric is not None:
        key, why = f"metrics.{refused_metric[0]}", refused_metric[1]
        raise SettingsError(f"{key} (from {settings.origin(key)}) is refused: {why}")
    if settings.log.transactional_outputs:
        _require_transactions(settings)
    if needs_bootstrap and settings.log.kind == "kafka" and not settings.log.bootstrap:
        raise SettingsError(
            f"log.kind = kafka (from {settings.origin('log.kind')}) needs log.bootstrap = HOST:PORT of a broker, or "
            f"--bootstrap HOST:PORT; holon kafka up starts one on this machine and prints its address"
        )


def _require_transactions(settings: Settings) -> None:
    option = f"log.transactional_outputs (from {settings.origin('log.transactional_outputs')})"
    if settings.log.kind != "kafka":
        raise SettingsError(f"{option} is of the log on Kafka, and log.kind is {settings.log.kind}")
    if settings.node.replicas > 1:
        raise SettingsError(
            f"{option} and node.replicas = {settings.node.replicas}: a standby cannot see what is not committed and "
            f"would write it again; use one of the two"
        )


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
