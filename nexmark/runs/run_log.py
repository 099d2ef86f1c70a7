"""Where a run's log is: the one that the user names, or a temporary one of its own that goes with it."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nodes.api import GivenOptions, LogError, Settings, drop_topics, local_kafka, refined


@contextmanager
def run_settings(given: GivenOptions, report: Callable[[str], None], *definitions: str) -> Iterator[Settings]:
    """The settings of a run. Without --log-dir, or on Kafka without ``log.prefix``, its log is a temporary one.

    So runs never meet the records of others. On Kafka without an address the broker of this machine is used, and
    started if need be.
    """
    settings = given.settings(*definitions, find_broker=lambda: local_broker(report))
    if settings.log.kind != "kafka":
        with _embedded(given, settings) as settings:
            yield settings
        return
    if settings.log.prefix:
        yield settings
        return
    with tempfile.TemporaryDirectory(prefix="holon-nexmark-") as folder:
        settings = refined(settings, _own_topics(settings, Path(folder)))
        try:
            yield settings
        finally:
            _drop(settings, report)


def local_broker(report: Callable[[str], None]) -> str:
    """The address of the broker of this machine, which is started if it does not run."""
    broker = local_kafka()
    how = "started" if broker.fresh else "which was up already"
    report(f"on the Kafka broker of this machine, {broker.bootstrap}, {how} (holon kafka down stops it)")
    return broker.bootstrap


@contextmanager
def _embedded(given: GivenOptions, settings: Settings) -> Iterator[Settings]:
    if given.log_dir is not None:
        yield settings
        return
    with tempfile.TemporaryDirectory(prefix="holon-nexmark-") as folder:
        yield refined(settings, [f"log.path={folder}"])


def _own_topics(settings: Settings, folder: Path) -> list[str]:
    """A prefix that no other run has, and checkpoints of its own beside it unless a setting names them."""
    definitions = [f"log.prefix=nexmark-{secrets.token_hex(4)}."]
    if settings.checkpoints.url is None:
        definitions.append(f"checkpoints.url={folder / 'checkpoints'}")
    return definitions


def _drop(settings: Settings, report: Callable[[str], None]) -> None:
    try:
        drop_topics(settings)
    except LogError as error:
        report(f"the topics {settings.log.prefix}* of this run stay on the broker: {error}")
