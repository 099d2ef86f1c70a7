"""Each row is in the files once, whatever is killed or stopped where (nodes/file_sinks/sink.py)."""

from __future__ import annotations

import msgspec
import pytest

from holon.outputs.identity import OutputId, Track
from nodes.errors import RunFailed, SettingsError
from nodes.log import MemoryLog
from tests.unit.file_sinks import (
    JOB,
    TOPIC,
    HookedStore,
    Killed,
    emit,
    expected,
    output_log,
    row_of,
    rows_in,
    sink_of,
)

ROUNDS = 4
PATH = "out/{day}"


def emit_round(log: MemoryLog, number: int) -> None:
    """Ten rows in each of two partitions, and those of half a round again, as the next owner writes them."""
    for partition in range(2):
        emit(log, partition, range(number * 10, number * 10 + 10))
        emit(log, partition, range(number * 10 + 5, number * 10 + 10))


def work(log: MemoryLog, store: HookedStore, rounds: range, batch_rows: int = 4) -> None:
    """A process: it starts, and writes what comes in these rounds. Of two of them each ends its batches elsewhere."""
    sink = sink_of(log, store, PATH, batch_rows, commit_after="1s")
    for number in rounds:
        if log.end_offset(TOPIC, 1) < 15 * (number + 1):
            emit_round(log, number)
        sink.turn(number * 2.0)
    sink.turn(99.0, flush=True)


def changes_of_a_run() -> int:
    store = HookedStore()
    work(output_log(), store, range(ROUNDS))
    return store.changes


def test_files_have_each_row_once_in_folders_by_day():
    log, store = output_log(), HookedStore()
    work(log, store, range(ROUNDS))
    assert rows_in(store) == expected(2, range(40))
    days = {name.partition("/")[0] for name in store.values if name.endswith(".jsonl")}
    assert days == {"1969-12-31", "1970-01-01", "1970-01-02"}


@pytest.mark.slow
@pytest.mark.parametrize("done", [False, True])
def test_a_process_that_is_killed_at_any_change_leaves_no_row_twice_and_the_next_one_completes_the_files(done: bool):
    whole = HookedStore()
    work(output_log(), whole, range(ROUNDS))
    for number in range(whole.changes):
        log, store = output_log(), HookedStore()
        with pytest.raises(Killed):
            work(log, store.killed_at(number, done=done), range(ROUNDS))
        found = rows_in(store)
        assert not found - expected(2, range(40)), number
        work(log, store, range(ROUNDS), batch_rows=3)
        assert rows_in(store) == expected(2, range(40)), number


@pytest.mark.slow
def test_processes_that_are_killed_one_after_the_other_at_each_of_their_changes_complete_the_files():
    for number in range(1, 8):
        log, store = output_log(), HookedStore()
        for start in range(200):
            try:
                work(log, store.killed_at(number, done=True), range(ROUNDS), batch_rows=3 + start % 3)
                break
            except Killed:
                assert not rows_in(store) - expected(2, range(40))
        else:
            assert number < 5, "a process that makes so many changes comes further with each start"
            work(log, store, range(ROUNDS))
        assert rows_in(store) == expected(2, range(40)), number


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, ROUNDS])
@pytest.mark.parametrize("done", [False, True])
def test_a_process_that_is_stopped_at_any_change_while_another_one_works_does_no_harm(done: bool, rounds: int):
    """With all rounds the other one makes so many commits that old ones are deleted meanwhile."""
    for number in range(changes_of_a_run()):
        log, store = output_log(), HookedStore()
        stopped = HookedStore(store.values)

        def hook(at: int, is_done: bool) -> None:
            if (at, is_done) == (number, done):  # noqa: B023
                work(log, store, range(rounds), batch_rows=3)  # noqa: B023

        stopped.hook = hook
        work(log, stopped, range(ROUNDS))
        assert rows_in(store) == expected(2, range(40)), number


