"""Logging of the project's own loggers (``OWN`` and below) to standard error, on a console or as JSON lines.

The root logger and those of other packages are left alone. structlog is imported with the first record that is shown,
because it costs a command 0.15 s that most never need.
"""

from __future__ import annotations

import logging
import sys
from typing import IO, Any, Literal

OWN = ("holon", "nodes", "transactional", "nexmark")
"""Modules log under their own names; ``holon`` is for what has none."""


def set_up_logging(
    level: str, kind: Literal["console", "json"] = "console", *, stream: IO[str] | None = None, **context: object
) -> None:
    """Send the own loggers to the stream (default: standard error); a second call replaces the first.

    ``context`` (such as ``node=3``) is part of every record of this process, whatever its thread.
    """
    undo_logging()
    handler = _OwnHandler(stream or sys.stderr)
    handler.setFormatter(_LazyFormatter(kind, context, handler.stream.isatty()))
    for name in OWN:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level.upper())
        logger.propagate = False


def undo_logging() -> None:
    """Leave the own loggers as Python made them; for tests, and for who sets up logging otherwise."""
    for name in OWN:
        logger = logging.getLogger(name)
        logger.handlers = [handler for handler in logger.handlers if not isinstance(handler, _OwnHandler)]
        logger.setLevel(logging.NOTSET)
        logger.propagate = True


def line_as_json(text: str, level: int = logging.INFO, **context: object) -> str | None:
    """A line for people as the JSON that records have, whatever the level that is logged; None: records are no JSON."""
    logger = logging.getLogger(OWN[0])
    formatters = [handler.formatter for handler in logger.handlers if isinstance(handler, _OwnHandler)]
    shape = next((found for found in formatters if isinstance(found, _LazyFormatter) and found.kind == "json"), None)
    if shape is None:
        return None
    return shape.format(logger.makeRecord(logger.name, level, "", 0, text, (), None, extra=context))


class _OwnHandler(logging.StreamHandler[IO[str]]):
    """Marks the handlers of this module."""


class _LazyFormatter(logging.Formatter):
    def __init__(self, kind: str, context: dict[str, object], colors: bool) -> None:
        super().__init__()
        self.kind = kind
        self._arguments = (kind, context, colors)
        self._inner: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        if self._inner is None:
            self._inner = _structured(*self._arguments)
        return self._inner.format(record)


def _structured(kind: str, context: dict[str, object], colors: bool) -> logging.Formatter:
    import structlog

    def add_context(logger: object, method: str, event: Any) -> Any:
        return {**context, **event}

    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_context,
    ]
    if kind == "json":
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=repr)]
    else:
        # Plain tracebacks: those with local variables would show secrets.
        last = [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder()],
        processors=[*shared, structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
