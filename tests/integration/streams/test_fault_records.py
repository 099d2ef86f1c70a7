"""Poison records: each is kept as it was with a reason, the others go on, and every record is accounted for."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holon import Context, Job, Json, ProcessingFunction, Source
from holon.outputs.letters import LETTER_HEAD_BYTES, WHOLE_LETTER_BYTES, payload_digest
from holon.testing import JobTestDriver
from nodes.results.dead_letters import dead_letters, whole_payload
from nodes.results.reader import OutputReader
from nodes.streams.jobs import load_job
from tests.integration import poison
from tests.integration.fleet_support import Command, Stage, run_command
from tests.integration.jobs_mixed import INPUT, Event, time_of

SMALL = "tests.integration.jobs_odd:small"
FUZZED = 400


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, partitions=2)
    yield stage
    stage.log.close()


class Passes(ProcessingFunction[Event]):
    def process(self, event: Event, ctx: Context) -> None:
        ctx.emit({"id": event.id})


def passing() -> Job[Event]:
    return Job("passing", Source(INPUT, Json(Event), timestamp=time_of), Passes, output="out")


def letters(job: JobTestDriver) -> list[bytes]:
    return [base64.b64decode(letter["payload"]) for letter in job.dead()]


def is_head(payload: bytes, letter: dict[str, object], row: bytes) -> bool:
    """Whether a letter keeps the start of a long record, and enough to know the record again."""
    named = (letter["size"], letter["digest"]) == (len(row), payload_digest(row))
    return named and payload == row[:LETTER_HEAD_BYTES]


@pytest.mark.long
def test_corpus_goes_to_the_dead_letters_with_its_bytes_and_the_rest_is_untouched(stage: Stage) -> None:
    bad, rows = list(poison.BAD.values()), []
    for number, row in enumerate([*bad, *poison.GOOD.values()]):
        rows += [poison.good(100 + number), row]
    stage.log.append(INPUT, 0, rows[: len(rows) // 2])
    stage.log.append(INPUT, 1, rows[len(rows) // 2 :])
    with run_command(stage, "--nodes", "2", "--bounded", job=SMALL) as command:
        result = command.json()
    accepted = len(rows) - len(bad)
    assert {name: result[name] for name in ("accepted", "filtered", "late", "dead", "taken", "conserved")} == {
        "accepted": accepted, "filtered": 0, "late": 0, "dead": len(bad), "taken": len(rows), "conserved": True,
    }  # fmt: skip
    read = OutputReader(stage.log, "small.dead", decode=json.loads).read_available()
    kept = {(letter["partition"], letter["offset"]): letter for letter in (output.value for output in read)}
    assert len(kept) == len(bad) and all(letter["reason"] for letter in kept.values())
    halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    for (partition, offset), letter in kept.items():
        row, payload = halves[partition][offset], base64.b64decode(letter["payload"])
        assert row in bad
        assert payload == row if len(row) <= WHOLE_LETTER_BYTES else is_head(payload, letter, row)
    job = load_job(SMALL)
    stored = dead_letters(stage.log, job)
    whole = {(letter.partition, letter.offset): whole_payload(stage.log, job, letter) for letter in stored}
    assert whole == {(partition, offset): halves[partition][offset] for partition, offset in kept}


def test_fuzzed_records_are_taken_or_kept_as_the_standard_library_would(stage: Stage) -> None:
    """A corpus by seed; what it holds is the same in every run."""
    test = JobTestDriver(passing())
    rows = poison.fuzzed(FUZZED, seed=23)
    for row in rows:
        test.feed(0, row)
    bad = [row for row in rows if not poison.is_event(row)]
    assert len(bad) > FUZZED / 2 and len(bad) < FUZZED
    assert Counter(letters(test)) == Counter(bad)
    assert test.counts.taken == FUZZED and test.counts.dead == len(bad)


@settings(derandomize=True)
@example([b"", b"\x00"])
@given(st.lists(st.binary(max_size=60) | st.text(max_size=20).map(str.encode), max_size=8))
def test_no_bytes_stop_the_records_around_them(rows: list[bytes]) -> None:
    test = JobTestDriver(passing())
    test.feed(0, poison.good(1), *rows, poison.good(2))
    test.finish()
    ids = [value["id"] for value in test.outputs()]
    assert ids[0] == 1 and ids[-1] == 2
    assert test.counts.taken == len(rows) + 2 == test.counts.accepted + test.counts.dead + test.counts.late


@pytest.mark.long
def test_letters_are_listed_shown_and_put_back(stage: Stage) -> None:
    bad = poison.BAD["magic byte of a schema registry"]
    stage.log.append(INPUT, 1, [poison.good(1), bad, poison.good(2)])
    with run_command(stage, "--nodes", "1", "--bounded", job=SMALL) as command:
        assert command.json()["dead"] == 1
    with Command("dlq", "list", SMALL, "--json", stage=stage) as command:
        (letter,) = command.json()["letters"]
    assert (letter["partition"], letter["offset"], letter["bytes"]) == (1, 1, len(bad)) and letter["reason"]
    with Command("dlq", "show", SMALL, "1:1", "--json", stage=stage) as command:
        assert base64.b64decode(command.json()["payload"]["base64"]) == bad
    with Command("dlq", "show", SMALL, "0:9", stage=stage) as command:
        code, _, err = command.finish()
    assert code == 2 and "known: 1:1" in err
    with Command("dlq", "replay", SMALL, "1:1", "--json", stage=stage) as command:
        assert command.json()["appended"] == {"1": 1}
    assert stage.log.read(INPUT, 1, 3).values == [bad]
