"""The live view, as text: what stands where, and that every number comes from the moment that is shown."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from holon.tracks.admission import AdmissionCounts
from nodes.fleet.live_view import duration, event_time, one_line, render
from nodes.fleet.progress import JobProgress, NodeRow, PartitionRow
from nodes.fleet.screen import LineScreen, LiveScreen
from nodes.streams.held_frontier import HeldFrontier, HeldPartition, held_text
from wcrdt.windows.assigners import END_OF_TIME_MS

START_MS = 1_735_689_600_000  # 2025-01-01 00:00:00 UTC


def progress(count: int = 2, **changes: object) -> JobProgress:
    rows = tuple(
        PartitionRow(p, p % 2, 3 + p, 1000 * (p + 1), 5000, 250.0, START_MS + 500 * p, 500 * p) for p in range(count)
    )
    nodes = (NodeRow(0, 40, 1, 1234, 5, 1, 41_000_000), NodeRow(1, 870, 1, 99, 0, 0, None))
    values: dict[str, object] = {
        "job": "q7", "incarnation": 2, "frontier_ms": START_MS, "frontier_lag_ms": 500, "rate_per_s": 500.0,
        "taken": 100, "counts": AdmissionCounts(90, 7, 2, 1), "steals": 3, "silent_after_ms": 300,
        "partitions": rows, "nodes": nodes,
    }  # fmt: skip
    return JobProgress(**{**values, **changes})  # type: ignore[arg-type]


def lines_of(shown: JobProgress, most: int = 24) -> list[list[str]]:
    console = Console(record=True, width=160, file=StringIO())
    console.print(render(shown, most))
    return [line.split() for line in console.export_text().splitlines() if line.strip()]


def test_the_header_names_job_frontier_and_rate_and_accounts_for_every_record() -> None:
    header, account, *_ = lines_of(progress())
    assert " ".join(header) == (
        "q7 incarnation 2 frontier 2025-01-01 00:00:00.000 frontier lag 500 ms 500 records/s steals 3"
    )
    assert " ".join(account) == "in 100 = accepted 90 + filtered 7 + late 2 + dead 1"


def test_late_rows_are_shown_by_state() -> None:
    counts = AdmissionCounts(90, 7, 2, 1, late_inserts=1200, late_by_state={"b": 1000, "a": 2})
    account = " ".join(lines_of(progress(counts=counts))[1])
    assert account.endswith("dead 1; 1,200 inserts into closed windows were dropped; late for a 2, b 1,000")


def test_a_loss_of_records_shows() -> None:
    assert "in 101 != accepted" in " ".join(lines_of(progress(taken=101))[1])


def test_a_partition_has_its_owner_version_position_lag_rate_and_watermark() -> None:
    row = next(line for line in lines_of(progress()) if line[0] == "1")
    assert row == ["1", "1", "4", "2,000", "5,000", "3,000", "250", "2025-01-01", "00:00:00.500", "500", "ms"]


def test_a_partition_that_nobody_has_or_that_has_ended() -> None:
    free = PartitionRow(0, None, 0, 0, 10, 0.0, None, None)
    ended = PartitionRow(1, -1, 1, 10, 10, 0.0, END_OF_TIME_MS, 1)
    shown = lines_of(progress(partitions=(free, ended), frontier_ms=None, frontier_lag_ms=None))
    assert ["0", "-", "0", "0", "10", "10", "0", "-", "-"] in shown
    assert ["1", "?", "1", "10", "10", "0", "0", "end", "-"] in shown
    assert "frontier - frontier lag -" in " ".join(shown[0])


def test_a_node_is_alive_or_silent() -> None:
    shown = lines_of(progress())
    assert ["0", "alive", "1", "1,234", "5", "1", "41", "MB", "-"] in shown
    assert ["1", "silent", "870", "ms", "1", "99", "0", "0", "-", "-"] in shown


def test_of_too_many_partitions_those_that_lag_most_are_shown() -> None:
    shown = lines_of(progress(30, nodes=()), most=4)
    assert [line[0] for line in shown[3:7]] == ["0", "1", "2", "3"]
    assert any(line[:3] == ["26", "more", "partitions,"] for line in shown)


def test_windows_that_are_left_behind_the_end_of_the_input_are_counted() -> None:
    nodes = (NodeRow(0, 40, 1, 0, 0, 0, None, windows_left=1_200), NodeRow(1, 40, 1, 0, 0, 0, None, windows_left=34))
    words = "the input has ended, 1,234 windows are still to be answered"
    assert words in one_line(progress(nodes=nodes)) and words not in one_line(progress())
    assert any(" ".join(line).endswith(words) for line in lines_of(progress(nodes=nodes)))


def test_partitions_that_hold_the_frontier_come_first_and_are_never_hidden() -> None:
    held = HeldFrontier([HeldPartition(29, None, 0, 0), HeldPartition(5, START_MS, 3, 0)], START_MS, 7_000, None)
    shown = lines_of(progress(30, nodes=(), held=held), most=4)
    assert "no window was completed for 7 s (since 2025-01-01 00:00:00.000)" in " ".join(shown[2])
    at = next(index for index, line in enumerate(shown) if line[0] == "partition" and "owner" in line)
    assert [line[:2] for line in shown[at + 1 : at + 3]] == [["5", "holds"], ["29", "holds"]]
    assert one_line(progress(held=held)).endswith(held_text(held))


def test_one_line_says_the_same() -> None:
    assert one_line(progress()) == (
        "q7: in 100 = accepted 90 + filtered 7 + late 2 + dead 1; 500/s, lag 7,000 records, "
        "frontier 2025-01-01 00:00:00.000, 1 nodes, 3 steals"
    )


@pytest.mark.parametrize(
    ("ms", "text"),
    [(None, "-"), (0, "0 ms"), (9_999, "9999 ms"), (10_000, "10.0 s"), (600_000, "10.0 min"), (36_000_000, "10.0 h"),
     (900_000_000, "10.4 d")],
)  # fmt: skip
def test_durations_are_short(ms: int | None, text: str) -> None:
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(None, "-"), (START_MS + 7, "2025-01-01 00:00:00.007"), (-1, "1969-12-31 23:59:59.999"),
     (10**15, f"{10**15} ms"), (END_OF_TIME_MS, "end")],
)  # fmt: skip
def test_event_times_are_utc_and_never_fail(ms: int | None, text: str) -> None:
    assert event_time(ms) == text


def test_lines_of_the_nodes_stand_above_the_live_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.fleet.screen.REFRESH_S", 3600.0)
    file = StringIO()
    with LiveScreen(Console(file=file, force_terminal=True, width=120, height=40)) as screen:
        assert screen.due()
        screen.show(progress())
        assert not screen.due()
        screen.print_line("node 1 | [bold] is no markup")
    assert "node 1 | [bold] is no markup" in file.getvalue()


def test_without_a_terminal_there_is_a_line_now_and_then() -> None:
    said: list[str] = []
    with LineScreen(said.append, interval_s=0.0) as screen:
        assert screen.due()
        screen.show(progress())
        screen.print_line("something")
    assert said == [one_line(progress()), "something"]
    assert not LineScreen(said.append).due()
