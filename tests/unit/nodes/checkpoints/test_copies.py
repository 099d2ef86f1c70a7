"""Checkpoints that others rest on: copies of their files, deletion, and loading with what is below."""

from __future__ import annotations

import pytest

from nodes.checkpoints.errors import CheckpointDamaged, CheckpointMissing
from nodes.checkpoints.file_names import CheckpointKey, parse_name
from nodes.checkpoints.store import load_copy
from nodes.machine import effects as x
from nodes.machine import messages as m
from nodes.machine.config import JobRun
from nodes.machine.ownership.ownership import Ownership
from nodes.sim.store import MemoryCheckpoints
from nodes.streams.io.partition_checkpoints import Storing
from tests.unit.node_dialogue import count_job
from tests.unit.nodes.machine.test_checkpoint_parts import Saved


def key(offset: int, job: str = "job") -> CheckpointKey:
    return CheckpointKey(job, 0, 0, (offset, 0), (0, 0))


def test_copies_have_names_of_their_own_and_any_intact_one_is_loaded() -> None:
    store = MemoryCheckpoints()
    name = store.save(key(1), b"contents", 3)
    copies = store.copies(name)
    assert (copies[0], len(copies), [parse_name(copy).attempt for copy in copies]) == (name, 3, [0, 1, 2])
    store.files[copies[0]] = b"damaged"
    del store.files[copies[1]]
    assert load_copy(store, name) == b"contents"
    store.files[copies[2]] = b"damaged"
    with pytest.raises(CheckpointDamaged):
        load_copy(store, name)
    store.files.clear()
    with pytest.raises(CheckpointMissing):
        load_copy(store, name)


def test_saving_again_mends_what_is_missing_of_the_copies() -> None:
    store = MemoryCheckpoints()
    name = store.save(key(1), b"contents", 3)
    store.files[store.copies(name)[1]] = b"damaged"
    assert store.save(key(1), b"contents", 3) == name
    assert len(store.copies(name)) == 4


def test_what_is_rested_on_stays_with_all_its_copies() -> None:
    store = MemoryCheckpoints()
    base = store.save(key(1), b"base", 3)
    parts = [store.save(key(offset), b"%d" % offset) for offset in range(2, 8)]
    deleted = store.prune("job", 0, 0, parts[-3:], [base])
    assert deleted == parts[:3][::-1]
    assert len(store.copies(base)) == 3
    assert len(store.prune("job", 0, 0, parts[-3:])) == 3


def test_copies_do_not_count_among_the_newest_three() -> None:
    store = MemoryCheckpoints()
    older = [store.save(key(offset), b"%d" % offset) for offset in (1, 2, 3)]
    store.save(key(4), b"base", 3)
    assert store.prune("job", 0, 0) == [older[0]]


def storing(store: MemoryCheckpoints, fold: Ownership, reports: list[str]) -> Storing:
    run = JobRun(count_job(), 0, 1, (0,), {"main": 1})
    return Storing(store, run, fold, lambda point: None, reports.append)


def owned() -> Ownership:
    fold = Ownership(1)
    for message in (m.JobStarted(0, count_job().fingerprint(), 1), m.Hello(0, "a"), m.Claim(0, "a", 0, 1)):
        fold.apply(message)
    return fold


def test_a_part_whose_base_is_gone_is_passed_over() -> None:
    saved, store, reports = Saved(), MemoryCheckpoints(), list[str]()
    for number in range(3):
        saved.save(number)
    _, whole, _ = saved.files.values()
    older = store.save(key(1, "count"), b"older")
    base = store.save(key(2, "count"), whole, 3)
    saved.files = {"x": whole, "y": whole}
    (task,) = saved.test.tasks
    task.collect()
    part = store.save(key(3, "count"), task.part([base], 0).to_bytes())
    load = storing(store, owned(), reports).loading(x.LoadCheckpoint(0, 1, [part, older]))
    for copy in store.copies(base)[:2]:
        del store.files[copy]
        found = load()
        assert (found.name, found.below) == (part, [whole])
    store.files[store.copies(base)[0]] = b"damaged"
    found = load()
    assert (found.name, found.data, found.below, len(found.problems)) == (older, b"older", [], 1)
    assert "falling back to an older checkpoint" in reports[0]


def test_a_saved_checkpoint_stays_although_those_in_use_are_ahead_of_it() -> None:
    """As after the loss of all that are in use: a part will rest on it, and count where it is ahead again."""
    store, fold = MemoryCheckpoints(), owned()
    for offset in (100, 200, 300):
        name = store.save(key(offset, "count"), b"%d" % offset)
        assert fold.apply(m.CheckpointSaved(0, "a", 0, 1, name, offset, 0, 0))
    node = storing(store, fold, [])
    base = node.saving(x.SaveCheckpoint(0, 1, 1, (10, 0), (0, 0), b"base", 3))()
    part = node.saving(x.SaveCheckpoint(0, 1, 2, (20, 0), (0, 0), b"part", 1, [base.name]))()
    assert len(store.copies(base.name)) == 3
    last = node.saving(x.SaveCheckpoint(0, 1, 3, (30, 0), (0, 0), b"last", 1, [base.name]))()
    assert len(store.copies(base.name)) == 3
    assert part.name not in store.files
    assert last.name in store.files
