"""The reader by compiled loops where much has arrived: blocks, and headers that nobody asks for."""

from __future__ import annotations

import random
from pathlib import Path

from holon.columnar.loops import install
from nodes import compiled
from nodes.log.contract import Chunk
from tests.integration.kafka_broker import session_log

RECORDS = 24_000
APPENDED = 12_000


def test_a_backlog_is_read_as_it_was_written_with_the_headers_that_are_asked_for(tmp_path: Path) -> None:
    """Records of two topics and partitions, of all sizes, read in turn; of one topic the headers are left out."""
    rng = random.Random(7)
    noise = rng.randbytes(RECORDS)
    values = [noise[row : row + row % 401] for row in range(RECORDS)]
    headers = [b"h%d" % row if row % 7 else b"" for row in range(RECORDS)]
    places = [("plain", 0), ("plain", 1), ("bare", 0)]
    with session_log(tmp_path) as log:
        for topic, partitions in (("plain", 2), ("bare", 1)):
            log.create_topic(topic, partitions)
        for place in places:
            for start in range(0, RECORDS, APPENDED):
                part = slice(start, start + APPENDED)
                log.append(*place, values[part], headers=headers[part])
        assert compiled.ensure(), "numba is part of the development environment"
        assert log.use_columns("bare")
        install(None)  # the log keeps them; other tests of this process do without
        at = dict.fromkeys(places, 0)
        found: dict[tuple[str, int], list[Chunk]] = {place: [] for place in places}
        while min(at.values()) < RECORDS:
            for place in places:
                chunk = log.read(*place, at[place], max_records=rng.choice([700, 20_000]))
                found[place].append(chunk)
                at[place] = chunk.next_offset
    for place, chunks in found.items():
        assert [value for chunk in chunks for value in chunk.values] == values
        expected = [b""] * RECORDS if place[0] == "bare" else headers
        assert [header for chunk in chunks for header in chunk.headers] == expected
        assert [offset for chunk in chunks for offset in chunk.offsets.tolist()] == list(range(RECORDS))
