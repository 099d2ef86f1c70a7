"""Draws what one seed decides before the run begins."""

from __future__ import annotations

import random
from dataclasses import replace

from nodes.sim.case import (
    EIGHTH_SEED,
    FIFTH_SEED,
    FIRST_SEED,
    NINTH_SEED,
    SECOND_SEED,
    SEVENTH_SEED,
    TENTH_SEED,
    THIRD_SEED,
)
from nodes.sim.faults.backlogs import case_of, with_backlog
from nodes.sim.faults.code_changes import with_code_changes
from nodes.sim.faults.continuing import with_continuing
from nodes.sim.faults.drift import with_drift
from nodes.sim.faults.mixed_fleets import with_mixed_nodes
from nodes.sim.faults.stress import replicas as replicas_of
from nodes.sim.faults.stress import stressed
from nodes.sim.jobs import CASES
from nodes.sim.options import ISOLATIONS, TRUNCATIONS, Faults, Options
from nodes.sim.process_wide.spilled_columns import with_spilled_columns

NEWER_SHARE, NEWEST_SHARE = 0.06, 0.15
"""Of the seeds that draw a job which older seeds did not know: from ``FIRST_SEED`` and ``SECOND_SEED`` on."""
SLICED_SHARE = 0.3
"""Of the seeds from ``SEVENTH_SEED`` on that draw one of the jobs that came with sessions, or later."""


