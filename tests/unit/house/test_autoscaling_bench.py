"""The benches of autoscaling and of splits: when requests are due, their seconds, decisions, loads and tables."""

from __future__ import annotations

from collections import Counter
from typing import Any

from deploy.bench.transactions import costly
from deploy.bench.transactions.autoscaling import TIMES, Standing, against_load, due_times, markdown, seconds_of
from deploy.bench.transactions.moves import Move, moves_shown, moves_table
from nodes.machine.ownership.layouts import LayoutOutcome
from nodes.transactions.autoscaling.deciding import Action, Decision, Sample
from nodes.transactions.bench.reply_times import ReplyTimes

SAMPLE = Sample(at_ms=0, nodes=2, partitions=4)


def decision(at_ms: int, nodes: int) -> Decision:
    return Decision(number=1, by="one", at_ms=at_ms, action=Action("nodes", nodes, 4, ""), sample=SAMPLE)


def test_the_rate_doubles_twice_and_halves_twice() -> None:
    due = due_times(10, 3)
    assert [sum(3 * n <= at < 3 * (n + 1) for at in due) for n in range(len(TIMES))] == [30, 60, 120, 60, 30]
    assert due == sorted(due)


def test_a_second_has_the_requests_that_were_due_in_it_and_the_job_at_its_end() -> None:
    standings = [Standing(900, 1, 1, 2), Standing(2_500, 2, 1, 2)]
    first, second = seconds_of([0.0, 0.5, 1.0], [0.1, 1.5, 1.2], standings, [(1_400, 0.25), (1_500, 0.75)], 1_000)
    assert (first.due, first.replies, first.p50_ms, first.nodes, first.busy) == (2, 1, 550.0, 1, 0.5)
    assert (second.due, second.replies, round(second.p99_ms), second.nodes, second.owners) == (1, 2, 200, 2, 1)


def test_decisions_against_the_load_are_counted() -> None:
    more, less = [decision(1_000 + at, 3) for at in (0, 2_500, 3_500)], [decision(1_000 + at, 1) for at in (500, 4_900)]
    assert against_load(more, 1_000, 1) == 1, "the one in the first second of half the rate"
    assert against_load(less, 1_000, 1) == 1, "the one in the first second of all"


def test_a_load_that_falls_or_never_changes_counts_its_own_way() -> None:
    less = [decision(1_500, 1), decision(2_500, 1)]
    assert against_load(less, 1_000, 1, [4, 1, 1]) == 1, "the one while the load is at its highest"
    assert against_load(less, 1_000, 1, [1, 1]) == 0


def test_a_merge_has_its_cost_to_the_client_and_what_was_usual_before_it() -> None:
    due = [n / 100 for n in range(400)]
    answered = [at + 0.01 if not 2.0 <= at < 2.3 else 2.31 for at in due]
    made = Move(3_000, 4_000, 8, 2, LayoutOutcome(1, keys=5, size_bytes=70, downtime_ms=250))
    (row,) = moves_shown([made], ReplyTimes([9 + at for at in due], [9 + at for at in answered]), 9.0, 1_000)
    assert (row["at_s"], row["from"], row["to"], row["keys"], row["took_ms"]) == (2.0, 8, 2, 5, 1_000)
    assert (round(row["silence_ms"]), round(row["silence_before_ms"])) == (310, 10)
    assert row["after"]["p99"] < row["during"]["p99"] and 0.6 < row["least_share"] < 0.8
    assert moves_table([row])[-1].startswith("| 2.0 | 8 to 2 | 5 | 1000 | 250 | 310 | 10 | 7") and not moves_table([])


def test_the_table_has_seconds_decisions_and_problems() -> None:
    made: dict[str, Any] = {"at_s": 1.5, "decided": "nodes 1 to 2", "why": "lag", "busy": None, "p99_ms": 12.0,
                            "lag_s": 3.0, "skew": 1.0}  # fmt: skip
    seconds = seconds_of([0.0], [0.25], [Standing(0, 1, 1, 2)], [], 0)
    text = markdown({
        "seconds": [each._asdict() for each in seconds], "before": [], "decisions": [made], "replies": 1, "missing": 2,
        "violations": ["a"], "moves": [], "longest_silence_ms": 70.4, "against_load": 0, "unused_s": 0, "load": 1.0,
        "problems": ["no node"], "autoscaler_cpu_s": 1.25,
    })  # fmt: skip
    assert "| 0 | 1 | 1 | 250 | 250 | 1 | 1 | 2 | 0 |" in text
    assert "| 1.5 | nodes 1 to 2 | - | 12.00 | 3.0 | 1.0 | lag |" in text
    assert "1 replies, 2 missing, 1 violations; longest silence 70 ms." in text and "Problem: no node" in text


def test_the_partition_with_the_costly_keys_has_the_fewest_requests() -> None:
    made = [costly.request(number, 7) for number in range(9_000)]
    calls = Counter(costly.work.partition_of(each.key) for each in made)
    dear = Counter(each.key for each in made if each.args == [7])
    assert min(calls, key=lambda each: calls[each]) == 0 and dear == dict.fromkeys(costly.COSTLY_KEYS, 250)
    row = {"by": "cpu", "work": [60.5, 39.5], "split": 0, "to": 1, "buckets": 9, "costly_keys_moved": 2,
           "cpu_before": [70.0, 30.0], "cpu_after": [45.0, 55.0]}  # fmt: skip
    assert costly.table([row]).endswith("| cpu | 60.5, 39.5 | 0 | 1 | 9 | 2 | 70.0, 30.0 | 45.0, 55.0 |")
