"""Records that a standby holds back, and whether a node waits for them."""

from __future__ import annotations

from transactional.epochs.appends import AppendCommit, AppendEpochs, AppendReply
from transactional.epochs.messages import Cut, Replies, to_bytes
from transactional.standby import UnitStandby

REPLIES = to_bytes(Replies(1, 0, []))


def test_a_standby_watches_while_others_may_wait_for_what_it_holds() -> None:
    standby = UnitStandby()
    assert not standby.watches(0)
    standby.keep(1, 100, [AppendEpochs(to_bytes(Cut(0, 1, 0, 1, 1, 0, [])))])
    assert standby.watches(0), "the epoch is not over"
    assert not standby.watches(1), "it is over, so the owner's record was read"
    standby.keep(1, 100, [AppendCommit(0, b"c"), AppendReply(0, REPLIES)])
    standby.forget(1)
    assert standby.watches(1), "nobody has seen the reply"
    standby.saw_reply((1, 0))
    assert not standby.watches(1), "nobody waits for a commit"
