"""Which files an owner deletes (checkpoints/chains.py), where others have taken the partition over meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from nodes.checkpoints.file_names import CheckpointKey, digest_of, name_of
from nodes.transactions.checkpoints.chains import not_rested_on
from wcrdt.replica.slots import WINDOW_START

KEPT = 3


def file(epoch: int, number: int = 0, salt: int = 0) -> str:
    return name_of(CheckpointKey("job-txn", 1, 4, (epoch, number), WINDOW_START), digest_of(b"%d" % salt))


def test_what_nobody_knows_of_is_no_bound() -> None:
    older, own = file(3), file(9)
    assert not_rested_on([older, own], [], [own], []) == [], "another owner may have announced it"
    assert not_rested_on([older, own], [file(2)], [file(2), own], []) == []


def test_what_is_older_than_all_that_is_announced_and_under_none_of_it_goes() -> None:
    kept = [file(5), file(6), file(7)]
    names = [file(1), file(2), file(4, 1), *kept, file(8)]
    assert not_rested_on(names, kept, [*kept, file(8)], [file(2)]) == [file(1), file(4, 1)]


class World:
    """The control topic, a store, and owners that read the one late and write to the other slowly.

    ``topic``: who claims, or (who, its claim, epoch, name). An announcement counts from the owner of its claim alone.
    """

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.topic: list[str | tuple[str, int, int, str]] = []
        self.files: dict[str, list[str]] = {}
        self.owners: list[Owner] = []
        self.saves = self.deleted = 0

    def announced(self, view: int) -> tuple[str | None, int, list[tuple[int, str]]]:
        """Owner, number of its claim, and the kept checkpoints, to whom has read so far."""
        owner, claim, kept = None, 0, list[tuple[int, str]]()
        for said in self.topic[:view]:
            if isinstance(said, str):
                owner, claim = said, claim + 1
            elif said[:2] == (owner, claim) and (not kept or said[2] >= kept[-1][0]):
                kept = [*kept, said[2:]][-KEPT:]
        return owner, claim, kept

    def check(self) -> None:
        for _, name in self.announced(len(self.topic))[2]:
            missing = [each for each in (name, *self.files.get(name, ())) if each not in self.files]
            assert not missing, f"{name} is announced and rests upon {missing}"


class Owner:
    """One owner of the partition: it saves, merges, deletes and announces, each a while after the other."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        world.topic.append(name)
        self.view = len(world.topic)
        self.claim = world.announced(self.view)[1]
        kept = world.announced(self.view)[2]
        at = world.draw.randrange(len(kept) + 1)  # those after it are damaged; 0: begins with the log
        self.chain = [*world.files[kept[at - 1][1]], kept[at - 1][1]] if at else []
        self.epoch = kept[at - 1][0] if at else 0
        self.merged: tuple[list[str], str] | None = None
        self.save: tuple[int, str, list[str], list[str], bool] | None = None
        self.going: list[str] | None = None

    def step(self) -> None:
        world, draw = self.world, self.world.draw
        self.epoch += draw.randrange(3)
        if draw.random() < 0.3:
            self.view = draw.randint(self.view, len(world.topic))
        elif self.save is None:
            self.begin_save()
        elif self.going is None:
            self.list_files()
        else:
            self.end_save()

    def begin_save(self) -> None:
        world = self.world
        owner, claim, kept = world.announced(self.view)
        if (owner, claim) != (self.name, self.claim) or (kept and self.epoch < kept[-1][0]):
            return
        known = [name for _, name in kept]
        self.save = (
            self.epoch,
            file(self.epoch, 0, world.draw.getrandbits(60)),
            list(self.chain),
            known,
            bool(self.merged),
        )

    def list_files(self) -> None:
        assert self.save is not None
        world, (_, name, chain, known, merging) = self.world, self.save
        world.files[name] = chain
        if not set(chain) <= set(world.files):
            self.save, self.chain = None, []  # all is saved once
            return
        under = {each for kept in (*known, name) for each in world.files.get(kept, [])}
        self.going = [] if merging else not_rested_on(list(world.files), known, [*known, name], under)

    def end_save(self) -> None:
        assert self.save is not None and self.going is not None
        world, (epoch, name, chain, _, _) = self.world, self.save
        for gone in self.going:
            world.deleted += world.files.pop(gone, None) is not None
        world.topic.append((self.name, self.claim, epoch, name))
        world.saves += 1
        self.chain, self.save, self.going = [*chain, name], None, None
        if self.merged is not None and world.draw.random() < 0.5:
            (parts, made), self.merged = self.merged, None
            at = self.chain.index(parts[0]) if parts[0] in self.chain else None
            if at is not None and self.chain[at : at + len(parts)] == parts:
                self.chain[at : at + len(parts)] = [made]
        elif len(self.chain) > 3 and world.draw.random() < 0.3:
            self.merged = self.chain[-3:], file(epoch, 1, world.draw.getrandbits(60))
            world.files[self.merged[1]] = []


@pytest.mark.slow
def test_no_owner_deletes_what_another_one_depends_on_however_late_it_is() -> None:
    saves = deleted = 0
    for seed in range(300):
        world = World(seed)
        world.owners.append(Owner(world, "a0"))
        for turn in range(150):
            if world.draw.random() < 0.05:
                world.owners.append(Owner(world, f"a{turn + 1}"))
            world.draw.choice(world.owners[-3:]).step()
            world.check()
        saves, deleted = saves + world.saves, deleted + world.deleted
    assert saves > 4_000 and deleted > 500
