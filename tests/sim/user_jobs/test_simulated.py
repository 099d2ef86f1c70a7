"""A user's own job under faults gives what one plain pass gives; a job that does not is found, by its seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from examples import top_items
from holon.job import Job
from nodes.errors import RunFailed
from nodes.sim.many import explain
from nodes.sim.user_jobs.drawing import feeds_of
from nodes.sim.user_jobs.plain_pass import data_facts
from nodes.sim.user_jobs.simulated import Drawn, UserJob
from tests.sim import user_jobs_given as given

FIRST = 1 << 40
ROOT = Path(__file__).parents[3]


def simulated(job: Job[Any], lines: dict[str, list[bytes]] | None = None, **drawn: Any) -> UserJob:
    by_topic = lines or {"orders": given.lines()}
    return UserJob(job, by_topic, Drawn(**drawn), data_facts(job, by_topic), lambda seed: f"again {seed}")


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(given.RIGHT))
def test_right_jobs_hold_under_faults(name: str) -> None:
    runs, happened = simulated(given.RIGHT[name]), Counter[str]()
    for seed in range(FIRST, FIRST + 4):
        verdict = runs.simulate(seed)
        assert verdict.ok, explain(verdict)
        happened.update(verdict.counts)
    assert happened["died"] > 10 and happened["saved"] > 10
    assert any(name.startswith("cut-") for name in happened)


def test_records_of_a_topic_are_on_its_partitions() -> None:
    lines = given.of_two_topics()
    feeds = feeds_of(lines, {"orders": 2, "refunds": 1}, simulated(given.refunds(), lines).options(FIRST), Random(1))
    assert sorted(feed.payload for feed in feeds if feed.partition == 2) == sorted(lines["refunds"])
    assert {feed.partition for feed in feeds} == {0, 1, 2} and len(feeds) == 182


@pytest.mark.long
@pytest.mark.parametrize("idle", [None, "1h"])
def test_a_job_of_two_topics_holds_under_faults(idle: str | None) -> None:
    job, lines = given.refunds(idle), given.of_two_topics()
    facts = data_facts(job, lines)
    assert (facts.records, facts.dead) == (182, 2) and facts.results > 50
    runs = simulated(job, lines)
    for seed in range(FIRST, FIRST + 4):
        assert runs.options(seed).partitions >= 2
        verdict = runs.simulate(seed)
        assert verdict.ok, explain(verdict)
    assert simulated(job, lines, partitions=3).options(FIRST).partitions == 6, "three of each topic"


@pytest.mark.parametrize("job", [top_items.job, top_items.flow.job])
def test_the_example_holds(job: Job[Any]) -> None:
    lines = {job.topics[0]: (ROOT / "examples/items.jsonl").read_bytes().splitlines()}
    runs = UserJob(job, lines, Drawn(), data_facts(job, lines), str)
    verdict = runs.simulate(FIRST + 1)
    assert verdict.ok, explain(verdict)


def test_a_plain_pass_counts_what_became_of_the_records() -> None:
    facts = data_facts(given.RIGHT["latest"], {"orders": given.lines()})
    assert (facts.records, facts.dead) == (121, 1)
    assert facts.filtered == 40 and facts.late > 1
    assert facts.accepted + facts.filtered + facts.late + facts.dead == 121
    assert facts.span_ms > 3000


@pytest.mark.long
@pytest.mark.parametrize("make", [given.by_clock, given.by_counter])
def test_what_differs_each_time_is_found_at_once_and_said_so(make: Callable[[], Job[Any]]) -> None:
    runs = simulated(make())
    calm = runs.simulate(FIRST, calm=True).problem or ""
    assert "results on 'results', and of one plain pass" in calm  # with faults two nodes may differ before that
    problems = [calm, *(runs.simulate(seed).problem or "" for seed in range(FIRST, FIRST + 4))]
    assert all("two plain passes over these records differ, too" in problem for problem in problems)


@pytest.mark.long
def test_what_is_wrong_after_a_crash_alone_is_found_with_its_seed_and_the_seed_finds_it_again() -> None:
    """The job remembers what it has seen, so each run is of a new one."""
    verdicts = {seed: simulated(given.by_memory()).simulate(seed) for seed in range(FIRST, FIRST + 12)}
    failed = [seed for seed, verdict in verdicts.items() if not verdict.ok]
    assert failed
    again, first = simulated(given.by_memory()).simulate(failed[0]), verdicts[failed[0]]
    assert (again.problem, again.digest, again.replay) == (first.problem, first.digest, f"again {failed[0]}")
    assert first.problem is not None and "plain passes" not in first.problem


def test_the_same_job_without_faults_is_right() -> None:
    runs = simulated(given.by_memory())
    assert runs.options(FIRST, calm=True).faults != runs.options(FIRST).faults
    verdict = runs.simulate(FIRST, calm=True)
    assert verdict.ok, explain(verdict)


def test_given_partitions_and_replicas_are_kept() -> None:
    runs = simulated(given.RIGHT["sums"], partitions=7, replicas=2, max_nodes=3)
    for seed in range(FIRST, FIRST + 5):
        options = runs.options(seed)
        assert (options.partitions, options.replicas) == (7, 2) and options.max_nodes <= 3
    verdict = runs.simulate(FIRST)
    assert verdict.ok, explain(verdict)


def test_jobs_that_fail_or_take_nothing_without_any_fault_are_refused() -> None:
    with pytest.raises(RunFailed, match=r"'failing' fails on these records in one plain pass.*twenty"):
        data_facts(given.failing(), {"orders": given.lines()})
    with pytest.raises(RunFailed, match=r"accepts none of the 121 records.*the first dead letter: "):
        data_facts(given.none_accepted(), {"orders": given.lines()})
