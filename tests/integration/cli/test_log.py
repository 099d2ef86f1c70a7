"""`holon log` and `holon read` on a real embedded log, in processes of their own where it matters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holon.outputs.identity import OutputId, Track
from holon.outputs.partitioner import murmur2
from nodes.cli.main import run
from nodes.log import EmbeddedLog

ROOT = Path(__file__).parents[3]
WAIT_S = 120


@pytest.fixture
def log_dir(tmp_path: Path, empty_folder: None) -> Path:
    return tmp_path / "log"


def holon(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "nodes.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, timeout=WAIT_S, check=False)


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A command that goes on; it is killed in the end."""
    command = [sys.executable, "-m", "nodes.cli", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def values(log_dir: Path, topic: str, partition: int) -> list[bytes]:
    with EmbeddedLog(log_dir) as log:
        return log.read(topic, partition, 0).values


def write_outputs(log_dir: Path, *rows: tuple[int, str], incarnation: int = 0, topic: str = "out") -> None:
    with EmbeddedLog(log_dir) as log:
        log.create_topic(topic, 1)
        ids = [OutputId("job", incarnation, 0, Track.WINDOW, position, 0).to_bytes() for position, _ in rows]
        log.append(topic, 0, [text.encode() for _, text in rows], headers=ids)


def test_lines_of_a_file_go_round_the_partitions(log_dir: Path, capfd, tmp_path: Path):
    file = tmp_path / "lines"
    file.write_bytes(b"a\nb\n\nd \xff\r\ne")
    assert run(["log", "append", str(file), "--topic", "t", "--create", "--partitions", "2", "--log-dir", str(log_dir),
                "--json"]) == 0  # fmt: skip
    assert json.loads(capfd.readouterr().out) == {"topic": "t", "appended": 5, "partitions": [3, 2]}
    assert values(log_dir, "t", 0) == [b"a", b"", b"e"]
    assert values(log_dir, "t", 1) == [b"b", b"d \xff\r"]


def test_lines_come_from_standard_input(log_dir: Path):
    done = holon("log", "append", "-", "--topic", "t", "--create", "--log-dir", log_dir, stdin=b"1\n2\n")
    assert (done.returncode, done.stdout) == (0, b"")
    assert values(log_dir, "t", 0) == [b"1", b"2"]


def test_lines_of_a_slow_pipe_arrive_before_it_is_closed(log_dir: Path):
    with EmbeddedLog(log_dir) as log:
        log.create_topic("t", 1)
        with started("log", "append", "-", "--topic", "t", "--log-dir", log_dir) as process:
            assert process.stdin is not None
            process.stdin.write(b"first\nhalf a li")
            process.stdin.flush()
            assert log.wait({("t", 0): 0}, WAIT_S)
            assert log.read("t", 0, 0).values == [b"first"]
            process.stdin.write(b"ne\n")
            process.stdin.close()
            assert process.wait(WAIT_S) == 0
            assert log.read("t", 0, 1).values == [b"half a line"]


def test_keys_choose_the_partition_as_in_kafka(log_dir: Path, tmp_path: Path):
    file = tmp_path / "lines"
    keys = [b"key%d" % n for n in range(20)]
    file.write_bytes(b"".join(key + b"\tpayload of " + key + b"\n" for key in keys))
    assert run(["log", "append", str(file), "--topic", "t", "--create", "--partitions", "3", "--partition", "key",
                "--log-dir", str(log_dir)]) == 0  # fmt: skip
    with EmbeddedLog(log_dir) as log:
        for partition in range(3):
            chunk = log.read("t", partition, 0)
            expected = [key for key in keys if (murmur2(key) & 0x7FFFFFFF) % 3 == partition]
            assert expected and chunk.keys == expected
            assert chunk.values == [b"payload of " + key for key in expected]


def test_a_line_without_its_key_is_named(log_dir: Path, capfd, tmp_path: Path):
    file = tmp_path / "lines"
    file.write_bytes(b"k\tv\nkeyless\n")
    assert run(["log", "append", str(file), "--topic", "t", "--create", "--partition", "key", "--log-dir",
                str(log_dir)]) == 2  # fmt: skip
    assert "line 2 has no key" in capfd.readouterr().err


def test_a_fixed_partition_takes_all_lines(log_dir: Path, tmp_path: Path):
    file = tmp_path / "lines"
    file.write_bytes(b"1\n2\n3\n")
    arguments = ["log", "append", str(file), "--topic", "t", "--log-dir", str(log_dir)]
    assert run([*arguments, "--create", "--partitions", "3", "--partition", "1"]) == 0
    assert values(log_dir, "t", 1) == [b"1", b"2", b"3"]
    assert run([*arguments, "--create"]) == 0  # an existing topic keeps its partitions
    assert [len(values(log_dir, "t", partition)) for partition in range(3)] == [1, 4, 1]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "text"),
    [
        (["log", "append", "lines", "--topic", "bidz"], 2, "nearest: bids"),
        (["log", "append", "lines", "--topic", "bids", "--create", "--partitions", "3"], 2, "bids"),
        (["log", "append", "lines", "--topic", "bids", "--partitions", "3"], 2, "--create"),
        (["log", "append", "lines", "--topic", "bids", "--partition", "2"], 2, "0 to 1"),
        (["log", "append", "lines", "--topic", "bids", "--partition", "-1"], 2, "round-robin"),
        (["log", "append", "nowhere", "--topic", "bids"], 2, "cannot read nowhere"),
        (["log", "append", ".", "--topic", "bids"], 2, "cannot read ."),
        (["log", "tail", "bidz"], 2, "nearest: bids"),
        (["log", "tail", "bids", "-p", "2"], 2, "0 to 1"),
        (["log", "tail", "bids", "--follow", "--json"], 2, "--json"),
        (["read", "bidz"], 2, "nearest: bids"),
        (["read", "bids", "--follow", "--json"], 2, "-n COUNT"),
        (["read", "bids"], 1, "bids[0] offset 0"),
        (["log", "ls", "--log-dir", "elsewhere"], 4, "elsewhere"),
        (["read", "bids", "--log-dir", "elsewhere"], 4, "elsewhere"),
        (["log", "ls", "-D", "log.kind=memory"], 2, "memory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_done_is_said_with_its_exit_code(log_dir, capfd, tmp_path, arguments, exit_code, text):
    (tmp_path / "lines").write_bytes(b"1\n")
    with EmbeddedLog(tmp_path / "holon-log") as log:
        log.create_topic("bids", 2)
        log.append("bids", 0, [b"no output"])
    assert run(arguments) == exit_code
    out, err = capfd.readouterr()
    assert text in err and "Traceback" not in err
    assert out == "" or "--json" in arguments


def test_a_missing_log_is_not_created_by_looking(log_dir: Path):
    assert run(["log", "ls", "--log-dir", str(log_dir)]) == 4
    assert not log_dir.exists()


def test_ls_shows_offsets_and_sizes(log_dir: Path, capfd):
    with EmbeddedLog(log_dir) as log:
        log.create_topic("t", 2)
        log.append("t", 1, [b"x" * 1000] * 3)
        log.append("t", 1, [b"x" * 1000] * 3)
        log.delete_before("t", 1, 3)
    assert run(["log", "ls", "--log-dir", str(log_dir), "--json"]) == 0
    first, second = json.loads(capfd.readouterr().out)["partitions"]
    assert (first["topic"], first["partition"], first["start_offset"], first["end_offset"]) == ("t", 0, 0, 0)
    assert (second["start_offset"], second["end_offset"]) == (3, 6)
    assert second["bytes"] > 3000
    assert run(["log", "ls", "--log-dir", str(log_dir)]) == 0
    assert [line.split()[:4] for line in capfd.readouterr().out.splitlines()[1:]] == [
        ["t", "0", "0", "0"],
        ["t", "1", "3", "6"],
    ]


def test_ls_hides_the_topics_that_jobs_keep_for_themselves_unless_asked(log_dir: Path, capfd):
    own = ["_holon.j.control", "_holon.j.0.broadcast"]
    own += [
        f"bank-txn-{name}" for name in ("epochs", "calls", "commits", "control", "control-checkpoints", "heartbeats")
    ]
    public = ["bank-txn-replies", "bank-txn-requests", "in", "j.dead", "other-txn-calls"]
    with EmbeddedLog(log_dir) as log:
        for topic in (*own, *public):
            log.create_topic(topic, 1)
    assert run(["log", "ls", "--log-dir", str(log_dir), "--json"]) == 0
    listed = json.loads(capfd.readouterr().out)
    assert [row["topic"] for row in listed["partitions"]] == public and listed["internal_hidden"] == len(own)
    assert run(["log", "ls", "--log-dir", str(log_dir), "--all", "--json"]) == 0
    listed = json.loads(capfd.readouterr().out)
    assert [row["topic"] for row in listed["partitions"]] == sorted((*own, *public)) and not listed["internal_hidden"]
    assert run(["log", "ls", "--log-dir", str(log_dir)]) == 0
    out, err = capfd.readouterr()
    assert "_holon" not in out and f"{len(own)} internal topics of jobs are not shown; --all shows them" in err


def test_tail_shows_the_last_records_of_each_partition(log_dir: Path, capfd):
    with EmbeddedLog(log_dir) as log:
        log.create_topic("t", 2)
        log.append("t", 0, [b"0", b"1", b"2"], keys=[None, b"k", None])
        log.append("t", 1, [b'{"n": 3}'])
    assert run(["log", "tail", "t", "-n", "2", "--log-dir", str(log_dir)]) == 0
    rows = [line.split("\t") for line in capfd.readouterr().out.splitlines()]
    assert [(row[0], row[1], row[3], row[4]) for row in rows] == [
        ("0", "1", "k", "1"),
        ("0", "2", "-", "2"),
        ("1", "0", "-", '{"n": 3}'),
    ]
    assert run(["log", "tail", "t", "-p", "1", "--log-dir", str(log_dir), "--json"]) == 0
    (record,) = json.loads(capfd.readouterr().out)["records"]
    assert (record["partition"], record["offset"], record["value"]) == (1, 0, {"n": 3})


def test_tail_follows(log_dir: Path):
    with EmbeddedLog(log_dir) as log:
        log.create_topic("t", 1)
        log.append("t", 0, [b"0", b"1"])
        with started("log", "tail", "t", "-n", "1", "--follow", "--log-dir", log_dir) as process:
            assert process.stdout is not None
            assert process.stdout.readline().endswith(b"\t1\n")
            log.append("t", 0, [b"2"])
            assert process.stdout.readline().endswith(b"\t2\n")
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_S) == 130


def test_read_prints_each_output_once(log_dir: Path, capfd):
    write_outputs(log_dir, (1, "a"), (2, "b"), (1, "a"), (3, "c"))
    assert run(["read", "out", "--log-dir", str(log_dir)]) == 0
    out, err = capfd.readouterr()
    assert out == "a\nb\nc\n"
    assert "3 outputs, 1 duplicates" in err
    assert run(["read", "out", "--log-dir", str(log_dir), "--with-id", "-n", "1"]) == 0
    assert capfd.readouterr().out == "job/0/0/window/1/0\ta\n"


def test_read_gives_one_line_of_json(log_dir: Path, capfd):
    write_outputs(log_dir, (1, "old"))
    write_outputs(log_dir, (1, '{"price":\n 1.10}'), (2, "text"), (1, "again"), incarnation=1)
    assert run(["read", "out", "--log-dir", str(log_dir), "--json"]) == 0
    assert capfd.readouterr().out == (
        '{"topic":"out","records":2,"repeats_dropped":1,"stale_dropped":1,"values":[{"price":1.10},"text"]}\n'
    )


def test_read_follows_from_the_end_or_from_the_start(log_dir: Path):
    write_outputs(log_dir, (1, "a"))
    with (
        started("read", "out", "--follow", "--log-dir", log_dir) as from_end,
        started("read", "out", "--follow", "--from-start", "-n", "2", "--log-dir", log_dir) as from_start,
    ):
        assert from_end.stdout is not None and from_start.stdout is not None
        assert from_start.stdout.readline() == b"a\n"
        # How far the other has skipped cannot be seen: write news until it shows one.
        position = 1
        while not _has_line(from_end):
            position += 1
            write_outputs(log_dir, (1, "a"), (position, f"news {position}"))
        assert from_end.stdout.readline().startswith(b"news ")
        assert from_start.stdout.readline() == b"news 2\n"
        assert from_start.wait(WAIT_S) == 0
        from_end.send_signal(signal.SIGINT)
        assert from_end.wait(WAIT_S) == 130
        assert from_end.stderr is not None and b"duplicates" in from_end.stderr.read()


def _has_line(process: subprocess.Popen[bytes]) -> bool:
    import select

    return bool(select.select([process.stdout], [], [], 0.05)[0])


def test_a_reader_of_the_pipe_may_stop_early(log_dir: Path):
    with EmbeddedLog(log_dir) as log:
        log.create_topic("t", 1)
        log.append("t", 0, [b"x" * 1000] * 5000)
    with started("read", "t", "--unidentified", "--log-dir", log_dir) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"x" * 1000 + b"\n"
        process.stdout.close()
        assert process.wait(WAIT_S) == 0
        assert b"Broken" not in process.stderr.read()


def test_on_a_terminal_records_cannot_send_control_characters(log_dir: Path):
    write_outputs(log_dir, (1, "\x1b]0;title\x07caf\u00e9"))
    command = [sys.executable, "-m", "nodes.cli", "read", "out", "--log-dir", str(log_dir)]
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        subprocess.run(command, cwd=ROOT, stdout=theirs, stderr=subprocess.PIPE, timeout=WAIT_S, check=True)
        os.close(theirs)
        shown = b""
        while not shown.endswith(b"\n"):  # a terminal gives what has come so far
            shown += terminal.read(100)
        assert shown.decode() == "\\x1b]0;title\\x07caf\u00e9\r\n"


def test_json_of_real_processes_is_one_line_and_exit_codes_arrive(log_dir: Path):
    write_outputs(log_dir, (1, "a"))
    done = holon("read", "out", "--log-dir", log_dir, "--json", "--log-level", "debug")
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["values"] == ["a"]
    done = holon("read", "outt", "--log-dir", log_dir, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["exit_code"] == 2
