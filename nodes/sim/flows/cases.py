"""The simulated flows by name."""

from __future__ import annotations

from dataclasses import replace

from nodes.sim.case import FIFTH_SEED, FIRST_SEED, FOURTH_SEED, SECOND_SEED, SEVENTH_SEED, SIXTH_SEED, THIRD_SEED, Case
from nodes.sim.flows.jobs import (
    Given,
    by_dead_rows,
    by_early,
    by_flow,
    by_late_rows,
    by_sessions,
    by_sliding,
    by_stages,
    by_topics,
    by_verbs,
)

EARLY = ("flow-early", "flow-early-backlog", "flow-early-late", "flow-early-sharded", "flow-early-sharded-late")
SESSIONS = (
    "flow-sessions",
    "flow-sessions-backlog",
    "flow-sessions-late",
    "flow-sessions-sharded",
    "flow-sessions-sharded-backlog",
    "flow-sessions-sharded-late",
)
SLIDING = ("flow-sliding", "flow-sliding-backlog", "flow-sliding-late")
SLIDING_SHARDED = ("flow-sliding-sharded", "flow-sliding-sharded-late")


def cases_of_flows(given: Given) -> dict[str, Case]:
    """``given``: of all that have neither idle timeouts nor lateness."""

    topics = Case(
        lambda options: by_topics(options, given.idle(options)), further_topics=("orders",), idle=True, since=FIFTH_SEED
    )
    sharded = Case(lambda options: by_sliding(options, given, sharded=True), windowed=False, since=SEVENTH_SEED)
    early = Case(lambda options: by_early(options, given), windowed=False, since=SIXTH_SEED)
    return {
        "flow": Case(lambda options: by_flow(options, given), since=FIRST_SEED),
        "flow-dead-rows": Case(
            lambda options: by_dead_rows(options, given), buries=True, further_windows=(3,), since=SECOND_SEED
        ),
        "flow-idle": Case(lambda options: by_flow(options, given.idle(options)), idle=True, since=SECOND_SEED),
        "flow-idle-backlog": Case(
            lambda options: by_flow(options, given.idle(options)), idle=True, backlog=True, since=SECOND_SEED
        ),
        "flow-late": Case(lambda options: by_flow(options, given.late(options)), late_by=1, since=SECOND_SEED),
        "flow-late-rows": Case(
            lambda options: by_late_rows(options, given), windowed=False, further_windows=(3,), since=SECOND_SEED
        ),
        "flow-sessions": Case(lambda options: by_sessions(options, given), windowed=False, since=THIRD_SEED),
        "flow-sessions-backlog": Case(
            lambda options: by_sessions(options, given.idle(options)),
            windowed=False,
            idle=True,
            backlog=True,
            since=FOURTH_SEED,
        ),
        "flow-sessions-late": Case(
            lambda options: by_sessions(options, given.late(options)), windowed=False, late_by=1, since=FOURTH_SEED
        ),
        "flow-stages": Case(lambda options: by_stages(options, given), further_windows=(3, 6), since=SECOND_SEED),
        "flow-topics": replace(topics, make=lambda options: by_topics(options, given), idle=False),
        "flow-topics-backlog": replace(topics, backlog=True),
        "flow-topics-idle": topics,
        "flow-verbs": Case(lambda options: by_verbs(options, given), buries=True, since=SECOND_SEED),
        "flow-early": early,
        "flow-early-backlog": replace(early, make=lambda o: by_early(o, given.idle(o)), idle=True, backlog=True),
        "flow-early-late": replace(early, make=lambda o: by_early(o, given.late(o)), late_by=1),
        "flow-early-sharded": replace(sharded, make=lambda o: by_early(o, given, sharded=True)),
        "flow-early-sharded-late": replace(sharded, make=lambda o: by_early(o, given.late(o), sharded=True), late_by=1),
        "flow-sessions-sharded": replace(sharded, make=lambda o: by_sessions(o, given, sharded=True)),
        "flow-sessions-sharded-backlog": replace(
            sharded, make=lambda o: by_sessions(o, given.idle(o), sharded=True), idle=True, backlog=True
        ),
        "flow-sessions-sharded-late": replace(
            sharded, make=lambda o: by_sessions(o, given.late(o), sharded=True), late_by=1
        ),
        "flow-sliding": Case(lambda options: by_sliding(options, given), windowed=False, since=SIXTH_SEED),
        "flow-sliding-backlog": Case(
            lambda options: by_sliding(options, given.idle(options)),
            windowed=False,
            idle=True,
            backlog=True,
            since=SIXTH_SEED,
        ),
        "flow-sliding-late": Case(
            lambda options: by_sliding(options, given.late(options)), windowed=False, late_by=1, since=SIXTH_SEED
        ),
        "flow-sliding-sharded": sharded,
        "flow-sliding-sharded-late": replace(
            sharded, make=lambda o: by_sliding(o, given.late(o), sharded=True), late_by=1
        ),
    }
