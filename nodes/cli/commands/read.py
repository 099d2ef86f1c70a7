"""`holon read`: the outputs of a job behind the reader that drops duplicates."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodes.cli.options import GivenOptions, JsonOption, new_command, with_log_options
from nodes.cli.output import byte_stdout, emit_json, fail, note, printable

if TYPE_CHECKING:
    from nodes.results.reader import Output, OutputReader

app = new_command()


@app.command(epilog="Example: holon read q7-output --log-dir ./holon-log --follow")
@with_log_options
def read(
    given: GivenOptions,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="An output topic.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what arrives.")] = False,
    from_start: Annotated[bool, typer.Option("--from-start", help="With --follow: begin at the start.")] = False,
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="Stop after so many outputs.")] = None,
    with_id: Annotated[bool, typer.Option("--with-id", help="Begin each line with the output's identity.")] = False,
    unidentified: Annotated[
        bool, typer.Option("--unidentified", help="Print records without an identity too; else they are an error.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print each output of a topic once, a payload a line: duplicates and outputs of older incarnations are left out.

    Without --follow: what is there now. With it: what arrives from now on. The counts go to standard error.
    An identity is job/incarnation/partition/track/position/n, followed by a tab.
    """
    if follow and as_json and count is None:
        fail(2, "one line of JSON needs an end: add -n COUNT, or leave --follow or --json out")
    settings = given.settings()
    from nodes.results.reader import OutputReader
    from nodes.runtime.log_opening import open_settings_log

    with open_settings_log(settings) as log:
        reader = OutputReader(log, topic, without_identity="pass" if unidentified else "refuse")
        outputs = islice(_outputs(reader, follow, from_start), count)
        if as_json:
            values = [_shown(output, with_id) for output in outputs]
            emit_json(_summary(topic, reader, len(values)) | {"values": values})
            return
        handed_out = 0
        try:
            with byte_stdout() as out:
                for output in outputs:
                    out.write(_line(output, with_id))
                    handed_out += 1
                    if follow:
                        out.flush()
        finally:
            summary = _summary(topic, reader, handed_out)
            note(
                f"{summary['records']} outputs, {summary['repeats_dropped']} duplicates and "
                f"{summary['stale_dropped']} of older incarnations dropped"
            )


def _outputs(reader: OutputReader[bytes], follow: bool, from_start: bool) -> Iterator[Output[bytes]]:
    if not follow:
        return reader.read_available()
    if not from_start:
        reader.skip_available()
    return reader.follow()


def _summary(topic: str, reader: OutputReader[bytes], records: int) -> dict[str, Any]:
    return {
        "topic": topic,
        "records": records,
        "repeats_dropped": reader.repeats_dropped,
        "stale_dropped": reader.stale_dropped,
    }


def _line(output: Output[bytes], with_id: bool) -> bytes:
    from nodes.cli.payloads import identity_text

    payload = printable(output.value) + b"\n"
    if not with_id:
        return payload
    return (identity_text(output.identity) if output.identity else "-").encode() + b"\t" + payload


def _shown(output: Output[bytes], with_id: bool) -> Any:
    from nodes.cli.payloads import identity_text, json_value

    value = json_value(output.value)
    if not with_id:
        return value
    return {"id": identity_text(output.identity) if output.identity else None, "value": value}
