"""When the owner of a lock is killed, and when it is left alone: the decision, on a clock of the test's own."""

from __future__ import annotations

from nodes.log.embedded.damage.stalled_writer import STOPPED_MS, STUCK_MS, Owner, StalledWriterWatch

LOOK_MS = 50


def killed_after(
    states: list[str], *, acquisitions: list[tuple[int, int]] | None = None, look_ms: float = LOOK_MS
) -> int | None:
    """The look at which the owner is killed, or None."""
    watch = StalledWriterWatch()
    for at, state in enumerate(states):
        owner = Owner(1, 1, state) if state else None
        acquisition = acquisitions[at] if acquisitions else (7, 100)
        if watch.must_kill(at * look_ms, acquisition, owner):
            return at
    return None


def test_a_stopped_owner_is_killed_after_the_limit() -> None:
    assert killed_after(["T"] * 10) == STOPPED_MS // LOOK_MS
    assert killed_after(["S"] * 5 + ["t"] * 10) == 4 + STOPPED_MS // LOOK_MS


def test_an_owner_that_goes_on_in_between_starts_again() -> None:
    assert killed_after(["T", "T", "T", "S"] * 10) is None


def test_an_owner_that_is_stopped_and_continued_in_turns_is_not_stopped() -> None:
    """A limiter of CPU time: each look finds it stopped, and it has run a little since the one before."""
    watch = StalledWriterWatch()
    assert not any(watch.must_kill(at * LOOK_MS, (7, 100), Owner(1, 1, "T", at)) for at in range(100))
    assert any(watch.must_kill((100 + at) * LOOK_MS, (7, 100), Owner(1, 1, "T", 100)) for at in range(10))


def test_an_owner_that_works_is_given_long() -> None:
    assert killed_after(["R", "S"] * (STUCK_MS // LOOK_MS // 2)) is None
    assert killed_after(["R", "S"] * STUCK_MS) == STUCK_MS // LOOK_MS


def test_an_owner_that_waits_for_its_disk_is_given_all_time() -> None:
    assert killed_after(["D"] * STUCK_MS) is None


def test_each_transaction_counts_for_itself() -> None:
    assert killed_after(["T"] * 100, acquisitions=[(7, commits) for commits in range(100)]) is None
    assert killed_after(["T"] * 100, acquisitions=[(thread, 100) for thread in range(100)]) is None


def test_an_owner_that_is_unknown_or_our_own_is_left_alone() -> None:
    assert killed_after([""] * 1000) is None


def test_time_in_which_we_did_not_look_hardly_counts() -> None:
    """All processes were stopped together, and go on together: the first look shows the owner still stopped."""
    watch = StalledWriterWatch()
    assert not watch.must_kill(0, (7, 100), Owner(1, 1, "T"))
    assert not watch.must_kill(60_000, (7, 100), Owner(1, 1, "T"))
    assert not watch.must_kill(60_050, (7, 100), Owner(1, 1, "R"))
