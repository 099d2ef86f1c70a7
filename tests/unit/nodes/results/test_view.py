"""The contents of a view of results: the newest windows of the newest incarnation, in whatever order results come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holon.outputs.identity import OutputId, Track
from nodes.results.reader import Output
from nodes.results.view import ViewResult, WindowTable, result_of


def result(end_ms: int, field: bytes = b"k", n: int = 0, *, job: str = "j", incarnation: int = 0) -> ViewResult:
    return ViewResult(job, incarnation, end_ms, field, n, 0, b"%d.%d" % (end_ms, n))


def output(track: Track, key: bytes | None = None) -> Output[bytes]:
    return Output(1, 7, 0, OutputId("j", 2, 3, track, 5000, 4), b"payload", key)


def test_a_result_of_a_window_is_found_by_its_key_or_by_its_place() -> None:
    assert result_of(output(Track.WINDOW, b"auction 9")) == ViewResult("j", 2, 5000, b"auction 9", 4, 3, b"payload")
    assert result_of(output(Track.WINDOW)) == ViewResult("j", 2, 5000, b"#3.4", 4, 3, b"payload")


def test_outputs_of_records_and_records_of_others_belong_to_no_window() -> None:
    assert result_of(output(Track.RECORD, b"k")) is None
    assert result_of(Output(0, 0, 0, None, b"?")) is None


def test_the_newest_windows_are_kept_and_an_older_one_never_comes_back() -> None:
    table = WindowTable(2)
    assert [table.add(result(end_ms)) for end_ms in (10, 30, 20, 5, 10)] == [True, True, True, False, False]
    assert [window.end_ms for window in table.newest(9)] == [20, 30]
    assert [window.end_ms for window in table.newest(1)] == [30]


def test_of_one_key_in_a_window_the_last_output_counts_and_repeats_change_nothing() -> None:
    table = WindowTable(2)
    assert [table.add(result(10, n=n)) for n in (1, 0, 1, 2, 2)] == [True, False, False, True, False]
    assert table.newest(1)[0].results == {b"k": b"10.2"}


def test_a_new_incarnation_replaces_the_one_before_and_leaves_other_jobs_alone() -> None:
    table = WindowTable(2)
    for row in (result(10), result(10, job="other"), result(5, incarnation=1), result(20)):
        table.add(row)
    assert [(w.job, w.incarnation, w.end_ms) for w in table.newest(9)] == [("j", 1, 5), ("other", 0, 10)]


RESULTS = st.builds(
    lambda job, incarnation, end, field, n, partition: ViewResult(
        job, incarnation, end, field, n, partition, b"%d/%d" % (n, partition)
    ),
    st.sampled_from(["j", "other"]),
    st.integers(0, 1),
    st.integers(-1, 5).map(lambda k: k * 100),
    st.sampled_from([b"a", b"\x00\xff"]),
    st.integers(0, 1),
    st.integers(0, 2),
)
"""Also used against the view in Redis."""


@given(st.lists(RESULTS, max_size=60), st.integers(1, 5), st.randoms(use_true_random=False))
def test_order_and_repeats_do_not_matter(rows: list[ViewResult], keep: int, rng: object) -> None:
    shuffled = rows + rows[::2]
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = WindowTable(keep), WindowTable(keep)
    for row in rows:
        one.add(row)
    for row in shuffled:
        other.add(row)
    assert one.newest(99) == other.newest(99)
