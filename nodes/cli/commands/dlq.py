"""`holon dlq`: the dead letters of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodes.cli.job_options import JobArgument, job_named
from nodes.cli.options import GivenOptions, JsonOption, new_group, with_log_options
from nodes.cli.output import byte_stdout, emit_json, fail, note, table

if TYPE_CHECKING:
    from holon.outputs.letters import Diverted

app = new_group("Dead letters of a job: list, show, put back into the input.", "holon dlq list jobs:job")
Places = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TOPIC:]PARTITION:OFFSET...", help="Places in the input; the topic, where the job reads several."
    ),
]


@app.command("list", epilog="Example: holon dlq list examples.query1:job --log-dir ./holon-log")
@with_log_options
def list_letters(given: GivenOptions, job: JobArgument, as_json: JsonOption = False) -> None:
    """List what the job has set aside: where it was in the input, its size, and why."""
    settings = given.settings()
    declared = job_named(job, settings)
    from nodes.results.dead_letters import dead_letters, letter_place, place_text
    from nodes.runtime.log_opening import open_settings_log

    with open_settings_log(settings) as log:
        letters = list(dead_letters(log, declared))
    if as_json:
        emit_json({"job": declared.name, "letters": [_row(letter) for letter in letters]})
    elif letters:
        cells = [[place_text(letter_place(declared, x)), x.whole_bytes, _short(x)] for x in letters]
        typer.echo(table(["PLACE", "BYTES", "REASON"], cells))
    else:
        note(f"job {declared.name!r} has no dead letters")


@app.command("show", epilog="Example: holon dlq show examples.query1:job 0:1234 > record")
@with_log_options
def show(
    given: GivenOptions,
    job: JobArgument,
    place: Annotated[str, typer.Argument(metavar="[TOPIC:]PARTITION:OFFSET", help="Its place in the input.")],
    as_json: JsonOption = False,
) -> None:
    """Print the raw bytes of one letter; why it is one goes to standard error."""
    settings = given.settings()
    declared = job_named(job, settings)
    from nodes.results.dead_letters import found, place_of, whole_payload
    from nodes.runtime.log_opening import open_settings_log

    with open_settings_log(settings) as log:
        (letter,) = found(log, declared, [place_of(place)])
        payload = whole_payload(log, declared, letter)
    if as_json:
        emit_json({**_row(letter), "payload": {"base64": payload}})
        return
    note(letter.reason)
    with byte_stdout() as out:
        out.write(payload)


@app.command("replay", epilog="Example: holon dlq replay examples.query1:job 0:1234")
@with_log_options
def replay_letters(
    given: GivenOptions,
    job: JobArgument,
    places: Places = None,
    all_of_them: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Append letters to the job's input again, as they were, for when the job's code has been mended."""
    if bool(places) == all_of_them:
        fail(2, "name the letters as PARTITION:OFFSET (of several topics, TOPIC:PARTITION:OFFSET), or give --all")
    settings = given.settings()
    declared = job_named(job, settings)
    from nodes.results.dead_letters import dead_letters, found, place_of, replay
    from nodes.runtime.log_opening import open_settings_log

    with open_settings_log(settings) as log:
        wanted = [place_of(text) for text in places or ()]
        known = list(dead_letters(log, declared)) if all_of_them else found(log, declared, wanted)
        letters = [letter for letter in known if not (all_of_them and letter.is_row)]
        rows = len(known) - len(letters)
        counts = replay(log, declared, letters)
    if as_json:
        several = len(declared.topics) > 1
        appended = {f"{at.topic}:{at.partition}" if several else at.partition: count for at, count in counts.items()}
        topic = None if several else declared.topics[0]
        emit_json({"job": declared.name, "topic": topic, "appended": appended, "rows_left": rows})
    else:
        to = sorted({place.topic for place in counts}) or declared.topics
        note(f"{sum(counts.values())} records appended to {', '.join(to)}")
        if rows:
            note(f"{rows} letters are about rows of answered windows, which are no records: run the job again for them")


def _row(letter: Diverted) -> dict[str, Any]:
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "bytes": letter.whole_bytes,
        "reason": letter.reason,
        "key": None if letter.key is None else _text(letter.key),
        "headers": {name: _text(value) for name, value in letter.headers.items()},
        "tombstone": letter.null,
        "window": letter.window,
        "step": letter.step,
        "row_key": letter.row_key,
        "number": letter.number if letter.is_row else None,
    }


def _short(letter: Diverted) -> str:
    reason = letter.reason.splitlines()[0]
    return (f"{letter.step}, key {letter.row_key!r}: {reason}" if letter.step else reason)[:100]


def _text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")
