"""Opens the log that the settings name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.errors import SettingsError, Unreachable
from nodes.log import Log, LogAddress, open_log
from nodes.settings.settings import Settings

if TYPE_CHECKING:
    from nodes.local_kafka.broker import Broker
    from nodes.machine.config import JobRun


def log_address(settings: Settings) -> LogAddress:
    """Where the log of the settings is, secrets included; for child processes as well."""
    log = settings.log
    if log.kind == "kafka":
        properties = settings.kafka_properties()
        return LogAddress(
            f"kafka:{properties.pop('bootstrap.servers')}",
            properties,
            log.prefix,
            timeout_s=log.timeout_ms / 1000,
            stall_timeout_s=log.stall_timeout_ms / 1000,
        )
    if log.kind == "memory":
        where = f"log.kind = memory (from {settings.origin('log.kind')})"
        raise SettingsError(
            f"{where}: a log in memory ends with its process, so that commands and nodes cannot share it"
        )
    return LogAddress(f"embedded:{log.path}", fsync=log.fsync, fsync_interval_ms=log.fsync_interval_ms)


def open_job_log(settings: Settings) -> Log:
    """The log of ``settings.log``; an embedded one is made if there is none. The caller closes it.

    Raises ``LogUnavailable`` where no broker answers.
    """
    return open_log(log_address(settings))


def open_node_log(settings: Settings) -> Log:
    """As ``open_job_log``, but with the timeout of a running node: no user waits while a node starts."""
    return open_log(replace(log_address(settings), connect_timeout_s=settings.log.timeout_ms / 1000))


def use_columns(log: Log) -> bool:
    """As ``Log.use_columns``, for programs beside nodes: with the loops that a node has compiled here."""
    from nodes.compiled import loading as compiled

    return compiled.ensure(build=False) and log.use_columns()


def local_kafka() -> Broker:
    """The Kafka broker of this machine, started if it does not run. Raises ``MissingDependency`` or ``RunFailed``."""
    from nodes.local_kafka import broker as kafka_broker

    return kafka_broker.up(kafka_broker.default_folder())


def drop_topics(settings: Settings, keep: Collection[str] = ()) -> None:
    """Delete all topics, but those to keep, of a log on Kafka that has a prefix to itself."""
    from nodes.log.kafka.log import KafkaLog

    assert settings.log.prefix, "without a prefix these would be all topics of the cluster"
    with open_job_log(settings) as log:
        assert isinstance(log, KafkaLog)
        log.delete_topics([topic for topic in log.topics() if topic not in keep])


def outputs_in_transactions(log: Log, run: JobRun, node: str, timeout_ms: int) -> None:
    """Let this node write outputs in Kafka transactions, under a name that no other incarnation has."""
    from nodes.log.kafka.log import KafkaLog

    assert isinstance(log, KafkaLog), "the settings refuse this for other logs"
    topics = [output.topic for output in run.job.outputs.values()]
    log.use_transactions(topics, f"holon-{run.job.name}-{node}", timeout_ms=timeout_ms)


def check_at_next_opening(settings: Settings) -> Callable[[], None]:
    """Call this when a process may have ended by damaged pages of the log: the next opener reads it as a whole.

    That is done in a process of its own, and damage gets a name, where one node after the other would end without.
    """
    if settings.log.kind != "embedded":
        return lambda: None
    from nodes.log.embedded.damage.after_reboot import verify_at_next_opening

    return partial(verify_at_next_opening, Path(settings.log.path))


def open_settings_log(settings: Settings, *, create: bool = False) -> Log:
    """As ``open_job_log``, but raises ``Unreachable`` where there is no embedded log yet, unless ``create``."""
    path = Path(settings.log.path)
    if settings.log.kind == "embedded" and not create and not (path / "log.json").is_file():
        raise Unreachable(
            f"no log in the folder {path}; name another with --log-dir or log.path, "
            "or make one: holon log append FILE --topic TOPIC --create; for transactions: holon txn run MODULE:PROGRAM"
        )
    return open_job_log(settings)
