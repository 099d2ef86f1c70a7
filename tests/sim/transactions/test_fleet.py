"""Fleets with standbys, slow stores and kills at the worst moments: what was acknowledged stands, and stands once."""

from __future__ import annotations

import json
import os
from itertools import chain
from random import Random

import pytest

from nodes.log.contract import LogUnavailable, TopicPartition
from nodes.log.memory import MemoryLog
from nodes.sim.case import EIGHTEENTH_SEED, SEVENTEENTH_SEED, THIRTEENTH_SEED
from tests.sim.cut_off_callers import COMMAND_CALLS, MOST_WAITS, CallerLog, CommandLog
from tests.sim.cut_off_log import CutOffLog
from tests.sim.moving_faults import ANY_TIME, STEPS, WAYS
from tests.sim.outside_world import OutsideWorld
from tests.sim.transactions_books import Books, check_replies
from tests.sim.transactions_fleet import simulate
from tests.sim.transactions_met import Met
from tests.sim.transactions_oracle import each_seed
from transactional.errors import Aborted
from transactional.requests.requests import WireRequest

SEEDS = 31
CALLERS = ("client cut off", "retried", "command stood still", "command cut off", "lost", "late", "arrived", "rival")
RIVALS = THIRTEENTH_SEED + 7, THIRTEENTH_SEED + 19, THIRTEENTH_SEED + 29
SPILLED = SEVENTEENTH_SEED + 25, SEVENTEENTH_SEED + 271
RARE = SEVENTEENTH_SEED + 90_000_028
"""It meets later portions and a node without room, as one of eight and of six do: 31 meet none once in fifty runs."""
MOVED = (EIGHTEENTH_SEED + 3010, "moved_calls"), (EIGHTEENTH_SEED + 3012, "moved_postponed")
"""One of 30 and one of 90 fleets meet these."""
NO_ROOM = "no room for state"
FUNCTIONS = {"add", "ask", "via", "hop", "take", "total", "ended"}
KILLS = {"after a save", "after a notice", "after a promotion", "at any time", "all at once"}


@pytest.mark.long
def test_nothing_acknowledged_is_lost_or_done_twice() -> None:
    base, met = int(os.environ["SIM_BASE_SEED"]), Met()
    for found in chain(each_seed(base, SEEDS, simulate), each_seed(RARE, 1, simulate)):
        met.add(found)
    assert met.kills.keys() - {NO_ROOM} == KILLS, met
    assert met.spills and met.full_spills and met.kills[NO_ROOM], met
    assert met.spilled_layouts and met.outside_layouts and met.portions, met
    assert met.upgraded_moves, met
    assert met.outside > met.again > 0 and met.late and met.functions.keys() == FUNCTIONS, met
    assert met.answered and met.saved and met.promotions and met.handovers, met
    assert met.stalls and met.restored and met.ledger_waits and met.upgrades, met
    assert met.starved and met.backlogs, met
    assert met.full_waits and met.full_moves and met.full_killed, met
    assert met.layouts > met.online > 0 and met.splits and met.moved and met.alone, met
    assert {fault for _, fault in met.at_steps} == {"split", "damage"}, met.at_steps
    assert len({step for step, _ in met.at_steps} - {ANY_TIME}) >= len(STEPS) / 2, met.at_steps
    assert json.loads(json.dumps(met.shown()))["at_steps"], "as the command prints it"
    assert (ANY_TIME, "split") in met.at_steps and all(met.callers[each] for each in CALLERS), met


@pytest.mark.parametrize("seed", SPILLED)
def test_a_full_disk_of_spilled_state_is_no_outcome_of_a_transaction(seed: int) -> None:
    """A function met it as its own exception. So the next owner computed what the log had not, or a client got it."""
    met = simulate(seed)
    assert met.full_spills and met.kills[NO_ROOM]


@pytest.mark.long
@pytest.mark.parametrize(("seed", "what"), MOVED)
def test_calls_outside_that_are_open_and_postponed_transactions_meet_moves_of_their_keys(seed: int, what: str) -> None:
    met = simulate(seed)
    assert met.shown()[what] and met.layouts and met.upgraded_moves, met


