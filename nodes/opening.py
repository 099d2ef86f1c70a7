"""Opens the log that the settings name."""

from __future__ import annotations

from pathlib import Path

from nodes.errors import SettingsError, Unreachable
from nodes.log import Log, open_log
from nodes.settings import Settings


def open_settings_log(settings: Settings, log_dir: Path | None = None, *, create: bool = False) -> Log:
    """The log of ``settings.log``; ``log_dir`` names an embedded one instead. The caller closes it.

    Raises ``Unreachable`` where there is no log yet, unless ``create``, and ``LogUnavailable`` where no broker answers.
    """
    kind = "embedded" if log_dir is not None else settings.log.kind
    if kind == "embedded":
        path = log_dir if log_dir is not None else Path(settings.log.path)
        if not create and not (path / "log.json").is_file():
            raise Unreachable(
                f"no log in the folder {path}; name another with --log-dir or log.path, "
                "or make one: holon log append FILE --topic TOPIC --create"
            )
        return open_log(path, fsync=settings.log.fsync, fsync_interval_ms=settings.log.fsync_interval_ms)
    where = f"log.kind = {kind} (from {settings.origin('log.kind')})"
    if kind == "memory":
        raise SettingsError(f"{where}: a log in memory ends with its process, so that commands cannot share it")
    return open_kafka_log(settings)


def open_kafka_log(settings: Settings) -> Log:
    """The Kafka log of the settings."""
    properties = settings.kafka_properties()
    address = f"kafka:{properties.pop('bootstrap.servers')}"
    return open_log(address, kafka=properties, prefix=settings.log.prefix, timeout_s=settings.log.timeout_ms / 1000)
