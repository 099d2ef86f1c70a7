"""The output reader: each output once, whatever nodes and zombies wrote, and wherever it was stopped."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.outputs.identity import IdentityError, OutputId, Track
from nodes.log import EmbeddedLog, Log, MemoryLog, OffsetOutOfRange, UnknownTopic
from nodes.results.reader import OutputReader, PositionError
from tests.integration.kafka_broker import session_log

TOPIC = "out"


LOGS: dict[str, Callable[[Path], Log]] = {
    "memory": lambda folder: MemoryLog(),
    "embedded": lambda folder: EmbeddedLog(folder / "log", fsync="none"),
    "kafka": session_log,
}


@pytest.fixture(params=LOGS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with LOGS[request.param](tmp_path) as log:
        log.create_topic(TOPIC, 2)
        yield log


def put(log: Log, *rows: tuple[int, int, str], partition: int = 0, incarnation: int = 0, job: str = "job") -> None:
    """Append rows (position, n, payload), as the partition's owner does on its record track."""
    ids = [OutputId(job, incarnation, partition, Track.RECORD, position, n) for position, n, _ in rows]
    log.append(TOPIC, partition, [text.encode() for *_, text in rows], headers=[i.to_bytes() for i in ids])


def payloads(outputs) -> list[str]:
    return [output.value.decode() for output in outputs]


def test_each_output_is_handed_out_once_with_its_place_and_identity(log: Log):
    put(log, (3, 0, "a"), (3, 1, "b"))
    put(log, (0, 0, "c"), partition=1)
    a, b, c = OutputReader(log, TOPIC).read_available()
    assert (a.partition, a.offset, a.value) == (0, 0, b"a")
    assert b.identity == OutputId("job", 0, 0, Track.RECORD, 3, 1)
    assert (c.partition, c.offset) == (1, 0)


def test_what_a_zombie_writes_between_the_new_owners_outputs_is_dropped(log: Log):
    put(log, (1, 0, "1"), (2, 0, "2"))  # the zombie, before it was stopped
    put(log, (3, 0, "3"))  # the new owner
    put(log, (2, 0, "2"), (3, 0, "3"))  # the zombie again
    put(log, (4, 0, "4"), (5, 0, "5"))
    put(log, (4, 0, "4"))
    reader = OutputReader(log, TOPIC)
    assert payloads(reader.read_available()) == ["1", "2", "3", "4", "5"]
    assert (reader.repeats_dropped, reader.stale_dropped) == (3, 0)


def test_tracks_and_partitions_have_sequences_of_their_own(log: Log):
    record = OutputId("job", 0, 0, Track.RECORD, 100, 0)
    window = OutputId("job", 0, 0, Track.WINDOW, 10, 0)
    other = OutputId("job", 0, 7, Track.RECORD, 5, 0)  # routed by key from another source partition
    log.append(TOPIC, 0, [b"r", b"w", b"o"], headers=[i.to_bytes() for i in (record, window, other)])
    assert payloads(OutputReader(log, TOPIC).read_available()) == ["r", "w", "o"]


def test_only_the_newest_incarnation_is_read_although_it_shows_in_a_later_partition(log: Log):
    put(log, (1, 0, "old"), (2, 0, "old too"))
    put(log, (1, 0, "new"), partition=1, incarnation=1)
    reader = OutputReader(log, TOPIC)
    assert payloads(reader.read_available()) == ["new"]
    assert (reader.repeats_dropped, reader.stale_dropped) == (0, 2)


def test_an_old_incarnation_is_not_read_although_the_new_one_has_written_nothing_yet(log: Log):
    put(log, (1, 0, "old"))
    put(log, (1, 0, "other"), job="other")
    log.create_topic("_holon.job.1.broadcast", 2)
    log.create_topic("_holon.other.0.broadcast", 2)
    reader = OutputReader(log, TOPIC)
    assert payloads(reader.read_available()) == ["other"]
    assert (reader.repeats_dropped, reader.stale_dropped) == (0, 1)


def test_incarnations_of_different_jobs_are_independent(log: Log):
    put(log, (1, 0, "a0"), job="a")
    put(log, (1, 0, "b4"), job="b", incarnation=4)
    assert payloads(OutputReader(log, TOPIC).read_available()) == ["a0", "b4"]


def test_a_zombie_of_an_older_incarnation_is_stale(log: Log):
    put(log, (1, 0, "new"), incarnation=1)
    put(log, (9, 0, "zombie"), incarnation=0)
    put(log, (2, 0, "newer"), incarnation=1)
    reader = OutputReader(log, TOPIC)
    assert payloads(reader.read_available()) == ["new", "newer"]
    assert reader.stale_dropped == 1


