"""`holon log append`: each line of a file becomes a record."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from nodes.cli.options import GivenOptions, JsonOption, with_log_options
from nodes.cli.output import emit_json, fail, note

if TYPE_CHECKING:
    from nodes.log import Log

_READ_BYTES = 1 << 20
_Row = tuple[bytes | None, bytes]


@with_log_options
def append(
    given: GivenOptions,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File of lines; - for standard input.")],
    topic: Annotated[str, typer.Option("--topic", help="Where to append.")],
    partition: Annotated[
        str, typer.Option("--partition", metavar="N|round-robin|key", help="Where each line goes.")
    ] = "round-robin",
    create: Annotated[bool, typer.Option("--create", help="Make the log and the topic if they do not exist.")] = False,
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, help="With --create: how many (1).")] = None,
    key_separator: Annotated[
        str, typer.Option("--key-separator", help="With --partition key: what ends a line's key.", show_default="tab")
    ] = "\t",
    as_json: JsonOption = False,
) -> None:
    """Append each line of a file as a record, without its line feed; empty lines are empty records.

    Of a file that has a line that is too large, or lacks a key, nothing is appended; of a pipe, what came before.

    Line n (from 0) goes to partition n mod P, or to one partition, or by key. With keys a line is KEY, tab, payload,
    and murmur2 of the key chooses the partition, as in Kafka.
    """
    if partitions is not None and not create:
        fail(2, "--partitions is for a topic that is created; add --create")
    settings = given.settings()
    from nodes.runtime.log_opening import open_settings_log

    with _opened(file) as lines, open_settings_log(settings, create=create) as log:
        if create and (topic not in log.topics() or partitions is not None):
            log.create_topic(topic, partitions or 1)
        count = log.partitions(topic)
        place = _placement(partition, count, key_separator.encode(), topic)
        if lines.seekable():
            _check_all(lines, place, log.max_record_bytes(topic), file)
        appended = _append_all(log, topic, lines, place, count)
    if as_json:
        emit_json({"topic": topic, "appended": sum(appended), "partitions": appended})
    else:
        note(f"appended {sum(appended)} records to {topic} ({count} partitions)")


def _opened(file: str) -> BinaryIO:
    if file == "-":
        return sys.stdin.buffer
    try:
        return Path(file).open("rb")
    except OSError as error:
        fail(2, f"cannot read {file}: {error.strerror}")


def _placement(partition: str, count: int, separator: bytes, topic: str) -> Callable[[int, bytes], tuple[int, _Row]]:
    """From a line and its number to its partition, key and payload."""
    if partition == "round-robin":
        return lambda number, line: (number % count, (None, line))
    if partition == "key":
        if not separator:
            fail(2, "--key-separator cannot be empty")
        return lambda number, line: _by_key(number, line, separator, count)
    if not partition.isascii() or not partition.isdigit():
        fail(2, f"--partition {partition!r}: write a number, round-robin or key")
    fixed = int(partition)
    if fixed >= count:
        fail(2, f"topic {topic!r} has the partitions 0 to {count - 1}, not {fixed}")
    return lambda number, line: (fixed, (None, line))


def _by_key(number: int, line: bytes, separator: bytes, count: int) -> tuple[int, _Row]:
    from holon.outputs.partitioner import partition_of

    key, found, payload = line.partition(separator)
    if not found:
        fail(2, f"line {number + 1} has no key: {separator.decode()!r} does not occur in {line[:60]!r}")
    return partition_of(key, count), (key, payload)


def _check_all(lines: BinaryIO, place: Callable[[int, bytes], tuple[int, _Row]], limit: int, file: str) -> None:
    """Read the file once before, so that nothing of it is appended if one of its lines cannot be."""
    number = 0
    for batch in _batches(lines):
        for line in batch:
            _, (key, payload) = place(number, line)
            number += 1
            if (size := len(payload) + len(key or b"")) > limit:
                fail(1, f"line {number} of {file} has {size} bytes, the limit of a record is {limit}: nothing appended")
    lines.seek(0)


def _append_all(
    log: Log, topic: str, lines: BinaryIO, place: Callable[[int, bytes], tuple[int, _Row]], count: int
) -> list[int]:
    """Append batch by batch; returns the number of records for each partition. An error reports how far it came."""
    appended, number = [0] * count, 0
    try:
        for batch in _batches(lines):
            rows: list[list[_Row]] = [[] for _ in range(count)]
            for line in batch:
                partition, row = place(number, line)
                rows[partition].append(row)
                number += 1
            for partition, chosen in enumerate(rows):
                if chosen:
                    keys = [key for key, _ in chosen] if chosen[0][0] is not None else None
                    log.append(topic, partition, [payload for _, payload in chosen], keys=keys)
                    appended[partition] += len(chosen)
    except BaseException:
        note(f"{sum(appended)} records had been appended to {topic}; by partition: {appended}")
        raise
    return appended


def _batches(lines: BinaryIO) -> Iterator[list[bytes]]:
    """Lists of lines without their line feeds, as they arrive: a slow pipe is not kept waiting for a full batch."""
    rest = b""
    read = getattr(lines, "read1", lines.read)
    while block := read(_READ_BYTES):
        *whole, rest = (rest + block).split(b"\n")
        if whole:
            yield whole
    if rest:
        yield [rest]
