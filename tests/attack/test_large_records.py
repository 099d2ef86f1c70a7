"""Records near the limits: a letter of any record fits into the log, and its payload can be had back."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from holon import Context, Job, Json, ProcessingFunction, Source
from holon.outputs.letters import LETTER_HEAD_BYTES, WHOLE_LETTER_BYTES, payload_digest
from holon.testing import JobTestDriver
from nodes.errors import RunFailed
from nodes.log.contract import MAX_RECORD_BYTES
from nodes.results.dead_letters import dead_letters, replay, whole_payload
from nodes.streams.jobs import load_job
from tests.integration import poison
from tests.integration.fleet_support import Command, Stage, run_command
from tests.integration.jobs_mixed import INPUT, Event, time_of

SMALL = "tests.integration.jobs_odd:small"
LARGEST = b"x" * (MAX_RECORD_BYTES - 1024)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, partitions=2)
    yield stage
    stage.log.close()


class Raises(ProcessingFunction[Event]):
    def process(self, event: Event, ctx: Context) -> None:
        raise ValueError("surrogate \ud800")


def test_the_largest_record_is_a_dead_letter_and_ends_no_job(stage: Stage) -> None:
    stage.log.append(INPUT, 0, [poison.good(1), LARGEST, poison.good(2)])
    with run_command(stage, "--nodes", "1", "--bounded", job=SMALL) as command:
        result = command.json()
    assert (result["accepted"], result["dead"], result["conserved"]) == (2, 1, True)
    job = load_job(SMALL)
    (letter,) = dead_letters(stage.log, job)
    assert letter.payload == LARGEST[:LETTER_HEAD_BYTES]
    assert (letter.size, letter.digest) == (len(LARGEST), payload_digest(LARGEST))
    assert whole_payload(stage.log, job, letter) == LARGEST
    with Command("dlq", "list", SMALL, "--json", stage=stage) as command:
        assert command.json()["letters"][0]["bytes"] == len(LARGEST)


def test_a_long_letter_is_put_back_whole_or_refused_by_name(stage: Stage) -> None:
    job = load_job(SMALL)
    stage.log.append(INPUT, 0, [LARGEST])
    with run_command(stage, "--nodes", "1", "--bounded", job=SMALL) as command:
        assert command.json(exit_code=1)["dead"] == 1, "nothing of the input could be used, and that is an error"
    letters = list(dead_letters(stage.log, job))
    assert list(replay(stage.log, job, letters).values()) == [1]
    assert stage.log.read(INPUT, 0, 1).values[0] == LARGEST
    stage.log.delete_before(INPUT, 0, 1)
    with pytest.raises(RunFailed, match="does not hold its"):
        whole_payload(stage.log, job, letters[0])


@pytest.mark.parametrize("size", [WHOLE_LETTER_BYTES, WHOLE_LETTER_BYTES + 1])
def test_letters_are_whole_up_to_the_limit(size: int) -> None:
    test = JobTestDriver(Job("passing", Source(INPUT, Json(Event), timestamp=time_of), Raises, output="out"))
    test.feed(0, b"x" * size)
    (letter,) = test.dead()
    kept = base64.b64decode(letter["payload"])
    assert len(kept) == (size if size == WHOLE_LETTER_BYTES else LETTER_HEAD_BYTES)
    assert ("digest" in letter) == (size > WHOLE_LETTER_BYTES)


def test_an_exception_whose_text_is_no_unicode_is_a_reason() -> None:
    source = Source(INPUT, Json(Event), timestamp=time_of)
    test = JobTestDriver(Job("raising", source, Raises, output="out", on_error="dead-letter"))
    test.feed(0, poison.good(1))
    (letter,) = test.dead()
    assert letter["reason"] == "the processing function raised ValueError: surrogate \\ud800"
