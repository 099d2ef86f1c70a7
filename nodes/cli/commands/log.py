"""`holon log`: what is in a log, and lines of a file into it. Records are shown as they are, duplicates included."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from nodes.cli.commands.log_append import append
from nodes.cli.options import GivenOptions, JsonOption, new_group, with_log_options
from nodes.cli.output import byte_stdout, emit_json, fail, note, table

if TYPE_CHECKING:
    from nodes.cli.payloads import ShownRecord
    from nodes.log import Log

app = new_group("List topics, show their records, append lines of a file.", "holon log ls --log-dir ./holon-log")
app.command("append", epilog="Example: holon log append bids.jsonl --topic bids --create --partitions 4")(append)


@app.command("ls", epilog="Example: holon log ls --log-dir ./holon-log")
@with_log_options
def list_topics(
    given: GivenOptions,
    everything: Annotated[bool, typer.Option("--all", help="The jobs' internal topics too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List topics and partitions with offsets and sizes on disk."""
    settings = given.settings()
    from nodes.cli.internal_topics import internal_topics
    from nodes.runtime.log_opening import log_address, open_settings_log

    with open_settings_log(settings) as log:
        topics = log.topics()
        hidden = frozenset[str]() if everything else internal_topics(topics)
        on_kafka, folder = settings.log.kind == "kafka", Path(settings.log.path)
        place = str(log_address(settings))
        rows = [
            {
                "topic": topic,
                "partition": partition,
                "start_offset": log.start_offset(topic, partition),
                "end_offset": log.end_offset(topic, partition),
                "bytes": None if on_kafka else _bytes_on_disk(folder / "topics" / topic / str(partition)),
            }
            for topic, partitions in topics.items()
            if topic not in hidden
            for partition in range(partitions)
        ]
    if as_json:
        emit_json({"log": place, "partitions": rows, "internal_hidden": len(hidden)})
        return
    if rows:
        cells = [["-" if cell is None else cell for cell in row.values()] for row in rows]
        typer.echo(table(["TOPIC", "PARTITION", "START", "END", "BYTES"], cells))
    elif not hidden:
        note(f"no topics in {place}")
    if hidden:
        note(f"{len(hidden)} internal topics of jobs are not shown; --all shows them")


@app.command("tail", epilog="Example: holon log tail bids -p 0 -n 3 --follow")
@with_log_options
def tail(
    given: GivenOptions,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Any topic.")],
    partition: Annotated[int | None, typer.Option("-p", "--partition", min=0, help="Only this partition.")] = None,
    count: Annotated[int, typer.Option("-n", "--count", min=0, help="Records of each partition.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what arrives.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the last records: partition, offset, log time, key (- for none) and payload, separated by tabs.

    Duplicates are shown; holon read drops them.
    """
    if follow and as_json:
        fail(2, "one line of JSON cannot follow a topic; leave one of --json and --follow out")
    settings = given.settings()
    from nodes.runtime.log_opening import open_settings_log

    with open_settings_log(settings) as log:
        chosen = _chosen(topic, partition, log.partitions(topic))
        ends = {p: log.end_offset(topic, p) for p in chosen}
        if as_json:
            found = [record.shown() for p, end in ends.items() for record in _last(log, topic, p, end, count)]
            emit_json({"topic": topic, "records": found})
            return
        with byte_stdout() as out:
            for p, end in ends.items():
                out.writelines(record.line() for record in _last(log, topic, p, end, count))
            out.flush()
            while follow:
                ends = {p: _print_from(out, log, topic, p, offset) for p, offset in ends.items()}
                out.flush()
                _wait(log, topic, ends)


def _chosen(topic: str, partition: int | None, partitions: int) -> list[int]:
    if partition is not None and partition >= partitions:
        fail(2, f"topic {topic!r} has the partitions 0 to {partitions - 1}, not {partition}")
    return list(range(partitions)) if partition is None else [partition]


def _last(log: Log, topic: str, partition: int, end: int, count: int) -> list[ShownRecord]:
    """The last ``count`` records before ``end``. Offsets have gaps, so it reads further back until there are enough."""
    from nodes.cli.payloads import records

    start, back = log.start_offset(topic, partition), count
    while count:
        offset = first = max(start, end - back)
        found: list[ShownRecord] = []
        while offset < end:
            chunk = log.read(topic, partition, offset)
            found += [record for record in records(chunk, partition) if record.offset < end]
            offset = max(chunk.next_offset, offset + 1)
        if len(found) >= count or first == start:
            return found[-count:]
        back *= 2
    return []


def _print_from(out: BinaryIO, log: Log, topic: str, partition: int, offset: int) -> int:
    from nodes.cli.payloads import records

    chunk = log.read(topic, partition, offset)
    out.writelines(record.line() for record in records(chunk, partition))
    return chunk.next_offset


def _wait(log: Log, topic: str, positions: dict[int, int]) -> None:
    from nodes.log import TopicPartition

    log.wait({TopicPartition(topic, partition): offset for partition, offset in positions.items()}, 1.0)


def _bytes_on_disk(folder: Path) -> int:
    """The space that the files occupy: those of LMDB have holes."""
    return sum(file.stat().st_blocks * 512 for file in folder.iterdir()) if folder.is_dir() else 0
