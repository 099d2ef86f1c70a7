"""Laws of autoscaling: never beyond the limits, no flapping, nothing without samples; and a fleet comes to rest."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from nodes.transactions.autoscaling.deciding import Action, Decision, Limits, Sample, decide, direction

INTERVAL_MS = 5_000
RANGES = st.tuples(st.integers(1, 5), st.integers(0, 5)).map(lambda drawn: (drawn[0], sum(drawn)))


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    nodes, partitions = draw(RANGES), draw(RANGES)
    return Limits(
        min_nodes=nodes[0], max_nodes=nodes[1], min_partitions=partitions[0], max_partitions=4 * partitions[1],
        p99_ms=100, lag_s=2, samples=draw(st.integers(1, 4)), cooldown_s=draw(st.sampled_from([0, 30, 60])),
    )  # fmt: skip


CALM: dict[str, float | bool | None] = {"busy": 0.05, "skew": 1.0}
TOO_MUCH = st.sampled_from(
    [CALM | {"busy": 1.0}, CALM | {"busy": 0.7, "lag_s": 9.0}, CALM | {"busy": 0.9, "skew": 3.0}]
)
ODD = st.fixed_dictionaries(
    {
        "busy": st.none() | st.sampled_from([0.0, 0.3, 0.45, 0.55, 0.85]),
        "p99_ms": st.none() | st.sampled_from([5.0, 60.0, 500.0]),
        "lag_s": st.sampled_from([0.0, 0.0, 1.5, 30.0]),
        "skew": st.sampled_from([1.0, 3.0]),
        "hottest_key": st.sampled_from([0.1, 0.9]),
        "coldest_part": st.sampled_from([0.2, 0.8]),
        "settled": st.sampled_from([True, True, True, False]),
    }
)
LOADS = st.lists(st.just(CALM) | TOO_MUCH | TOO_MUCH | ODD, min_size=2, max_size=8)


class Job:
    """Each decision holds at the next sample, or ``delay`` samples later. ``loads`` hold for some samples each."""

    def __init__(self, limits: Limits, nodes: int, partitions: int, delay: int = 0) -> None:
        self.limits = limits
        self.delay = delay
        self.nodes, self.partitions = nodes, partitions
        self.samples: list[Sample] = []
        self.decisions: list[Decision] = []

    def sample(self, load: dict[str, float | bool | None]) -> Action:
        at_ms = INTERVAL_MS * (1 + len(self.samples))
        if self.decisions and at_ms - self.decisions[-1].at_ms > INTERVAL_MS * self.delay:
            self.nodes, self.partitions = self.decisions[-1].action.nodes, self.decisions[-1].action.partitions
        coldest = min(1, self.partitions - 1)  # of one partition it is that one
        self.samples.append(
            Sample(at_ms=at_ms, nodes=self.nodes, partitions=self.partitions, hottest=0, coldest=coldest, **load)  # type: ignore[arg-type]
        )
        last = self.decisions[-1] if self.decisions else None
        action = decide(self.samples[-6:], self.limits, last)
        if action.kind != "none":
            number = len(self.decisions) + 1
            self.decisions.append(
                Decision(number=number, by="one", at_ms=at_ms, action=action, sample=self.samples[-1])
            )
        return action


@given(limits(), st.integers(1, 12), st.integers(1, 30), LOADS, st.integers(1, 6))
@example(
    drawn=Limits(
        min_nodes=1, max_nodes=1, min_partitions=1, max_partitions=4, p99_ms=100, lag_s=2, samples=1, cooldown_s=0
    ),
    nodes=1, partitions=1, loads=[CALM, CALM | {"busy": 0.9, "skew": 3.0}], each=1,
)  # fmt: skip
def test_decisions_stay_within_limits_and_do_not_flap(
    drawn: Limits, nodes: int, partitions: int, loads: list[dict[str, float | bool | None]], each: int
) -> None:
    job = Job(drawn, nodes, partitions)
    for load in loads:
        for _ in range(each):
            job.sample(load)
    for made in job.decisions:
        action, sample = made.action, made.sample
        assert action.kind != "none" and sample.settled
        changed = (action.nodes, action.partitions) != (sample.nodes, sample.partitions)
        assert changed != (action.kind == "split" and action.target == sample.coldest)
        assert action.nodes in {sample.nodes, *range(drawn.min_nodes, drawn.max_nodes + 1)}
        assert action.partitions in {sample.partitions, *range(drawn.min_partitions, drawn.max_partitions + 1)}
        fresh = [each for each in job.samples if each.at_ms <= made.at_ms]
        before = [each for each in job.decisions if each.number < made.number]
        enough = [each for each in fresh if not before or each.at_ms > before[-1].at_ms]
        assert len(enough) >= drawn.samples
    for before, after in pairwise(job.decisions):
        opposite = direction(before.action, before.sample) != direction(after.action, after.sample)
        assert not opposite or after.at_ms - before.at_ms >= 1000 * drawn.cooldown_s


@given(st.integers(1, 8), st.floats(0.05, 6.0))
@example(2, 0.9)
def test_a_steady_load_leads_to_rest(nodes: int, work: float) -> None:
    """``work``: as much as so many nodes can do. Each busy share follows from it."""
    job = Job(
        Limits(
            min_nodes=1, max_nodes=12, min_partitions=16, max_partitions=64, p99_ms=100, lag_s=2, cooldown_s=60
        ),
        nodes, 16,
    )  # fmt: skip
    for _ in range(300):
        job.sample({"busy": min(1.0, work / job.nodes), "lag_s": 10.0 if work > job.nodes else 0.0})
    assert work <= 0.8 * job.nodes and all(each.at_ms < 250 * INTERVAL_MS for each in job.decisions)
    assert job.nodes == 1 or work / (job.nodes - 1) > 0.5, "none is there for nothing"


@settings(max_examples=40)
@given(st.integers(0, 9), st.floats(0.2, 0.8), st.integers(1, 12))
@example(6, 0.45, 2)
def test_a_load_that_doubles_and_halves_is_followed_and_leaves_nothing_behind(
    delay: int, work: float, partitions: int
) -> None:
    """Nodes take ``delay`` samples to come and to go. No decision is made twice, nor one against the load."""
    given = Limits(
        min_nodes=1, max_nodes=12, min_partitions=1, max_partitions=24, p99_ms=100, lag_s=2, cooldown_s=30
    )  # fmt: skip
    job, rising = Job(given, 1, partitions, delay), {1: True, 2: True, 4: True, -2: False, -1: False}
    for times, is_rising in rising.items():
        before = len(job.decisions)
        for _ in range(60):
            mine = work * abs(times)
            job.sample({"busy": min(1.0, mine / job.nodes), "lag_s": 10.0 if mine > job.nodes else 0.0})
        assert work * abs(times) <= 0.8 * job.nodes, "there are enough"
        first = not before and times == 1  # what there is too much of at first goes
        for made in job.decisions[before:]:
            assert first or (direction(made.action, made.sample) > 0) == is_rising
    for before_this, made in pairwise(job.decisions):
        assert made.at_ms - before_this.at_ms > INTERVAL_MS * delay, "it was asked for while it came"
    assert job.nodes == 1 or work / (job.nodes - 1) > 0.5
    assert job.partitions <= 4 * job.nodes or work / job.nodes > 0.5
