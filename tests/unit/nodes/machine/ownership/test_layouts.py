"""Layouts on the control topic: of two with one number the first counts, and checkpoints name what reads them."""

from __future__ import annotations

import msgspec
import pytest

from nodes.machine import messages as m
from nodes.machine.control_state import ControlCheckpoint, decode_control_checkpoint, encode_control_checkpoint
from nodes.machine.ownership.commands import LAYOUT, LAYOUT_DONE
from nodes.machine.ownership.layouts import LayoutOutcome, ProposedLayout
from nodes.machine.ownership.ownership import Ownership

RAW = msgspec.Raw(b"[]")


def text(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()


def folded(*proposed: ProposedLayout) -> Ownership:
    """Each is done but the last."""
    made = Ownership(2, owners_save=True)
    made.apply(m.JobStarted(1, "job", 2))
    for each in proposed:
        for open_one in [made.layouts.open] if made.layouts.open is not None else []:
            made.apply(m.Command(1, LAYOUT_DONE, text(LayoutOutcome(open_one.number))))
        made.apply(m.Command(1, LAYOUT if each.format == m.LAYOUTS_VERSION else m.ONLINE_LAYOUT, text(each)))
    return made


PLAIN, ONLINE, PARTED = (
    ProposedLayout(1, 3, RAW),
    ProposedLayout(1, 3, RAW, online=True),
    ProposedLayout(1, 3, RAW, parted=True),
)


@pytest.mark.parametrize(
    ("proposed", "expected"),
    [
        ([], m.FIRST_VERSION),
        ([PLAIN], m.LAYOUTS_VERSION),
        ([ONLINE], m.COPIES_VERSION),
        ([PARTED], m.COPIES_VERSION),
        ([PARTED, ProposedLayout(2, 4, RAW)], m.COPIES_VERSION),
    ],
)
def test_a_checkpoint_of_the_topic_stops_releases_that_would_look_for_keys_elsewhere(
    proposed: list[ProposedLayout], expected: int
) -> None:
    made = folded(*proposed)
    assert made.layouts.number + (made.layouts.open is not None) == len(proposed)
    data = encode_control_checkpoint(ControlCheckpoint(7, made.snapshot()))
    assert data[0] == expected
    assert Ownership.restored(decode_control_checkpoint(data).state).digest() == made.digest()


def test_of_two_layouts_with_one_number_the_first_counts() -> None:
    made = folded(PARTED)
    made.apply(m.Command(1, LAYOUT, text(ProposedLayout(1, 9, RAW))))
    assert made.layouts.open == PARTED and made.partitions == 3