def test_rows_wait_for_commit_after_and_no_longer_and_what_was_there_at_the_start_does_not_wait():
    log, store = output_log(1), HookedStore()
    emit(log, 0, range(2))
    sink = sink_of(log, store, commit_after="1m", batch_rows=1000)
    assert sink.turn(0.0) and sink.rows == 2
    emit(log, 0, range(2, 4))
    assert not sink.turn(10.0) and not sink.turn(69.9)
    assert sink.rows == 2 and sink.behind() == 2
    assert sink.turn(70.0) and sink.rows == 4 and sink.behind() == 0
    emit(log, 0, range(4, 6))
    assert not sink.turn(71.0) and sink.turn(71.0, flush=True)
    assert (sink.rows, sink.file_count, sink.offsets) == (6, 3, [6])


def test_a_whole_batch_does_not_wait():
    log, store = output_log(1), HookedStore()
    sink = sink_of(log, store, commit_after="1m", batch_rows=4)
    sink.turn(0.0)
    emit(log, 0, range(9))
    sink.turn(1.0)
    assert sink.rows == 8 and sink.behind() == 1
    assert sorted(name for name in store.values if name.startswith("part")) == [
        "part-00000-000000000000-000000000003.jsonl",
        "part-00000-000000000004-000000000007.jsonl",
    ]


def test_a_batch_ends_with_the_row_that_reaches_the_bytes_of_one():
    log, store = output_log(1), HookedStore()
    emit(log, 0, range(5))
    sink = sink_of(log, store, batch_rows=1000, batch_bytes=2 * len(row_of(0)))
    assert sink.turn(0.0) and sink.file_count == 3
    assert rows_in(store) == expected(1, range(5))


def test_only_the_newest_commits_stay():
    log, store = output_log(1), HookedStore()
    sink = sink_of(log, store)
    for number in range(5):
        emit(log, 0, range(number * 2, number * 2 + 2))
        sink.turn(0.0, flush=True)
    assert store.names("_holon/00000") == [
        f"_holon/00000/000000000{number}.{kind}" for number in (3, 4) for kind in ("commit", "done")
    ]


class ListedBefore(HookedStore):
    """The first listing is one of a while ago."""

    listed: list[str] | None = None

    def names(self, folder: str) -> list[str]:
        found, self.listed = self.listed, None
        return super().names(folder) if found is None else found


def test_a_commit_that_a_stopped_process_makes_again_after_it_was_deleted_has_no_effect_on_one_that_listed_before():
    log, store = output_log(1), HookedStore()
    sink = sink_of(log, store)
    listed: list[str] = []
    for number in range(6):
        emit(log, 0, range(number * 2, number * 2 + 2))
        sink.turn(0.0, flush=True)
        if number == 2:
            listed, made = (
                store.names("_holon/00000"),
                msgspec.json.decode(store.values["_holon/00000/0000000002.commit"]),
            )
    assert "_holon/00000/0000000002.commit" not in store.values
    store.values["_holon/00000/0000000002.commit"] = msgspec.json.encode({**made, "end": made["end"] + 1})
    late = ListedBefore(store.values)
    late.listed = listed
    sink_of(log, late).turn(0.0, flush=True)
    assert late.listed is None and rows_in(store) == expected(1, range(12))


def test_files_that_were_taken_away_do_not_come_back():
    log, store = output_log(1), HookedStore()
    emit(log, 0, range(3))
    sink_of(log, store).turn(0.0)
    (taken,) = [name for name in store.values if name.startswith("part")]
    store.delete(taken)
    sink_of(log, store).turn(0.0, flush=True)
    assert taken not in store.values


def test_duplicates_alone_make_no_file():
    log, store = output_log(1), HookedStore()
    emit(log, 0, range(3))
    sink = sink_of(log, store)
    sink.turn(0.0)
    emit(log, 0, range(3))
    assert sink.turn(0.0, flush=True)
    assert (sink.rows, sink.file_count, sink.offsets) == (3, 1, [6])


