"""Logging: own loggers only, to the given stream, with the process's context."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from nodes.runtime.logging_setup import set_up_logging, undo_logging
from nodes.settings.value_types import Secret


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    yield io.StringIO()
    undo_logging()


def records(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_lines_carry_level_logger_time_and_context(stream):
    set_up_logging("info", "json", stream=stream, node=3)
    logging.getLogger("nodes.log.embedded.log").warning("stalled for %d ms", 250, extra={"partition": 1})
    (record,) = records(stream)
    assert record.pop("timestamp").endswith("Z")
    assert record == {
        "event": "stalled for 250 ms", "level": "warning", "logger": "nodes.log.embedded.log", "node": 3,
        "partition": 1,
    }  # fmt: skip


def test_records_below_the_level_are_not_shown(stream):
    set_up_logging("warning", "json", stream=stream)
    logging.getLogger("nodes.x").info("quiet")
    assert records(stream) == []


def test_other_loggers_are_left_alone(stream):
    before = (logging.getLogger().handlers[:], logging.getLogger().level)
    set_up_logging("debug", "json", stream=stream)
    logging.getLogger("someone.else").error("not ours")
    assert stream.getvalue() == ""
    assert (logging.getLogger().handlers, logging.getLogger().level) == before


def test_own_records_are_not_repeated_by_the_root(stream):
    at_root = logging.StreamHandler(io.StringIO())
    logging.getLogger().addHandler(at_root)
    try:
        set_up_logging("info", "json", stream=stream)
        logging.getLogger("nodes").info("once")
        assert at_root.stream.getvalue() == "" and len(records(stream)) == 1
        undo_logging()
        logging.getLogger("nodes").warning("without us")
        assert "without us" in at_root.stream.getvalue() and len(records(stream)) == 1
    finally:
        logging.getLogger().removeHandler(at_root)


def test_a_second_set_up_replaces_the_first(stream):
    set_up_logging("info", "json", stream=io.StringIO())
    set_up_logging("info", "json", stream=stream)
    logging.getLogger("nodes").info("once")
    assert len(records(stream)) == 1


@pytest.mark.parametrize("kind", ["console", "json"])
def test_tracebacks_show_no_local_variables_and_no_secrets(stream, kind):
    set_up_logging("info", kind, stream=stream)
    password = "swordfish"
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        logging.getLogger("nodes").exception("failed", extra={"secret": Secret(password)})
    text = stream.getvalue()
    assert "RuntimeError: broken" in text and "Traceback" in text
    assert "swordfish" not in text.replace('password = "swordfish"', "")


def test_the_console_shows_one_line_a_record(stream):
    set_up_logging("info", "console", stream=stream, node=0)
    logging.getLogger("nodes").info("started")
    (line,) = stream.getvalue().splitlines()
    assert "started" in line and "node=0" in line and "\x1b" not in line
