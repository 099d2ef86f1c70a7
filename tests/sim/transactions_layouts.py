"""Layouts that somebody proposes in a simulated transactional job: other numbers of partitions, other homes of keys."""

from __future__ import annotations

from msgspec.structs import replace

from nodes.transactions.layouts.halves import buckets_of, moving_half, split_layout
from tests.sim.transactions_life import CALLS, COMMITS, EPOCHS, REPLIES
from tests.sim.transactions_world import World
from transactional import events as e
from transactional.epochs.messages import NewLayout, PlannedLayout, to_bytes
from transactional.layout import Group, Homes, Layout, spread_all, spread_least
from transactional.state.restored import empty_state
from transactional.state.snapshots import FORMAT_VERSION, PartitionState

UNREST_STEPS = 120
"""While keys move: that is short, and most mistakes would show only there."""
MAX_PARTITIONS = 6
"""Of a layout."""


def propose_layout(world: World) -> None:
    """Somebody proposes the next layout, or one that is known, once all its partitions have a snapshot."""
    ledger = max((life.node.ledger for life in world.lives), key=lambda each: each.layouts.newest.number)
    newest, planned = ledger.layouts.newest, ledger.layouts.open_plan
    if planned is not None and world.copying.random() < (0.9 if ledger.copies.are_ready else 0.2):
        world.log.append(EPOCHS, 0, [to_bytes(NewLayout(planned.layout))])
        world.unrest = UNREST_STEPS
        return
    if world.copying.random() < 0.44 and (split := split_of(world, newest)) is not None:
        if all(_has(world, partition) for partition in range(split.partitions)):
            world.splits.append(split)
            _append(world, split)
        return
    draw, homes = world.placing, dict[Group, Homes]()
    if world.copying.random() < 0.3:
        known = {name: each for program in world.versions.all for name, each in program.operators.items()}
        groups = {name: newest.group_of(name, Group.of(each)) for name, each in known.items()}
        newest = newest.apart([world.copying.choice(sorted(known))], groups)
    for group, before in ((each.group, each.homes) for each in newest.groups):
        count = draw.randrange(1, MAX_PARTITIONS + 1)
        anyhow = tuple(draw.randrange(count) for _ in before)
        homes[group] = draw.choice([before, anyhow, spread_all(before, count), spread_least(before, count)])
    layout = newest.changed(homes)
    layout = replace(layout, number=layout.number - (draw.random() < 0.3))
    if all(_has(world, partition) for partition in range(layout.partitions)):
        _append(world, layout)


def split_of(world: World, newest: Layout) -> Layout | None:
    """Some partition's hotter half goes to another one, or to a new one; heat is drawn. None: it has one bucket."""
    draw = world.copying
    partition = draw.randrange(newest.partitions)
    heats = {bucket: draw.randrange(4) for bucket in buckets_of(newest, partition)}
    others = [each for each in range(min(newest.partitions + 1, MAX_PARTITIONS)) if each != partition]
    if len(heats) < 2 or not others:
        return None
    return split_layout(newest, moving_half(heats, draw.randrange(4)), draw.choice(others))


def _append(world: World, layout: Layout) -> None:
    record = PlannedLayout(layout) if world.copying.random() < 0.5 else NewLayout(layout)
    world.log.append(EPOCHS, 0, [to_bytes(record)])
    world.unrest = UNREST_STEPS


def _has(world: World, partition: int) -> bool:
    """Whether the partition exists; else a node that knows enough makes it, and its first snapshot."""
    if partition < world.partitions:
        return True
    life = world.placing.choice(world.lives)
    ledger = life.node.ledger
    if ledger.logged < ledger.done or ledger.done < world.oldest_kept():
        return False
    for topic in (CALLS, REPLIES, COMMITS):
        world.log.add_partitions(topic, partition + 1)
    world.partitions = partition + 1
    state = PartitionState(FORMAT_VERSION, partition, 0, 0, 0, ledger.snapshot(), [], [], [], None)
    world.snapshots[partition] = [(state,)]
    empty = empty_state(partition, state.ledger, world.config.id_window, world.new_store)
    life.keep(life.node.step(e.PartitionTaken(partition, state=empty), world.now_ms))
    life.chains[partition] = (state,)
    return True
