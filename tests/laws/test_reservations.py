"""The reservation table is a lattice like every other one."""

from __future__ import annotations

from hypothesis import strategies as st

from transactional.reservations import Reservations
from wcrdt import check_laws

KEYS = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["", "x", "y", "ß"]))


def test_reservations_keep_the_laws() -> None:
    tids = st.one_of(st.integers(0, 5), st.integers(-1, 2**63))
    check_laws(Reservations(), st.tuples(KEYS, tids))


def test_the_lowest_tid_wins() -> None:
    one, other = Reservations(), Reservations()
    one.insert((("a", "x"), 7))
    other.insert((("a", "x"), 3))
    one.merge(other)
    assert one.value == {("a", "x"): 3}
    assert one.conflicts(4, [("a", "x")]) and not one.conflicts(3, [("a", "x")])