def draw(
    seed: int, max_nodes: int = 6, case: str | None = None, calm: bool = False, replicas: int | None = None
) -> Options:
    """The options of a seed. ``calm`` switches all faults off; ``replicas`` None: drawn."""
    rng = random.Random(f"options {seed}")
    others = sorted(name for name, kind in CASES.items() if not kind.backlog and not kind.since)
    chosen = case if case is not None else case_of(seed) or _newer_case(seed) or rng.choice(others)
    rng = random.Random(f"options {seed} {chosen}")
    partitions = max(rng.choice([1, 2, 2, 3, 3, 4, 5]), 1 + len(CASES[chosen].further_topics))
    suspect = rng.choice([60, 120, 300])
    nodes = rng.randint(1, min(4, max_nodes))
    faults = Faults() if calm else drawn_faults(rng, CASES[chosen].idle, suspect)
    options = Options(
        seed=seed,
        case=chosen,
        nodes=nodes,
        max_nodes=max(nodes, rng.randint(min(2, max_nodes), max_nodes)),
        partitions=partitions,
        output_partitions=rng.randint(1, 4),
        records=rng.choice([0, 5, 40, 120, 250, 400]),
        empty_partitions=rng.choice([0, 0, 0, 1, 2]) % partitions,
        poison=rng.choice([0.0, 0.0, 0.05]),
        late=rng.choice([0.0, 0.1, 0.3]),
        future=rng.choice([0.0, 0.02]),
        marked=rng.choice([0.0, 0.02, 0.1]),
        keys=rng.choice([1, 3, 10]),
        window_ms=rng.choice([50, 200, 1000]),
        spread_ms=rng.choice([5, 20, 60]),
        delay_ms=rng.choice([0, 0, 30]),
        feed_ms=rng.choice([0, 1000, 2500, 2500]),
        preloaded=rng.choice([0.0, 0.0, 0.5]),
        batch_max_records=rng.choice([1, 5, 30, 1000]),
        heartbeat_interval_ms=max(10, suspect // rng.choice([3, 5])),
        failure_timeout_ms=suspect,
        broadcast_interval_ms=rng.choice([5, 50, 200]),
        checkpoint_interval_ms=rng.choice([30, 60, 100, 400, 2000]),
        max_watermark_drift_ms=rng.choice([100, 1000, 60_000, 0]),
        tick_ms=rng.choice([2, 5, 10]),
        safety_ms=rng.choice([1500, 3000]),
        same_names=rng.random() < 0.25,
        faults=faults,
    )
    drawn, patience_ms = drawn_replicas(seed)
    options = replace(options, replicas=drawn if replicas is None else replicas, standby_after_ms=patience_ms)
    if not calm and rng.random() < 0.15:
        options = _with_losses(options)
    options = with_loads(with_merging(options if calm else _with_isolation(with_arrivals(with_cuts(options)))))
    options = with_parts(_with_upstream(options if calm else _with_truncation(options)))
    options = with_mixed_nodes(with_continuing(with_backlog(options if calm else stressed(options), calm)))
    options = with_spilled_columns(options)
    return options if calm else _with_registry(with_drift(with_code_changes(options)))


def _newer_case(seed: int) -> str | None:
    """The job, where the seed is one of a job that older seeds did not know."""
    rng = random.Random(f"newer {seed}")
    if seed >= SEVENTH_SEED and rng.random() < SLICED_SHARE:
        sliced = (name for name, kind in CASES.items() if THIRD_SEED <= kind.since <= seed and not kind.backlog)
        return rng.choice(sorted(sliced))
    if seed < FIRST_SEED or rng.random() >= (NEWER_SHARE if seed < SECOND_SEED else NEWEST_SHARE):
        return None
    return rng.choice(sorted(name for name, kind in CASES.items() if 0 < kind.since <= seed and not kind.backlog))


def _stream(options: Options, name: str) -> random.Random:
    """The draws for ``name`` alone: a later addition to the draws leaves all older ones as they were."""
    return random.Random(f"options {options.seed} {options.case} {name}")


def with_cuts(options: Options) -> Options:
    """Nodes are cut off from the log, or from some of its topics, or join and leave all the time."""
    rng = _stream(options, "cuts")
    cut = rng.choice([0.002, 0.01]) if rng.random() < 0.4 else 0.0
    churn_ms = rng.choice([100, 400]) if rng.random() < 0.15 else 0
    return replace(options, faults=replace(options.faults, cut=cut, churn_ms=churn_ms))


def with_arrivals(options: Options) -> Options:
    """Sent records are on their way for some turns in half of the seeds; heartbeats go through groups in others."""
    rng = _stream(options, "arrivals")
    arrival = rng.choice([0.1, 0.5, 0.9]) if rng.random() < 0.5 else 1.0
    return replace(options, arrival=arrival, group_heartbeats_above=rng.choice([1, 3, 32, 32]))


def _with_isolation(options: Options) -> Options:
    """Some seeds have a steady input and one fault alone, so that it can be demanded how soon things happen."""
    rng = _stream(options, "isolation")
    if rng.random() >= 0.1 or options.max_nodes < 2 or CASES[options.case].fails:
        return options
    return replace(
        options,
        isolation=rng.choice(ISOLATIONS),
        nodes=max(2, options.nodes),
        records=200,
        empty_partitions=0,
        poison=0.0,
        late=0.0,
        future=0.0,
        marked=0.0,
        feed_ms=3500,
        safety_ms=3500,
        preloaded=0.0,
        batch_max_records=1000,
        failure_timeout_ms=min(120, options.failure_timeout_ms),
        heartbeat_interval_ms=min(24, options.heartbeat_interval_ms),
        broadcast_interval_ms=min(50, options.broadcast_interval_ms),
        checkpoint_interval_ms=min(100, options.checkpoint_interval_ms),
        tick_ms=min(5, options.tick_ms),
        faults=Faults(),
    )


def with_merging(options: Options) -> Options:
    """Two thirds of the seeds have merged checkpoints, half of these delete what no node needs any more.

    Then the loss of all checkpoints of a partition cannot be made good.
    """
    rng = _stream(options, "merging")
    interval_ms = rng.choice([0, 40, 150, 600, 600, 0])
    trims = interval_ms > 0 and rng.random() < 0.5
    return replace(
        options,
        merged_checkpoint_interval_ms=interval_ms,
        trims=trims,
        forget_after_ms=rng.choice([60_000, 5 * options.failure_timeout_ms]),
        faults=replace(options.faults, checkpoints_lost=0.0) if trims else options.faults,
    )


def with_loads(options: Options) -> Options:
    """A third of the seeds have a slow store: nodes live on while what they load is on its way."""
    rng = _stream(options, "loads")
    return replace(options, load_ms=rng.choice([0, 0, 0, 0, 10, 60]))


def with_parts(options: Options) -> Options:
    """Five of six new seeds have checkpoints that hold what has changed, and rest on others."""
    rng = _stream(options, "parts")
    most = rng.choice([0, 1, 3, 7, 63, 63])
    drawn = most if options.seed >= FIFTH_SEED or options.case == "keyed" else 0
    return replace(options, most_parts=drawn, parts_pause=rng.choice([0, 0, 2]) if drawn else 0)


def _with_upstream(options: Options) -> Options:
    """Some seeds read what another job has written, with all that its nodes, zombies and its reset have left there.

    Not where the input loses its end: an output that is lost, and written again behind later ones, is a duplicate.
    """
    rng = _stream(options, "upstream")
    drawn = rng.random() < 0.12 and options.truncation != "input"
    return replace(options, upstream=rng.choice([0.1, 0.5])) if drawn else options


def _with_registry(options: Options) -> Options:
    """Some new seeds read records that name schemas, of which nodes get different answers.

    Not where the end of the control topic is lost: with it those verdicts would be gone that results follow from.
    Seeds before ``TENTH_SEED`` have none beside other code either.
    """
    rng = _stream(options, "registry")
    share = rng.choice([0.02, 0.2, 0.6])
    wanted = options.seed >= EIGHTH_SEED and rng.random() < 0.08
    if not wanted or options.truncation or options.isolation or (options.code_changes and options.seed < TENTH_SEED):
        return options
    least_ms = 0 if options.seed >= NINTH_SEED else 60_000
    return replace(options, registry=share, max_watermark_drift_ms=max(least_ms, options.max_watermark_drift_ms))


def _with_truncation(options: Options) -> Options:
    """Some seeds lose the end of a topic, with no fault beside that could keep a node from noticing it.

    Where a job allows idleness, the order of the broadcast decides, which no checkpoint holds: it is cut while nodes
    run or not at all.
    """
    rng = _stream(options, "lost ends")
    chosen, alive, case = rng.choice(TRUNCATIONS), rng.random() < 0.5, CASES[options.case]
    if rng.random() >= 0.06 or options.isolation or case.fails:
        return options
    kept = options.faults
    return replace(
        options,
        truncation=chosen,
        truncation_ms=rng.randint(200, options.safety_ms - 200),
        truncation_alive=alive or (case.idle and chosen == "broadcast"),
        records=max(120, options.records),
        feed_ms=2500,
        faults=Faults(
            restart=0.2,
            delta_repeated=kept.delta_repeated,
            delta_swapped=kept.delta_swapped,
            delta_corrupt=kept.delta_corrupt,
        ),
    )


def drawn_replicas(seed: int) -> tuple[int, int]:
    """Most seeds have standbys, some so impatient that they publish beside a healthy primary."""
    rng = random.Random(f"copies {seed}")
    return replicas_of(seed, rng), rng.choice([1, 15, 40])


def _with_losses(options: Options) -> Options:
    """Checkpoints are frequent, and all that was dropped because of them is needed again."""
    return replace(
        options,
        records=250,
        window_ms=50,
        broadcast_interval_ms=5,
        checkpoint_interval_ms=60,
        safety_ms=3000,
        faults=replace(
            options.faults,
            crash_at_point=0.01,
            restart=max(options.faults.restart, 0.03),
            checkpoint_damaged=0.3,
            checkpoints_lost=0.003,
            delta_rotten=0.0,
        ),
    )


def drawn_faults(rng: random.Random, idle: bool, suspect_ms: int) -> Faults:
    """Each kind is off in about half of the seeds, so that kinds are met alone, in pairs and all together."""

    def rate(*choices: float) -> float:
        return rng.choice(choices) if rng.random() < 0.5 else 0.0

    faults = Faults(
        crash_at_point=rate(0.005, 0.02, 0.05),
        crash_all=rate(0.001, 0.004),
        restart=rng.choice([0.01, 0.03, 0.2]),
        join=rate(0.002, 0.01),
        stop_one=rate(0.002, 0.005),
        pause=rate(0.002, 0.01),
        preempt=rate(0.01, 0.03, 0.1),
        preempt_max_ms=rng.choice([20, suspect_ms * 2, suspect_ms * 10]),
        clock_jump=rate(0.001, 0.01),
        clock_rates=rng.random() < 0.3,
        stale_reads=rate(0.002, 0.01),
        refuse=rate(0.001, 0.005),
        ack_lost=rate(0.001, 0.005),
        # Where punctuation may void deltas, the order of the broadcast decides, and every reader has to see it whole.
        delta_lost=0.0 if idle else rate(0.02, 0.2),
        delta_repeated=0.0 if idle else rate(0.05, 0.3),
        delta_swapped=0.0 if idle else rate(0.05, 0.3),
        delta_corrupt=0.0 if idle else rate(0.02, 0.1),
        checkpoint_damaged=rate(0.1, 0.3),
        checkpoints_lost=rate(0.001, 0.004),
        store_unavailable=rate(0.01, 0.1),
        stop_all=rate(0.0005),
        reset=rate(0.0005),
    )
    if rng.random() < 0.3:
        # Damage on the log itself and the loss of every checkpoint of a partition cannot both be repaired, so only one
        # of them happens to a run.
        return replace(faults, delta_rotten=rng.choice([0.02, 0.1]), checkpoint_damaged=0.0, checkpoints_lost=0.0)
    return faults