def test_a_second_read_hands_out_only_what_is_new(log: Log):
    reader = OutputReader(log, TOPIC)
    put(log, (1, 0, "1"))
    assert payloads(reader.read_available()) == ["1"]
    put(log, (1, 0, "1"), (2, 0, "2"))
    assert payloads(reader.read_available()) == ["2"]


def test_a_bounded_read_ends_where_the_topic_ended_when_it_began(log: Log):
    put(log, (1, 0, "1"))
    put(log, (1, 0, "2"), partition=1)
    reader = OutputReader(log, TOPIC)
    outputs = reader.read_available()
    assert next(outputs).value == b"1"
    put(log, (2, 0, "3"), partition=1)
    assert payloads(outputs) == ["2"]
    assert payloads(reader.read_available()) == ["3"]


def test_it_goes_on_from_a_saved_position_and_still_knows_repeats(log: Log):
    put(log, (1, 0, "1"), (2, 0, "2"), (3, 0, "3"))
    first = OutputReader(log, TOPIC)
    outputs = first.read_available()
    assert payloads([next(outputs), next(outputs)]) == ["1", "2"]
    saved = json.dumps(first.position())
    put(log, (2, 0, "2"), (4, 0, "4"))
    second = OutputReader(log, TOPIC, position=json.loads(saved))
    assert payloads(second.read_available()) == ["3", "4"]
    assert second.repeats_dropped == 1


def test_a_saved_position_remembers_the_incarnation(log: Log):
    put(log, (1, 0, "new"), incarnation=1)
    first = OutputReader(log, TOPIC)
    assert payloads(first.read_available()) == ["new"]
    put(log, (2, 0, "zombie"), incarnation=0)
    second = OutputReader(log, TOPIC, position=first.position())
    assert payloads(second.read_available()) == []
    assert second.stale_dropped == 1


@pytest.mark.parametrize("change", [{"version": 2}, {"topic": "other"}, {"offsets": [0]}, {"offsets": "x"}])
def test_a_position_of_something_else_is_refused(log: Log, change: dict):
    position = OutputReader(log, TOPIC).position() | change
    with pytest.raises(PositionError):
        OutputReader(log, TOPIC, position=position)


def test_a_position_whose_filter_is_damaged_is_refused(log: Log):
    position = OutputReader(log, TOPIC).position() | {"filter": {"last": [[1, 2]]}}
    with pytest.raises(IdentityError):
        OutputReader(log, TOPIC, position=position)


def test_a_position_that_retention_has_overtaken_is_an_error_not_a_silent_skip(log: Log):
    position = OutputReader(log, TOPIC).position()
    put(log, *((n, 0, "x") for n in range(10)))
    put(log, (10, 0, "y"))
    assert log.delete_before(TOPIC, 0, 10) == 10
    with pytest.raises(OffsetOutOfRange):
        list(OutputReader(log, TOPIC, position=position).read_available())
    assert payloads(OutputReader(log, TOPIC).read_available()) == ["y"]


def test_a_record_without_an_identity_is_an_error_that_names_it(log: Log):
    put(log, (1, 0, "1"))
    log.append(TOPIC, 0, [b"foreign"])
    with pytest.raises(IdentityError, match=r"out\[0\] offset 1"):
        list(OutputReader(log, TOPIC).read_available())


@pytest.mark.parametrize("header", [b"", b"foreign header of another system"])
def test_records_without_an_identity_pass_if_asked_for(log: Log, header: bytes):
    put(log, (1, 0, "1"), (1, 0, "1"))
    log.append(TOPIC, 0, [b"x", b"x"], headers=[header, header])
    outputs = list(OutputReader(log, TOPIC, without_identity="pass").read_available())
    assert payloads(outputs) == ["1", "x", "x"]
    assert outputs[-1].identity is None


def test_payloads_are_decoded_and_a_damaged_one_does_not_block_the_rest(log: Log):
    put(log, (1, 0, "1"), (2, 0, "two"), (3, 0, "3"))
    reader = OutputReader(log, TOPIC, decode=int)
    with pytest.raises(ValueError):
        list(reader.read_available())
    assert [output.value for output in reader.read_available()] == [3]


def test_an_unknown_topic_is_refused_with_the_nearest(log: Log):
    with pytest.raises(UnknownTopic, match="out"):
        OutputReader(log, "outt")


