"""Loading a generated stream into a log, whole and after an interruption."""

from __future__ import annotations

import pytest

from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nexmark.loading import Stream, TopicHoldsOther, load, load_partition
from nodes.log.contract import Appended
from nodes.log.memory import MemoryLog

STREAM = Stream("events", events=1003, partitions=3, config=GeneratorConfig(seed=5))


class Interrupted(Exception):
    pass


class FailingLog(MemoryLog):
    """Takes so many appends and then fails once."""

    appends_left = 2

    def append(self, topic: str, partition: int, values, **more) -> Appended:
        if self.appends_left == 0:
            self.appends_left = -1
            raise Interrupted
        self.appends_left -= 1
        return super().append(topic, partition, values, **more)


def records(log: MemoryLog, partition: int) -> list[bytes]:
    return log.read("events", partition, 0).values


def test_event_n_is_in_partition_n_mod_p_at_offset_n_div_p() -> None:
    log = MemoryLog()
    assert load(log, STREAM, batch_records=100) == 1003
    whole = encode_json(generate_slice(STREAM.config, 0, 1003))
    assert [records(log, partition) for partition in range(3)] == [whole[0::3], whole[1::3], whole[2::3]]


def test_loading_again_appends_nothing() -> None:
    log = MemoryLog()
    load(log, STREAM)
    assert load(log, STREAM) == 0


def test_loading_goes_on_after_an_interruption_without_repeats() -> None:
    log = FailingLog()
    log.create_topic("events", 3)
    with pytest.raises(Interrupted):
        load_partition(log, STREAM, 1, batch_records=100)
    assert log.end_offset("events", 1) == 200
    assert load_partition(log, STREAM, 1, batch_records=77) == STREAM.records_in(1) - 200
    assert records(log, 1) == encode_json(generate_slice(STREAM.config, 1, 1003, 3))


def test_a_longer_stream_of_the_same_seed_continues_a_shorter_one() -> None:
    log = MemoryLog()
    load(log, STREAM)
    longer = Stream("events", 2000, 3, STREAM.config)
    assert load(log, longer) == 997
    assert records(log, 0) == encode_json(generate_slice(STREAM.config, 0, 2000, 3))


def test_streams_are_not_mixed_in_a_topic() -> None:
    log = MemoryLog()
    load(log, STREAM)
    with pytest.raises(TopicHoldsOther, match="partition 0, offset 334 is not event 1002 of seed 6"):
        load(log, Stream("events", 2000, 3, GeneratorConfig(seed=6)))
    with pytest.raises(TopicHoldsOther, match="has 335 records, the stream only 4"):
        load(log, Stream("events", 12, 3, STREAM.config))


def test_empty_partitions_are_fine() -> None:
    log = MemoryLog()
    assert load(log, Stream("events", 2, 4, STREAM.config)) == 2
    assert [log.end_offset("events", partition) for partition in range(4)] == [1, 1, 0, 0]
