"""Figures of a migration from the times of its requests: silences, worst seconds, and the phases around it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nodes.transactions.bench.reply_times import Interval, Phase, ReplyTimes


def steady(*, stops_s: float, goes_on_s: float, to_s: float, rate: int = 100) -> ReplyTimes:
    """A request is due each 1/rate s, and answered 10 ms later; those that come in a stop, when it is over."""
    due = [k / rate for k in range(int(to_s * rate))]
    return ReplyTimes(due, [goes_on_s if stops_s <= each + 0.01 < goes_on_s else each + 0.01 for each in due])


def test_downtime_is_the_longest_silence_while_replies_are_due() -> None:
    #        0    1    2    3    4    5    6
    # due    a         b                   c
    # given    a                 b         c     no reply is due between a and b's turn
    times = ReplyTimes([0.0, 2.0, 6.0], [0.5, 4.5, 6.1])
    assert times.downtime_ms(Interval(1.0, 5.0)) == pytest.approx(2500)
    assert times.downtime_ms(Interval(3.0, 5.0)) == pytest.approx(1500), "the silence before is not the migration's"
    assert times.downtime_ms(Interval(1.0, 2.5)) == pytest.approx(2500), "it lasts until the next reply"
    assert times.downtime_ms(Interval(4.6, 5.9)) == 0, "nothing is due"
    assert times.downtime_ms(Interval(7.0, 8.0)) == 0, "all is answered"


def test_a_request_that_waits_longer_than_later_ones_is_still_due() -> None:
    times = ReplyTimes([0.0, 1.0], [3.0, 1.5])
    assert times.downtime_ms(Interval(0.0, 4.0)) == pytest.approx(1500)
    assert times.downtime_ms(Interval(0.0, 1.2)) == pytest.approx(1500), "none is given from 0 to 1.5"


def test_the_worst_second_is_the_one_in_which_the_least_of_what_is_due_is_given() -> None:
    times = steady(stops_s=3.0, goes_on_s=3.4, to_s=8.0)
    assert times.least_share(Interval(3.0, 3.4)) == pytest.approx(0.6, abs=0.02)
    assert times.least_share(Interval(5.0, 6.0)) == pytest.approx(1.0, abs=0.02), "nothing happens there"
    assert steady(stops_s=3.0, goes_on_s=4.5, to_s=8.0).least_share(Interval(3.1, 4.0)) == 0


def test_replies_that_catch_up_do_not_hide_the_silence_before_them() -> None:
    #  a stop of 0.3 s, and all replies at once behind it: the second that begins with the stop has them all
    times = steady(stops_s=3.0, goes_on_s=3.3, to_s=6.0)
    assert times.least_share(Interval(3.0, 3.3)) == pytest.approx(0.7, abs=0.02)


def test_a_burst_has_no_worst_second() -> None:
    assert ReplyTimes([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]).least_share(Interval(0.5, 1.5)) is None


def test_phases_have_the_requests_that_waited_in_them_and_the_replies_given_in_them() -> None:
    phases = steady(stops_s=4.0, goes_on_s=4.5, to_s=10.0).phases([Interval(4.0, 5.0)])
    before, during, after = phases["before"], phases["during"], phases["after"]
    assert before is not None and during is not None and after is not None
    assert (before.p50, before.p99) == (pytest.approx(10), pytest.approx(10))
    assert before.replies_per_s == pytest.approx(100, rel=0.02)
    assert during.p99 == pytest.approx(510, abs=15) and during.replies_per_s == pytest.approx(100, rel=0.03)
    assert after.p99 == pytest.approx(10) and after.replies_per_s == pytest.approx(100, rel=0.02)


def test_each_request_is_in_one_phase_and_those_between_two_migrations_are_after_the_first() -> None:
    due = [float(k) for k in range(10)]
    times = ReplyTimes(due, [each + 0.5 + each / 100 for each in due])
    phases = times.phases([Interval(2.0, 3.0), Interval(6.0, 6.1)])
    assert phases["before"] == pytest.approx(Phase(500, 510, 1.0))
    assert phases["during"] == pytest.approx(Phase(520, 560, 1 / 1.1))
    assert phases["after"] == pytest.approx(Phase(550, 590, 7 / (3.0 + 9.59 - 6.1)))


def test_a_request_that_a_migration_holds_up_counts_in_it_though_it_was_due_before() -> None:
    phases = ReplyTimes([1.0, 1.9, 4.0], [1.1, 2.5, 4.1]).phases([Interval(2.0, 3.0)])
    assert phases["before"] == pytest.approx(Phase(100, 100, 1.0)) and phases["during"] == pytest.approx((600, 600, 1))


def test_without_a_migration_there_are_no_phases_and_without_requests_in_one_it_is_none() -> None:
    times = ReplyTimes([1.0, 2.0], [1.5, 2.5])
    assert times.phases([]) == {"before": None, "during": None, "after": None}
    at_once = times.phases([Interval(0.5, 9.0)])
    assert at_once["before"] is None and at_once["after"] is None and at_once["during"] is not None
    assert times.phase(Interval(1.6, 1.9)) is None and times.phase(Interval(2.1, 2.2)) is not None


def test_the_sum_of_all_silences_is_the_time_in_which_replies_are_due() -> None:
    due, answered = [0.0, 0.2, 2.0, 2.1], [0.5, 0.4, 2.2, 3.0]
    times = ReplyTimes(due, answered)
    ends = [0.0, 0.4, 0.5, 2.0, 2.2, 3.0]
    silences = [times.downtime_ms(Interval(a, a + 1e-9)) for a, _ in pairwise(ends)]
    assert silences == [pytest.approx(each, abs=1e-3) for each in (400, 100, 0, 200, 800)]
