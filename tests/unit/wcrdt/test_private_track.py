"""Windows that no other partition sees are held once: nothing of them waits to be sent."""

from __future__ import annotations

from wcrdt import GCounter, MapOf
from wcrdt.replica.slots import RECORD_START, PrivateTrack
from wcrdt.windows.assigners import Window

WINDOW, OTHER = Window(0, 10), Window(10, 20)


def test_inserts_and_what_is_taken_back_leave_nothing_to_send() -> None:
    track = PrivateTrack(RECORD_START, {"counts": MapOf(GCounter())})
    track.insert("counts", WINDOW, ("a", 1), 0)
    track.keep()
    for window in (WINDOW, OTHER):
        track.insert("counts", window, ("a", 2), 0)
    track.roll_back()
    track.insert_many("counts", WINDOW, (["a", "b"], [4, 8]), 0)
    held = {(state, window): value.value for state, window, value in track.items()}
    assert held == {("counts", WINDOW): {"a": 5, "b": 8}}
    assert track.unsent_bytes() == 0
    assert track.take_delta().changes == []
