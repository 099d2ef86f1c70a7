"""Verdicts on schemas: the first one of a record holds for ever, whatever nodes write later, and in whatever order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nodes.machine import messages as m
from nodes.machine.control_state import ControlCheckpoint, encode_control_checkpoint
from nodes.machine.ownership.ownership import Ownership
from nodes.machine.ownership.schemas import SchemaFold

IDS, OFFSETS, PARTITIONS = range(4), range(12), range(2)
found = st.tuples(
    st.sampled_from(PARTITIONS), st.lists(st.sampled_from(IDS), max_size=2), st.integers(0, max(OFFSETS) + 1)
)


class PlainFold:
    """The verdict of each record by itself, as the rule says it."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.verdicts: dict[tuple[int, int, int], bool] = {}

    def take(self, partition: int, known: list[int], before: int) -> None:
        self.known.update(known)
        for offset in OFFSETS:
            for id in IDS:
                for number in PARTITIONS:
                    if id in self.known:
                        self.verdicts.setdefault((number, offset, id), True)
                if offset < before:
                    self.verdicts.setdefault((partition, offset, id), False)


def verdicts(fold: SchemaFold) -> dict[tuple[int, int, int], bool]:
    every = [(p, offset, id) for p in PARTITIONS for offset in OFFSETS for id in IDS]
    return {one: verdict for one in every if (verdict := fold.verdict(0, *one)) is not None}


@given(st.lists(found, max_size=12))
def test_the_first_verdict_of_each_record_holds(records: list[tuple[int, list[int], int]]) -> None:
    fold, plain = SchemaFold(), PlainFold()
    for partition, known, before in records:
        earlier = verdicts(fold)
        fold.take(0, partition, known, before)
        plain.take(partition, known, before)
        assert verdicts(fold) == plain.verdicts
        assert earlier.items() <= plain.verdicts.items()
        fold = SchemaFold(fold.state())
    for partition in PARTITIONS:
        assert all((partition, offset, id) in plain.verdicts for offset in range(fold.end(partition)) for id in IDS)


def test_damaged_records_do_not_make_the_state_grow() -> None:
    fold = SchemaFold()
    for before in range(1, 1000):
        fold.take(0, 0, [], before)
    assert fold.state().ends == [(0, [(999, 0)])]
    for id in range(5):
        for before in range(1000, 1100):
            fold.take(0, 0, [id], 100 * id + before)
    assert len(fold.state().ends[0][1]) == 6


def test_sources_of_other_registries_have_ids_of_their_own() -> None:
    fold = SchemaFold()
    fold.take(1, 3, [7], 0)
    assert fold.verdict(1, 4, 0, 7) is True and fold.verdict(0, 0, 0, 7) is None and not fold.knows(0, 7)


def test_a_job_that_goes_on_keeps_verdicts_and_one_that_begins_anew_asks_again() -> None:
    job = m.JobStarted(0, "f", 1)
    ownership = Ownership(1)
    for message in (job, m.SchemasFound(0, "a", 0, 0, [1], 5), m.SchemasFound(1, "a", 0, 0, [2], 9)):
        assert isinstance(ownership.apply(message), list)
    assert ownership.schemas.verdict(0, 0, 4, 2) is False, "the other one is of another incarnation"
    ownership.apply(m.Command(0, "code", "of a deployment"))
    assert ownership.codes == ["of a deployment"] and ownership.schemas.verdict(0, 0, 4, 2) is False
    data = encode_control_checkpoint(ControlCheckpoint(3, ownership.snapshot()))
    assert data[0] == m.SCHEMAS_VERSION
    ownership.apply(m.JobStarted(1, "f", 1, {m.CONTINUES: "{}"}))
    assert ownership.schemas.verdict(0, 0, 4, 2) is False and ownership.schemas.end(0) == 5
    ownership.apply(m.JobStarted(2, "f", 1))
    assert ownership.schemas.verdict(0, 0, 4, 2) is None and ownership.schemas.end(0) == 0