def test_rows_of_an_older_incarnation_than_the_newest_at_the_first_start_are_left_out():
    log, store = output_log(1), HookedStore()
    emit(log, 0, range(3), incarnation=0)
    emit(log, 0, range(5), incarnation=1)
    sink = sink_of(log, store)
    sink.turn(0.0, flush=True)
    assert rows_in(store) == expected(1, range(5)) and sink.incarnations == {JOB: 1}


def test_a_job_that_began_anew_stops_the_sink_also_when_it_goes_on_with_a_batch_that_was_promised_before():
    log, store = output_log(1), HookedStore()
    emit(log, 0, range(3))
    sink = sink_of(log, store)
    sink.turn(0.0)
    emit(log, 0, range(2), incarnation=1)
    for each in (sink, sink_of(log, store)):
        with pytest.raises(RunFailed, match=r"totals\[0\] offset 3: job 'shop' began anew.*write to a new folder"):
            each.turn(0.0, flush=True)
    assert rows_in(store) == expected(1, range(3))


def test_a_success_mark_goes_when_rows_come_after_it():
    log, store = output_log(1), HookedStore()
    emit(log, 0, range(3))
    sink = sink_of(log, store)
    sink.turn(0.0)
    assert sink.caught_up()
    sink.succeed()
    assert store.values["_SUCCESS"] == b'{"job":"shop","topic":"totals","ends":[3],"rows":3,"files":1,"dead":0}'
    again = sink_of(log, store)
    again.turn(0.0, flush=True)
    assert "_SUCCESS" in store.values
    emit(log, 0, range(3, 4))
    assert not again.caught_up()
    again.turn(0.0, flush=True)
    assert "_SUCCESS" not in store.values


def test_a_folder_keeps_to_what_it_was_made_for():
    log, store = output_log(1), HookedStore()
    emit(log, 0, range(3))
    sink_of(log, store).turn(0.0)
    for files, said in (
        ({"format": "csv"}, "have format 'jsonl', and 'csv' was given: write to a new folder"),
        ({"partition_by": ["shop"]}, "have folders '', and 'shop={shop}' was given"),
    ):
        with pytest.raises(SettingsError, match=said):
            sink_of(log, store, **files)


def test_columns_are_those_of_the_first_rows_for_all_processes_and_a_row_with_more_is_named():
    log, store = output_log(2), HookedStore()
    emit(log, 0, range(2))
    sink_of(log, store, format="csv").turn(0.0)
    headers = [OutputId(JOB, 0, 1, Track.WINDOW, 5, n).to_bytes() for n in range(2)]
    log.append(TOPIC, 1, [row_of(1, 1), b'{"other":1}'], headers=headers)
    with pytest.raises(RunFailed, match=r"totals\[1\] offset 1 does not fit a csv file: it has the fields other, and"):
        sink_of(log, store, format="csv").turn(0.0)
    assert not [name for name in store.values if name.startswith("part-00001")]


def test_a_log_that_ends_before_what_the_files_hold_is_another_one():
    log, store = output_log(1), HookedStore()
    emit(log, 0, range(3))
    sink_of(log, store).turn(0.0)
    with pytest.raises(RunFailed, match=r"ends at offset 0, and the files in memory have its rows up to 3"):
        sink_of(output_log(1), store).turn(0.0)


def test_rows_that_were_deleted_before_they_were_in_a_file_are_an_error():
    log, store = output_log(1), HookedStore()
    emit(log, 0, range(3))
    sink = sink_of(log, store)
    sink.turn(0.0)
    emit(log, 0, range(3, 8))
    log.delete_before(TOPIC, 0, 5)
    with pytest.raises(RunFailed, match=r"totals\[0\]: rows from offset 3 on were deleted before they were in a file"):
        sink.turn(0.0, flush=True)


def test_a_row_without_a_time_is_named():
    log, store = output_log(1), HookedStore()
    log.append(TOPIC, 0, [b"{}"], headers=[OutputId(JOB, 0, 0, Track.RECORD, 7, 0).to_bytes()])
    with pytest.raises(RunFailed, match=r"totals\[0\] offset 0 has no folder: it comes from a record"):
        sink_of(log, store, "out/{day}").turn(0.0)
