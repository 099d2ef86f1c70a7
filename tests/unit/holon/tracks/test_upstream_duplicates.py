"""A source recognises what another job has written again: each of its outputs counts once, of one incarnation."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import chained
from holon import Context, Job, Json, Output, Source
from holon.columnar.payloads import BinaryColumn
from holon.errors import UpstreamReset, UserFunctionError
from holon.formats.input_run import Input
from holon.outputs.deduplicator import Deduplicator
from holon.outputs.identity import IdentityStamp, OutputId, Track
from holon.testing import JobTestDriver
from holon.tracks.admission import AdmissionCounts
from holon.tracks.snapshot import Snapshot
from holon.tracks.task import PartitionTask
from holon.tracks.upstream_duplicates import Duplicates, SeenOutputs
from wcrdt.replica.replica import Replica


def output(position: int, n: int = 0, job: str = "up", inc: int = 0, partition: int = 3, track: int = 0) -> OutputId:
    return OutputId(job, inc, partition, Track(track), position, n)


def headers(*identities: OutputId) -> list[bytes]:
    return [identity.to_bytes() for identity in identities]


def kept(duplicates: Duplicates, given: list[bytes]) -> list[bool]:
    found = duplicates.first_copies(given)
    return [True] * len(given) if found is None else found.tolist()


def test_repeats_of_each_track_and_source_partition_are_no_first_copies() -> None:
    duplicates = Duplicates({})
    first = headers(output(1), output(1, 1), output(7, partition=4), output(-60, track=1), output(1, job="other"))
    assert kept(duplicates, first) == [True] * 5
    assert kept(duplicates, headers(output(1), output(1, 1), output(1, 2), output(2), output(2))) == [
        False, False, True, True, False,
    ]  # fmt: skip
    assert kept(duplicates, first) == [False] * 5


def test_records_without_an_identity_are_all_kept() -> None:
    given = [b"", b"\x01", b"\x09" * 40, b"trace-id=17", b"", b"\x01" * 22]
    assert kept(Duplicates({}), given * 2) == [True] * 12


def test_what_comes_of_an_older_incarnation_is_left_out() -> None:
    duplicates = Duplicates({"up": 2})
    assert kept(duplicates, headers(output(1, inc=0), output(1, inc=1), output(1, inc=2), output(9, inc=1))) == [
        False, False, True, False,
    ]  # fmt: skip


def test_an_upstream_job_of_which_nothing_was_known_counts_as_it_is_first_seen() -> None:
    duplicates = Duplicates({"else": 0})
    assert kept(duplicates, headers(output(1, inc=4), output(2, inc=3), output(2, inc=4))) == [True, False, True]


@pytest.mark.parametrize("upstream", [{"up": 1}, {}])
def test_results_of_a_newer_incarnation_are_never_counted_beside_those_of_an_older_one(upstream: Any) -> None:
    duplicates = Duplicates(upstream)
    kept(duplicates, headers(output(1, inc=1)))
    with pytest.raises(UpstreamReset, match=r"'up'.*incarnation 2.*incarnation 1.*--reset"):
        duplicates.first_copies(headers(output(5, inc=1), output(1, inc=2)))


def test_an_incarnation_that_began_without_recognising_goes_on_so() -> None:
    duplicates = Duplicates(None)
    assert kept(duplicates, headers(output(1), output(1), output(0, inc=7))) == [True] * 3
    assert duplicates.seen() == SeenOutputs()


@pytest.mark.parametrize("columns", [False, True])
def test_many_in_order_are_judged_as_each_alone(columns: bool) -> None:
    def column(stamp: IdentityStamp, positions: range) -> Any:
        at = np.array(positions, np.int64)
        return stamp.columns(at) if columns else stamp.column(at.tolist())

    stamp, duplicates = IdentityStamp("up", 0, 3, Track.RECORD), Duplicates({})
    assert duplicates.first_copies(column(stamp, range(100))) is None
    assert duplicates.first_copies(column(stamp, range(100))).tolist() == [False] * 100  # type: ignore[union-attr]
    half = duplicates.first_copies(column(stamp, range(50, 150)))
    assert half is not None and half.tolist() == [False] * 50 + [True] * 50
    assert duplicates.first_copies(column(stamp, range(150, 250))) is None
    assert kept(duplicates, headers(output(249), output(250))) == [False, True]
    other = list(column(IdentityStamp("up", 0, 4, Track.RECORD), range(40)))
    assert kept(duplicates, [*other, *other]) == [True] * 40 + [False] * 40


IDENTITIES = st.builds(
    output,
    st.integers(0, 4),
    st.integers(0, 2),
    job=st.sampled_from(["up", "other"]),
    inc=st.just(1) | st.integers(0, 1),
    partition=st.integers(0, 1),
    track=st.integers(0, 1),
)


@given(st.lists(IDENTITIES, max_size=120), st.randoms(use_true_random=False))
def test_wherever_the_input_is_cut_and_saved_the_same_is_kept(found: list[OutputId], rng: random.Random) -> None:
    """And it is what the output reader keeps of the same records."""
    reader = Deduplicator()
    newest = {identity.job: 1 for identity in found}
    wanted = [i.incarnation == 1 and reader.is_new(0, i) for i in found]
    duplicates, got, at = Duplicates(newest), [], 0
    while at < len(found):
        to = at + rng.randint(1, 40)
        part = headers(*found[at:to])
        got += kept(duplicates, BinaryColumn.of(part) if rng.random() < 0.5 else part)  # type: ignore[arg-type]
        at = to
        if rng.random() < 0.3:
            seen, duplicates = duplicates.seen(), Duplicates(newest)
            duplicates.restore(seen)
    assert got == wanted


# --- the record track -------------------------------------------------------------------------------------------------


def keep_all(event: dict[str, Any], ctx: Context) -> None:
    ctx.emit(event)


def reading(process: Any = keep_all, **options: Any) -> Job[Any]:
    return Job("reading", Source("outs", Json(dict[str, Any])), process, output=Output("read"), **options)


def test_a_job_counts_each_output_of_another_once_and_its_account_says_what_it_left_out() -> None:
    test = JobTestDriver(reading())
    for number in (1, 2, 1, 3, 2, 3):
        test.feed(0, {"n": number}, identity=output(number))
    test.feed(0, {"n": 9})
    test.finish()
    assert [event["n"] for event in test.outputs()] == [1, 2, 3, 9]
    assert test.counts == AdmissionCounts(accepted=4, duplicates=3) and test.counts.taken == 7


def test_what_was_left_out_belongs_to_the_prefix_that_a_checkpoint_names() -> None:
    test = JobTestDriver(reading())
    for number in (1, 2, 2, 1):
        test.feed(0, {"n": number}, identity=output(number))
    assert test.tasks[0].position == (4, 0)
    test.checkpoint(0)
    test.feed(0, {"n": 2}, identity=output(2))
    test.feed(0, {"n": 3}, identity=output(3))
    test.fail(0)
    assert test.counts == AdmissionCounts(accepted=3, duplicates=3)
    assert [event["n"] for event in test.outputs()] == [1, 2, 3]


def test_a_snapshot_of_a_release_that_recognised_nothing_is_read() -> None:
    task = JobTestDriver(reading()).tasks[0]
    old = task.snapshot()
    version, raw = msgspec.msgpack.decode(old.to_bytes())
    del raw[1][-1]  # what was seen
    del raw[1][3][-1]  # the count of duplicates
    found = Snapshot.from_bytes(msgspec.msgpack.encode((version, raw)))
    assert found.record.seen == SeenOutputs() and found.record.counts == AdmissionCounts()


def test_a_dead_letter_between_duplicates_is_the_only_one() -> None:
    def fail_at_two(event: dict[str, Any], ctx: Context) -> None:
        if event["n"] == 2:
            raise ValueError(event)
        ctx.emit(event)

    given = [output(n) for n in (1, 2, 2, 3, 1, 4, 2)]
    whole = Input(np.arange(7), np.zeros(7, np.int64), [b'{"n": %d}' % i.position for i in given], 7, headers(*given))
    for cuts in ((0, 7), (0, 1, 2, 3, 4, 5, 6, 7), (0, 3, 5, 7)):
        task = PartitionTask(reading(fail_at_two, on_error="dead-letter"), 0, 0, 1, Replica(1, {}, 0), upstream={})
        for start, stop in pairwise(cuts):
            task.feed(whole.cut(start, stop))
        assert task.counts == AdmissionCounts(accepted=3, dead=1, duplicates=3) and task.position == (7, 0)
        values = {output: run.values for (output, _), run in task.take_outputs().items()}
        assert values["main"] == [b'{"n":1}', b'{"n":3}', b'{"n":4}'] and len(values["dead"]) == 1


def test_a_reset_upstream_stops_the_job_with_what_to_do() -> None:
    test = JobTestDriver(reading())
    test.feed(0, {"n": 1}, identity=output(1))
    with pytest.raises(UserFunctionError, match=r"UpstreamReset.*'up'.*--reset"):
        test.feed(0, {"n": 1}, identity=output(1, inc=1))


@pytest.mark.slow
def test_three_jobs_in_a_row_count_each_order_once_although_all_is_written_again() -> None:
    orders = [{"ts": 1_000 * n, "customer": f"c{n % 3}", "quantity": n % 4, "cents": 10} for n in range(400)]

    def ran(job: Job[Any], given: list[tuple[OutputId | None, Any]], rng: random.Random) -> list[Any]:
        test = JobTestDriver(job)
        for place, (identity, value) in enumerate(given):
            test.feed(0, value, identity=identity)
            for again, repeated in given[max(0, place - 5) : place + 1] if identity and rng.random() < 0.3 else ():
                test.feed(0, repeated, identity=again)
        test.finish()
        return [(identity, value) for _, identity, value in test.raw_outputs()]

    plain, repeated = random.Random(), random.Random(5)
    plain.random = lambda: 1.0  # type: ignore[method-assign]
    for job in (chained.up, chained.mid, chained.down):
        if job is chained.up:
            alone = together = [(None, order) for order in orders]
        alone, together = ran(job, alone, plain), ran(job, together, repeated)
        assert together == alone
    assert alone
