"""The view of results in Redis: as the one in memory, whoever writes it, and whatever dies on the way."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holon.outputs.identity import OutputId, Track
from nodes.cli import main
from nodes.errors import RunFailed
from nodes.log import EmbeddedLog, Log
from nodes.redis_connection import RedisServer, RedisUnavailable
from nodes.results.reader import OutputReader
from nodes.results.redis_follower import ViewFollower
from nodes.results.redis_view import RedisView
from nodes.results.view import ViewResult, WindowResults, WindowTable, result_of
from tests.integration.fleet_support import Command
from tests.integration.log_makers import MAKERS
from tests.integration.processes import until
from tests.integration.store_servers import PLAIN_REDIS, RedisProcess
from tests.unit.nodes.results.test_view import RESULTS

TOPIC = "totals"
PARTITIONS = 3
KEEP = 50


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisProcess]:
    """One that may be killed."""
    server = RedisProcess(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "log") as log:
        log.create_topic(TOPIC, PARTITIONS)
        yield log


def view_in(server: RedisProcess, prefix: str = "holon") -> RedisView:
    return RedisView(RedisServer(f"{server.url}?prefix={prefix}", PLAIN_REDIS), TOPIC)


def append(log: Log, ends: range, incarnation: int = 0) -> None:
    """Windows with two results from each partition, one with a key; every third window is on the log twice."""
    for end in ends:
        for partition in range(PARTITIONS):
            for _ in range(2 if end % 3 == 0 else 1):
                identities = [OutputId("job", incarnation, partition, Track.WINDOW, end * 100, n) for n in range(2)]
                log.append(
                    TOPIC,
                    partition,
                    [b'{"window":%d,"n":%d}' % (end, n) for n in range(2)],
                    headers=[identity.to_bytes() for identity in identities],
                    keys=[None, b"item %d" % partition],
                )


def expected(log: Log, keep: int = KEEP) -> list[WindowResults]:
    table = WindowTable(keep)
    for output in OutputReader(log, TOPIC).read_available():
        if (result := result_of(output)) is not None:
            table.add(result)
    return table.newest(keep)


def catch_up(follower: ViewFollower) -> None:
    while follower.turn():
        pass


# --- what it holds -------------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(RESULTS, max_size=40), st.integers(1, 5), st.integers(1, 7), st.randoms(use_true_random=False))
def test_it_holds_what_the_view_in_memory_holds(
    redis_server: RedisProcess, rows: list[ViewResult], keep: int, size: int, rng: object
) -> None:
    view, table, token = view_in(redis_server, uuid.uuid4().hex), WindowTable(keep), ""
    for row in rows:
        table.add(row)
    shuffled = rows + rows[::2]
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    for start in range(0, len(shuffled), size):
        token = view.write(shuffled[start : start + size], {}, token, keep) or ""
        assert token
    assert view.newest(99) == table.newest(99)


def test_a_window_that_was_dropped_does_not_come_back_in_part_when_more_are_kept(redis_server: RedisProcess) -> None:
    view = view_in(redis_server, uuid.uuid4().hex)
    rows = [ViewResult("j", 0, end, field, 0, 0, b"x") for end in (100, 200) for field in (b"a", b"b")]
    token = view.write(rows, {}, "", keep_windows=1)
    assert token
    assert view.write(rows[:1], {}, token, keep_windows=9)
    assert [window.end_ms for window in view.newest(9)] == [200]


@pytest.mark.parametrize("kind", ["embedded", "kafka"])
def test_a_topic_with_repeats_is_followed_and_gone_on_with(
    tmp_path: Path, redis_server: RedisProcess, kind: str
) -> None:
    view = view_in(redis_server, uuid.uuid4().hex)
    with MAKERS[kind].make(tmp_path / "log", None) as log:
        log.create_topic(TOPIC, PARTITIONS)
        append(log, range(20))
        catch_up(ViewFollower(log, TOPIC, view, KEEP))
        assert view.newest(KEEP) == expected(log) and len(view.newest(KEEP)) == 20
        append(log, range(20, 80))
        append(log, range(5))  # a zombie says it again
        later = ViewFollower(log, TOPIC, view, KEEP)
        catch_up(later)
        assert view.newest(KEEP) == expected(log) and len(view.newest(99)) == KEEP
        assert later.written == 60 * 2 * PARTITIONS, "it began where the first one stopped"
        append(log, range(3), incarnation=1)
        catch_up(later)
        assert [window.end_ms for window in view.newest(99)] == [0, 100, 200]


def test_any_client_finds_a_result_by_window_end_and_key(log: Log, redis_server: RedisProcess) -> None:
    prefix = uuid.uuid4().hex
    append(log, range(4))
    catch_up(ViewFollower(log, TOPIC, view_in(redis_server, prefix), KEEP))
    client, base = redis_server.client(), f"{prefix}:view:{{{TOPIC}}}"
    assert client.zrevrange(f"{base}:windows:job", 0, 0) == [b"300"]
    assert client.hget(f"{base}:window:job:300", "item 2") == b'{"window":3,"n":1}'
    assert client.hget(f"{base}:window:job:300", "#0.0") == b'{"window":3,"n":0}'
    assert client.hgetall(f"{base}:jobs") == {b"job": b"0"}


def test_two_followers_at_once_do_no_harm(log: Log, redis_server: RedisProcess) -> None:
    view = view_in(redis_server, uuid.uuid4().hex)
    followers = [ViewFollower(log, TOPIC, view, KEEP) for _ in range(2)]
    for start in range(0, 60, 10):
        append(log, range(start, start + 10))
        for follower in followers:
            follower.turn()
    for follower in followers:
        catch_up(follower)
    assert view.newest(KEEP) == expected(log)


# --- what dies -----------------------------------------------------------------------------------------------------


def test_an_answer_that_is_lost_is_no_loss(
    log: Log, redis_server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = view_in(redis_server, uuid.uuid4().hex)
    follower = ViewFollower(log, TOPIC, view, KEEP)
    append(log, range(10))
    really = view.write

    def write_and_lose(*arguments: object) -> str | None:
        really(*arguments)  # type: ignore[arg-type]
        raise RedisUnavailable("the answer is lost")

    monkeypatch.setattr(view, "write", write_and_lose)
    with pytest.raises(RedisUnavailable):
        follower.turn()
    monkeypatch.undo()
    append(log, range(10, 20))
    catch_up(follower)
    assert view.newest(KEEP) == expected(log)


@pytest.mark.parametrize("data", ["kept", "lost"])
def test_redis_is_killed_while_it_is_written_and_comes_back(log: Log, own_redis: RedisProcess, data: str) -> None:
    view = view_in(own_redis)
    follower = ViewFollower(log, TOPIC, view, KEEP)
    append(log, range(30))
    catch_up(follower)
    written = follower.written
    own_redis.kill()
    append(log, range(30, 40))
    with pytest.raises(RedisUnavailable, match="check that it runs"):
        follower.turn()
    if data == "lost":
        for file in sorted(own_redis.folder.rglob("appendonly*/*")):
            file.unlink()
    own_redis.start()
    catch_up(follower)
    assert view.newest(KEEP) == expected(log)
    again = follower.written - written
    assert again == (40 if data == "lost" else 10) * 2 * PARTITIONS


@pytest.mark.parametrize("arriving", [0, 10], ids=["nothing new", "more"])
def test_a_redis_that_lost_everything_unnoticed_is_filled_again(
    log: Log, own_redis: RedisProcess, arriving: int
) -> None:
    view = view_in(own_redis)
    follower = ViewFollower(log, TOPIC, view, KEEP)
    append(log, range(30))
    catch_up(follower)
    own_redis.client().flushall()
    append(log, range(30, 30 + arriving))
    catch_up(follower)
    assert view.newest(KEEP) == expected(log) and follower.written == (60 + arriving) * 2 * PARTITIONS


@pytest.mark.long
def test_a_follower_that_is_killed_at_any_time_is_simply_started_again(
    log: Log, tmp_path: Path, own_redis: RedisProcess
) -> None:
    arguments = ["view", TOPIC, "--serve", "--redis", own_redis.url, "--log-dir", str(tmp_path / "log")]
    view = view_in(own_redis)
    append(log, range(10))
    for upto in (20, 30):
        with Command(*arguments) as command:
            until(lambda: view.newest(KEEP) == expected(log), "the view holds everything")
            append(log, range(upto - 10, upto))
            command.signal(signal.SIGKILL)
    with Command(*arguments, "--json") as command:
        until(lambda: view.newest(KEEP) == expected(log), "the view holds everything")
        own_redis.kill()
        command.says("the view waits")
        append(log, range(30, 40))
        own_redis.start()
        until(lambda: view.newest(KEEP) == expected(log), "the view holds everything")
        command.signal(signal.SIGTERM)
        assert command.json()["skipped"] == 0


def test_a_view_that_lacks_what_retention_has_deleted_says_so_and_can_be_built_anew(
    log: Log, redis_server: RedisProcess
) -> None:
    view = view_in(redis_server, uuid.uuid4().hex)
    append(log, range(5))
    catch_up(ViewFollower(log, TOPIC, view, KEEP))
    append(log, range(5, 20))
    log.delete_before(TOPIC, 1, 30)
    with pytest.raises(RunFailed, match=r"totals.*no longer|totals.*--serve --rebuild"):
        catch_up(ViewFollower(log, TOPIC, view, KEEP))
    view.clear()
    assert view.newest(9) == []
    catch_up(ViewFollower(log, TOPIC, view, KEEP))
    assert view.newest(KEEP) == expected(log)


# --- holon view ----------------------------------------------------------------------------------------------------


def test_the_command_shows_the_same_windows_from_the_log_and_from_redis(
    log: Log, tmp_path: Path, redis_server: RedisProcess
) -> None:
    url = f"{redis_server.url}?prefix={uuid.uuid4().hex}"
    append(log, range(12))
    catch_up(ViewFollower(log, TOPIC, RedisView(RedisServer(url, PLAIN_REDIS), TOPIC), KEEP))
    at = ["--log-dir", str(tmp_path / "log")]
    with Command("view", TOPIC, "--last", "2", "--json", *at) as command:
        from_log = command.json()
    patient = ("-D", "redis.timeout_ms=60000")
    with Command("view", TOPIC, "--last", "2", "--json", "--redis", url, *patient) as command:
        from_redis = command.json()
    assert from_log["windows"] == from_redis["windows"]
    assert (from_log["source"], from_redis["source"]) == ("log", redis_server.url)
    assert [window["end_ms"] for window in from_log["windows"]] == [1000, 1100]
    assert from_log["windows"][1]["results"][0] == {"key": "#0.0", "value": {"window": 11, "n": 0}}
    with Command("view", TOPIC, "--follow", *at) as command:
        first = [command.process.stdout.readline() for _ in range(2 * PARTITIONS)]  # type: ignore[union-attr]
        assert first[0] == '1970-01-01 00:00:01.100\t#0.0\t{"window":11,"n":0}\n'
        append(log, range(12, 13))
        assert json.loads(command.process.stdout.readline().split("\t")[2])["window"] == 12  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--redis", "redis://127.0.0.1:9"], 4, "check that it runs"),
        (["--redis", "http://127.0.0.1:9"], 2, "a Redis URL is"),
        (["--redis", "redis://127.0.0.1:port"], 2, "numbers"),
        (["--serve"], 2, "view.redis"),
        (["--rebuild"], 2, "--rebuild belongs to --serve"),
    ],
)
def test_what_cannot_be_shown_is_said(
    arguments: list[str], code: int, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["view", TOPIC, *arguments]) == code
    assert words in capfd.readouterr().err
