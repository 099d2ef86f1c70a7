"""Where a batch is cut, who is first, and who crashes are accidents: nothing that a job gives may depend on them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.outputs.identity import OutputId, Track
from tests.laws.recut_jobs import Answers, Awaiting, PerBatch, PerRecord, Promising, inputs, job
from tests.laws.recut_runs import Outcome, Results, Run, record_by_record

FORMS = [PerRecord, PerBatch, Awaiting, Promising]
POLICIES = ["fail", "dead-letter"]


def assert_same(outcome: Outcome, expected: Outcome) -> None:
    assert outcome.results == expected.results
    assert outcome.counts == expected.counts
    assert outcome.snapshots == expected.snapshots
    assert outcome.windows == expected.windows


@pytest.mark.parametrize("on_error", POLICIES)
@pytest.mark.parametrize("form", FORMS)
@given(data=st.data(), seed=st.integers(0, 2**32), lateness_ms=st.sampled_from([0, 7]))
def test_cuts_and_interleaving_change_nothing(
    form: type[Answers], on_error: str, data: Any, seed: int, lateness_ms: int
) -> None:
    records = data.draw(inputs(failing=on_error == "dead-letter"))
    made = job(form, lateness_ms=lateness_ms, on_error=on_error)
    assert_same(Run(made, records, random.Random(seed)).run(largest=6), record_by_record(made, records))


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@given(records=inputs(failing=True), seed=st.integers(0, 2**32))
def test_crashes_change_nothing_once_repeats_are_dropped(form: type[Answers], records: Any, seed: int) -> None:
    made = job(form, on_error="dead-letter")
    outcome = Run(made, records, random.Random(seed)).run(largest=4, crash=0.2)
    assert_same(outcome, record_by_record(made, records))


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@given(records=inputs(), seed=st.integers(0, 2**32))
def test_offsets_with_gaps_change_nothing_but_offsets(form: type[Answers], records: Any, seed: int) -> None:
    made = job(form)
    outcome = Run(made, records, random.Random(seed), gaps=True).run(largest=4, crash=0.1)
    expected = record_by_record(made, records)
    assert _without_offsets(outcome.results) == _without_offsets(expected.results)
    assert outcome.counts == expected.counts
    assert outcome.windows == expected.windows


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@given(records=inputs(failing=True), seed=st.integers(0, 2**32))
def test_duplicates_change_nothing_but_offsets_wherever_the_input_is_cut(
    form: type[Answers], records: Any, seed: int
) -> None:
    made, rng = job(form, on_error="dead-letter"), random.Random(seed)
    given_twice, headers = _with_repeats(records, rng)
    outcome = Run(made, given_twice, rng, headers=headers).run(largest=6, crash=0.1)
    assert_same(outcome, record_by_record(made, given_twice, headers))
    expected = record_by_record(made, records)
    assert _without_offsets(outcome.results) == _without_offsets(expected.results)
    assert (outcome.counts, outcome.windows) == (expected.counts, expected.windows)


def _with_repeats(records: Any, rng: random.Random) -> tuple[list[list[bytes]], list[list[bytes]]]:
    """The records as another job's outputs, some of them written again; what it has named, it may name again."""
    values: list[list[bytes]] = []
    headers: list[list[bytes]] = []
    for partition, payloads in enumerate(records):
        named = [(OutputId("up", 0, partition, Track.RECORD, n, 0).to_bytes(), p) for n, p in enumerate(payloads)]
        written = []
        for number, one in enumerate(named):
            written += [one, *(named[max(0, number - 3) : number + 1] if rng.random() < 0.4 else ())]
        values.append([payload for _, payload in written])
        headers.append([header for header, _ in written])
    return values, headers


@given(records=inputs(failing=True), seed=st.integers(0, 2**32), lateness_ms=st.sampled_from([0, 7]))
def test_a_batch_function_gives_what_the_record_function_gives(records: Any, seed: int, lateness_ms: int) -> None:
    by_batch = job(PerBatch, lateness_ms=lateness_ms, on_error="dead-letter")
    by_record = job(PerRecord, lateness_ms=lateness_ms, on_error="dead-letter")
    outcome = Run(by_batch, records, random.Random(seed)).run(largest=6)
    expected = record_by_record(by_record, records)
    dead = [key for key in outcome.results if key[1] == "dead"]
    assert {k: v for k, v in outcome.results.items() if k not in dead} == {
        k: v for k, v in expected.results.items() if k not in dead
    }
    # The two formats word the reasons for undecodable records differently; who is dead is the same.
    for key in dead:
        assert [identity for identity, _ in outcome.results[key]] == [i for i, _ in expected.results[key]]
    assert outcome.counts == expected.counts
    assert outcome.windows == expected.windows


@pytest.mark.parametrize("form", FORMS)
@given(records=inputs(failing=True), seed=st.integers(0, 2**32), lateness_ms=st.sampled_from([0, 7]))
def test_every_record_is_exactly_one_of_accepted_filtered_late_dead(
    form: type[Answers], records: Any, seed: int, lateness_ms: int
) -> None:
    made = job(form, lateness_ms=lateness_ms, on_error="dead-letter")
    outcome = Run(made, records, random.Random(seed)).run(largest=5, crash=0.1)
    assert [sum(counts) for counts in outcome.counts] == [len(payloads) for payloads in records]
    for partition, (_, _, late, dead) in enumerate(outcome.counts):
        letters = outcome.results.get((partition, "late", partition, Track.RECORD), [])
        assert sum(b'"state"' not in letter for _, letter in letters) == late
        assert len(outcome.results.get((partition, "dead", partition, Track.RECORD), [])) == dead


@pytest.mark.parametrize("form", FORMS)
@given(records=inputs(failing=True), seed=st.integers(0, 2**32))
def test_identities_ascend_by_track_and_output_partition(form: type[Answers], records: Any, seed: int) -> None:
    outcome = Run(job(form, on_error="dead-letter"), records, random.Random(seed)).run(largest=5)
    for results in outcome.results.values():
        pairs = [(identity.position, identity.n) for identity, _ in results]
        assert pairs == sorted(set(pairs))


def _without_offsets(results: Results) -> Any:
    """The results with the offsets taken out of identities (their order stays) and of late and dead records."""
    plain = {}
    for key, found in results.items():
        if key[1] in ("late", "dead"):
            plain[key] = len(found)
        else:
            plain[key] = [(_position(identity), identity.n, value) for identity, value in found]
    return plain


def _position(identity: OutputId) -> int | None:
    return identity.position if identity.track is Track.WINDOW else None