def test_books_find_what_is_lost_done_twice_or_answered_in_two_ways() -> None:
    now_ms = [0]
    made = Books(SEVENTEENTH_SEED + 5, ["count"], 4, OutsideWorld(SEVENTEENTH_SEED, lambda: now_ms[0]))
    key = made.keys[0]
    for count in (1, 2, 3, 1):
        made.answered(WireRequest(f"r{count}", "count", key, "add", [1]), count)
    made.answered(WireRequest("t", "count", key, "take", []), 3)
    made.check_key(key, 1)
    for wrong in (0, 2):
        with pytest.raises(AssertionError, match="was acknowledged as"):
            made.check_key(key, wrong)
    with pytest.raises(AssertionError, match="is answered for"):
        made.answered(WireRequest("a", "count", key, "ask", [1]), [2, ["fleet:b:0", 7]])
    with pytest.raises(AssertionError, match="is answered with"):
        made.answered(WireRequest("b", "count", key, "add", [1]), Aborted("ExternalTimeout"))
    made.answered(WireRequest("c", "count", key, "ask", [1]), Aborted("ExternalTimeout"))
    hop = WireRequest("h", "count", key, "hop", [[["count", made.keys[1]]]])
    made.answered(hop, [2, made.keys[1], 1])
    with pytest.raises(AssertionError, match="h: "):
        made.answered(hop, [3, made.keys[2], 1])
    check_replies([("r1", (b"1", None)), ("r2", (b"2", None)), ("r1", (b"1", None))])
    with pytest.raises(AssertionError, match="r1 has the replies"):
        check_replies([("r1", (b"1", None)), ("r1", (b"2", None))])


@pytest.mark.long
@pytest.mark.parametrize("seed", RIVALS)
def test_of_two_commands_at_once_the_first_of_its_number_counts(seed: int) -> None:
    """Found by their draws: the second command writes while the layout of the first moves keys, or after that."""
    assert simulate(seed).callers["rival"]


@pytest.mark.parametrize(("reads", "writes"), WAYS)
def test_a_node_that_is_cut_off_sees_the_log_as_it_was_and_what_it_writes_comes_later(
    *, reads: bool, writes: bool
) -> None:
    now_ms, plain, told = [0], MemoryLog(), list[bytes]()
    plain.create_topic("t", 1)
    log = CutOffLog(plain, lambda: now_ms[0], lambda: 10, lambda topic, values: told.extend(values))
    plain.append("t", 0, [b"a", b"b"])
    log.cut_off(reads=reads, writes=writes)
    plain.append("t", 0, [b"c"])
    plain.delete_before("t", 0, 2)
    log.send("t", 0, [b"own"])
    now_ms[0] = 50
    log.go_on()
    assert told == ([] if writes else [b"own"]) and log.is_cut_off
    if reads:
        assert (log.start_offset("t", 0), log.end_offset("t", 0)) == (0, 2)
        assert [log.poll("t", 0, at).values for at in (0, 2)] == [[], []] and log.poll("t", 0, 0).next_offset == 0
    else:
        assert list(log.poll("t", 0, 2).values) == [b"c"] + ([] if writes else [b"own"])
    if writes:
        with pytest.raises(LogUnavailable):
            log.append("t", 0, [b"x"])
    log.rejoin()
    log.go_on()
    assert list(log.poll("t", 0, 2).values) == [b"c", b"own"] and told == [b"own"]


def test_a_write_of_a_client_that_is_cut_off_is_lost_or_arrives_at_once_or_late_and_is_an_error_each_time() -> None:
    now_ms, plain, fates = [0], MemoryLog(), Random(7)
    plain.create_topic("t", 1)
    log = CallerLog(plain, lambda: now_ms[0], fates)
    log.send("t", 0, [b"before"])
    log.cut_off(reads=True, writes=True)
    for number in range(60):
        with pytest.raises(LogUnavailable):
            log.send("t", 0, [b"%d" % number])
    assert log.met["lost"] + log.met["arrived"] + log.met["late"] == 60 and all(log.met.values())
    assert log.end_offset("t", 0) == 1 and plain.end_offset("t", 0) == 1 + log.met["arrived"]
    with pytest.raises(LogUnavailable):
        log.add_partitions("t", 2)
    log.rejoin()
    now_ms[0] = 300
    log.go_on()
    some = log.end_offset("t", 0) - 1 - log.met["arrived"]
    log.go_on(all_of_it=True)
    log.go_on(all_of_it=True)
    values = list(plain.poll("t", 0, 0).values)
    assert len(values) == len(set(values)) == 1 + log.met["arrived"] + log.met["late"]
    assert 0 < some < log.met["late"]


def test_a_command_stands_still_once_and_is_cut_off_from_there_on() -> None:
    plain, stood = MemoryLog(), list[int]()
    plain.create_topic("t", 1)
    log = CommandLog(
        plain, lambda: 0, Random(5), lambda: stood.append(plain.append("t", 0, [b"another"]).count), (True, False)
    )
    ends = [log.end_offset("t", 0) for _ in range(2 * COMMAND_CALLS)]
    assert stood == [1] and sorted(set(ends)) == [0, 1]
    log.append("t", 0, [b"own"])
    assert (log.end_offset("t", 0), plain.end_offset("t", 0)) == (1, 2), "it sees no news, its own among them"
    with pytest.raises(LogUnavailable, match="nothing new"):
        for _ in range(MOST_WAITS + 1):
            log.wait({TopicPartition("t", 0): 1}, 1.0)
