"""A log for a transactional job, embedded or on the session's broker, and the options by which commands find it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodes.log import Log, open_log
from nodes.log.kafka.log import KafkaLog
from tests.integration.kafka_broker import session_bootstrap, session_prefix

KINDS = ("embedded", "kafka")


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[tuple[Log, tuple[str, ...]]]:
    """One of ``KINDS``, without topics. On Kafka checkpoints lie in the folder, and topics are deleted at the end."""
    if kind == "embedded":
        with open_log(f"embedded:{folder / 'log'}") as log:
            yield log, ("--log-dir", str(folder / "log"))
        return
    bootstrap, prefix = session_bootstrap(), session_prefix(folder)
    with KafkaLog(bootstrap, prefix=prefix) as log:
        try:
            checkpoints = f"checkpoints.url={folder / 'checkpoints'}"
            yield log, ("--bootstrap", bootstrap, "-D", f"log.prefix={prefix}", "-D", checkpoints)
        finally:
            log.delete_topics(list(log.topics()))