def test_following_hands_out_what_is_there_and_what_arrives(log: Log):
    put(log, (1, 0, "1"))
    reader = OutputReader(log, TOPIC)
    seen: list[str] = []
    for output in reader.follow(lambda: len(seen) == 3, wait_s=0.001):
        seen.append(output.value.decode())
        if seen == ["1"]:
            put(log, (1, 0, "1"), (2, 0, "2"))
            put(log, (1, 0, "3"), partition=1)
    assert seen == ["1", "2", "3"]
    assert reader.repeats_dropped == 1


@pytest.mark.timeout(60, func_only=True)  # a planted bug lets it wait for ever
def test_following_goes_over_to_the_next_incarnation(log: Log):
    reader = OutputReader(log, TOPIC)
    put(log, (5, 0, "old"))
    outputs = reader.follow(wait_s=0.001)
    assert next(outputs).value == b"old"
    put(log, (1, 0, "new"), incarnation=1)
    assert next(outputs).value == b"new"


def test_following_ends_when_asked_although_nothing_arrives(log: Log):
    answers = iter([False, False, True])
    assert list(OutputReader(log, TOPIC).follow(lambda: next(answers), wait_s=0.001)) == []


def test_following_sleeps_where_nothing_arrives():
    waits: list[float] = []
    log = MemoryLog(on_wait=waits.append)
    log.create_topic(TOPIC, 2)
    assert list(OutputReader(log, TOPIC).follow(lambda: len(waits) == 3, wait_s=0.25)) == []
    assert waits == [0.25] * 3


def test_what_was_skipped_is_no_news_when_it_is_repeated(log: Log):
    put(log, (1, 0, "1"), (2, 0, "2"), (1, 0, "1"))
    reader = OutputReader(log, TOPIC)
    reader.skip_available()
    assert (reader.repeats_dropped, reader.stale_dropped) == (0, 0)
    put(log, (2, 0, "2"), (3, 0, "3"))
    assert payloads(reader.read_available()) == ["3"]
    assert reader.repeats_dropped == 1


def test_repeats_are_verified_byte_for_byte(log: Log):
    put(log, (1, 0, "same"), (2, 0, "one thing"))
    put(log, (1, 0, "same"), (2, 0, "another"))
    reader = OutputReader(log, TOPIC, verify_repeats=True)
    assert payloads(reader.read_available()) == ["same", "one thing"]
    assert reader.check is not None
    assert (reader.check.verified, reader.differing_repeats, reader.check.unknown) == (1, 1, 0)
    assert "position=2" in (reader.check.first_difference or "")


def test_an_output_that_came_after_a_later_one_is_told_from_a_repeat(log: Log):
    put(log, (1, 0, "1"), (3, 0, "3"), (2, 0, "lost"))
    reader = OutputReader(log, TOPIC, verify_repeats=True)
    assert payloads(reader.read_available()) == ["1", "3"]
    assert reader.check is not None and reader.check.unknown == 1


@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 4), cut=st.integers(0, 200))
def test_any_interleaving_of_overlapping_owners_reads_as_one_run(seed: int, nodes: int, cut: int):
    """Owners start anywhere that an earlier one has reached and may stop or go on; resumed readers lose nothing."""
    draw = random.Random(seed)
    truth = [[(position, n) for position in range(8) for n in range(draw.randrange(3))] for _ in range(2)]
    log = MemoryLog()
    log.create_topic(TOPIC, 2)
    for partition, rows in enumerate(truth):
        write_with_zombies(draw, nodes, rows, lambda row, partition=partition: put(
            log, (*row, f"{partition}:{row}"), partition=partition))  # fmt: skip
    expected = [f"{partition}:{row}" for partition, rows in enumerate(truth) for row in rows]
    first = OutputReader(log, TOPIC, verify_repeats=True)
    seen = payloads(islice(first.read_available(), cut))
    position = json.loads(json.dumps(first.position()))
    seen += payloads(OutputReader(log, TOPIC, position=position).read_available())
    assert seen == expected
    assert first.check is not None and first.check.differing == first.check.unknown == 0


def write_with_zombies(draw: random.Random, nodes: int, rows: list, write: Callable) -> None:
    """Each owner begins at most where the log is (it read the tail); a zombie goes on from where it was stopped."""
    reached, cursors = 0, [0] * nodes
    while reached < len(rows):
        node = draw.randrange(nodes)
        if draw.random() < 0.2:
            cursors[node] = draw.randint(0, reached)  # restarted from some checkpoint
        if cursors[node] < len(rows):
            write(rows[cursors[node]])
            cursors[node] += 1
            reached = max(reached, cursors[node])
