"""Bytes on a job's own topics, on a real broker, that are no message: passed over, counted, and never believed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.machine import messages as m
from nodes.streams.jobs import JobTopics
from tests.integration.fleet_support import UNTRIMMED, owners
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_stage import KafkaStage
from tests.integration.processes import until


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[KafkaStage]:
    stage = KafkaStage(tmp_path, session_bootstrap(), UNTRIMMED)
    yield stage
    stage.log.close()


def spoilt(value: bytes) -> list[bytes]:
    """The damage to a record: nothing, its beginning, one bit flipped anywhere, something else."""
    flips = [value[:at] + bytes([value[at] ^ 4]) + value[at + 1 :] for at in range(0, len(value), 7)]
    return [b"", value[:3], value[: len(value) // 2], *flips, bytes(200), b'{"json": true}']


def newer(value: bytes) -> bytes:
    """The message as a release of the future would write it: its version, with the checksum that goes with it."""
    version = bytes([m.FORMAT_VERSION + 1])
    return version + struct.pack(">I", zlib.crc32(value[5:], zlib.crc32(version))) + value[5:]


def next_delta(stage: KafkaStage, topic: str, partition: int) -> bytes:
    """The next record that comes."""
    end, found = stage.log.end_offset(topic, partition), []
    until(lambda: found.extend(stage.log.read(topic, partition, end).values) or bool(found), "a delta is sent")
    return found[0]


@pytest.mark.long
def test_damaged_and_newer_deltas_are_made_good(stage: KafkaStage) -> None:
    """Spoilt copies of real deltas and control records among the real ones, while both nodes work."""
    run = stage.open()
    topics, monitor = JobTopics.of(run), stage.monitor(run)
    with stage.fleet(2) as fleet:
        with stage.feeding():
            stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions", fleet)
            for _ in range(3):
                for partition in range(stage.partitions):
                    delta = next_delta(stage, topics.broadcast, partition)
                    stage.log.append(topics.broadcast, partition, [*spoilt(delta), newer(delta)])
                claim = stage.log.read(topics.control, 0, 1, max_records=1).values[0]
                stage.log.append(topics.control, 0, spoilt(claim))
                stage.log.append(topics.heartbeats, 0, spoilt(claim))
            before = monitor.consumed
            stage.until(monitor, lambda: monitor.consumed > before + 500, "work goes on", fleet)
        stage.finish(run, fleet)
        assert len(fleet.members) == 2
    stage.assert_exact()


def test_a_control_record_of_a_newer_release_stops_the_older_nodes(stage: KafkaStage) -> None:
    """They cannot know what it changes: going on would be believing something else than their peers."""
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(2) as fleet:
        stage.until(monitor, lambda: None not in owners(monitor), "all is owned", fleet)
        claim = stage.log.read(JobTopics.of(run).control, 0, 1, max_records=1).values[0]
        stage.log.append(JobTopics.of(run).control, 0, [newer(claim)])
        until(lambda: not fleet.running(), "both have left")
        assert {member.process.returncode for member in fleet.members} == {1}
