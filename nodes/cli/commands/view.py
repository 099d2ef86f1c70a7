"""`holon view`: the results of the newest completed windows, from the log or from Redis."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from nodes.cli.options import GivenOptions, JsonOption, new_command, with_log_options
from nodes.cli.output import byte_stdout, emit_json, fail, note, printable
from nodes.cli.stopping import StopRequests

if TYPE_CHECKING:
    from nodes.results.redis_view import RedisView
    from nodes.results.view import WindowResults
    from nodes.settings.settings import Settings

app = new_command()

POLL_INTERVAL_S = 0.2
RedisOption = Annotated[
    str | None, typer.Option("--redis", metavar="URL", help="Redis that keeps the view (default: view.redis).")
]


class ViewSource(Protocol):
    """The states that keep windows."""

    def newest(self, count: int) -> list[WindowResults]:
        """The newest windows of each job, oldest first."""
        ...


@app.command(epilog="Example: holon view q7-output --last 3 --redis redis://127.0.0.1:6379/0")
@with_log_options
def view(
    given: GivenOptions,
    target: Annotated[str, typer.Argument(metavar="TOPIC|MODULE:JOB", help="An output topic, or a job.")],
    output: Annotated[str | None, typer.Option("--output", help="Which output of MODULE:JOB, if several.")] = None,
    last: Annotated[int, typer.Option("--last", min=1, help="How many windows.")] = 1,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with windows that complete.")] = False,
    serve: Annotated[bool, typer.Option("--serve", help="Keep the view in Redis up to date, until Ctrl-C.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="With --serve: build the view anew first.")] = False,
    redis: RedisOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the results of the newest completed windows, a result a line: window end, key, payload.

    Without a Redis they are read from the topic itself. A result without a key is shown as #PARTITION.N.
    """
    if follow and as_json:
        fail(2, "one line of JSON needs an end: leave --follow or --json out")
    if rebuild and not serve:
        fail(2, "--rebuild belongs to --serve, which writes the view")
    settings = given.settings(*([f"view.redis={redis}"] if redis is not None else []))
    topic = _topic(target, output, settings)
    kept = _redis_view(settings, topic)
    if serve:
        if kept is None:
            fail(2, "--serve needs a Redis: --redis URL, or the setting view.redis")
        _serve(kept, topic, settings, rebuild, as_json)
    elif kept is not None:
        _show(kept, topic, kept.where, last, follow, as_json, lambda: time.sleep(POLL_INTERVAL_S))
    else:
        _show_log(topic, settings, last, follow, as_json)


def _topic(target: str, output: str | None, settings: Settings) -> str:
    if ":" not in target:
        if output is not None:
            fail(2, "--output belongs to MODULE:JOB; a topic is named by itself")
        return target
    from holon.job import DEAD, LATE, UNSTABLE
    from nodes.cli.job_options import job_named
    from nodes.errors import UnknownName

    outputs = job_named(target, settings).outputs
    if output is not None and output not in outputs:
        raise UnknownName(f"output of {target}", output, outputs)
    results = [name for name in outputs if name not in (LATE, DEAD, UNSTABLE)]
    if output is None and len(results) != 1:
        fail(2, f"{target} has the outputs {', '.join(results)}: choose one with --output")
    return outputs[output or results[0]].topic


def _redis_view(settings: Settings, topic: str) -> RedisView | None:
    if settings.view.redis is None:
        return None
    from nodes.redis_connection import RedisServer
    from nodes.results.redis_view import RedisView

    return RedisView(RedisServer(settings.view.redis.get_secret_value(), settings.redis), topic)


def _serve(kept: RedisView, topic: str, settings: Settings, rebuild: bool, as_json: bool) -> None:
    from nodes.results.redis_follower import ViewFollower
    from nodes.runtime.log_opening import open_settings_log

    with StopRequests() as requests, open_settings_log(settings) as log:
        log.partitions(topic)
        if rebuild:
            kept.clear()
        kept.mark()  # a Redis that is not there is better known at once; later it is waited for
        note(f"the view of {topic} is kept in {kept.where}; Ctrl-C ends it, and it may go on at any time")
        follower = ViewFollower(log, topic, kept, settings.view.keep_windows)
        follower.run(requests.event.is_set, requests.event.wait)
    if as_json:
        emit_json({"topic": topic, "written": follower.written, "skipped": follower.skipped})
    else:
        note(f"{follower.written} results written; {follower.skipped} outputs that belong to no window left out")
    requests.end_if_interrupted()


def _show_log(topic: str, settings: Settings, last: int, follow: bool, as_json: bool) -> None:
    from nodes.log.contract import TopicPartition
    from nodes.results.reader import OutputReader
    from nodes.results.view import WindowTable, result_of
    from nodes.runtime.log_opening import open_settings_log

    with open_settings_log(settings) as log:
        reader = OutputReader(log, topic, without_identity="pass")
        table = WindowTable(last)

        def read() -> None:
            for output in reader.read_available():
                result = result_of(output)
                if result is not None:
                    table.add(result)

        def wait() -> None:
            offsets = enumerate(reader.position()["offsets"])
            log.wait({TopicPartition(topic, partition): offset for partition, offset in offsets}, POLL_INTERVAL_S)
            read()

        read()
        _show(table, topic, "log", last, follow, as_json, wait)


def _show(
    source: ViewSource, topic: str, where: str, last: int, follow: bool, as_json: bool, wait: Callable[[], object]
) -> None:
    windows = source.newest(last)
    if as_json:
        emit_json({"topic": topic, "source": where, "windows": [_shown(window) for window in windows]})
        return
    if not windows and not follow:
        note(f"no completed window of {topic} in {where}")
    with byte_stdout() as out:
        seen: dict[tuple[str, int, int], dict[bytes, bytes]] = {}
        while True:
            fresh = {window[:3]: window.results for window in windows}
            for window in windows:
                old = seen.get(window[:3], {})
                for field, value in window.results.items():
                    if old.get(field) != value:
                        out.write(b"%b\t%b\t%b\n" % (_end(window).encode(), printable(field), printable(value)))
            if not follow:
                return
            out.flush()
            seen = fresh
            wait()
            windows = source.newest(last)


def _end(window: WindowResults) -> str:
    from nodes.time_texts import event_time

    return event_time(window.end_ms)


def _shown(window: WindowResults) -> dict[str, Any]:
    from nodes.cli.payloads import json_value, text_value

    results = [{"key": text_value(field), "value": json_value(value)} for field, value in window.results.items()]
    return {"job": window.job, "incarnation": window.incarnation, "end_ms": window.end_ms, "results": results}
