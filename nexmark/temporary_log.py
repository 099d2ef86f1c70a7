"""The temporary log of a comparison: on Kafka with a prefix of its own, beside a folder; both are gone afterwards."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nodes.api import drop_topics, load_settings, passing_broker


@contextmanager
def temporary_log(bootstrap: str | None, report: Callable[[str], None]) -> Iterator[tuple[list[str], Path, int | None]]:
    """Settings of the log, the folder, and the process of the broker, if one was started for it."""
    prefix = f"nexmark-bench-{secrets.token_hex(4)}."
    with tempfile.TemporaryDirectory(prefix="holon-bench-") as name:
        folder = Path(name)
        if bootstrap is None:
            report("starting a Kafka broker")
            with passing_broker(folder / "kafka", heap_mb=1024) as broker:
                yield _definitions(broker.bootstrap, prefix), folder, broker.pid
            return
        definitions = _definitions(bootstrap, prefix)
        try:
            yield definitions, folder, None
        finally:
            drop_topics(load_settings(definitions=definitions))


def _definitions(bootstrap: str, prefix: str) -> list[str]:
    return ["log.kind=kafka", f"log.bootstrap={bootstrap}", f"log.prefix={prefix}"]
