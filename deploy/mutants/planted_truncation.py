"""Bugs where a topic has lost its end, or a slot lacks something; in splits; in copies ahead of a move."""

from __future__ import annotations

from deploy.mutants.model import Mutant

TESTS = "tests/unit/nodes/streams/test_truncation.py"
SLOTS = "tests/laws/test_slots.py::"

TRUNCATION = (
    Mutant(
        "a full slot takes nothing away, whatever it lacks",
        "wcrdt/replica/replica.py",
        "return end_ms <= min([through_ms, *writers])",
        "return True",
        tests=(SLOTS + "test_windows_that_a_full_slot_lacks_stay_where_nothing_more_can_be_added_to_them",),
    ),
    Mutant(
        "a truncated broadcast is trimmed beyond its end",
        "nodes/streams/io/joining.py",
        "self.log.delete_before(self.topics.broadcast, partition, min(offset, end))",
        "self.log.delete_before(self.topics.broadcast, partition, offset)",
        tests=("tests/unit/nodes/streams/test_joining.py",),
    ),
    Mutant(
        "a lost end is reported to no node",
        "nodes/streams/truncation.py",
        "        if not self._recorded:\n",
        "        if False:\n",
        tests=(TESTS,),
    ),
    Mutant(
        "results that were there at the checkpoint are not missed",
        "nodes/streams/io/output_identities.py",
        "if ends[to] < known and",
        "if False and",
        tests=(TESTS,),
    ),
    Mutant(
        "what lies behind an open transaction is taken for lost",
        "nodes/streams/truncation.py",
        "if offset <= 0 or offset <= (end := self.log.high_watermark(topic, partition)):",
        "if offset <= 0 or offset <= (end := self.log.end_offset(topic, partition)):",
        tests=(TESTS,),
    ),
    Mutant(
        "a write behind a gap is like any other",
        "nodes/streams/truncation.py",
        "        if end - count < known:\n",
        "        if False:\n",
        tests=(TESTS,),
    ),
    Mutant(
        "deltas behind a gap do not tell how far the input went",
        "nodes/streams/truncation.py",
        "replica.slots[partition].record.position[0], replica.reported[partition]]",
        "replica.slots[partition].record.position[0]]",
        tests=(TESTS,),
    ),
    Mutant(
        "input that others have processed is waited for",
        "nodes/streams/truncation.py",
        "if end < needed[partition]:",
        "if False:",
        tests=(TESTS,),
    ),
    Mutant(
        "an end that is still to come is taken for lost",
        "nodes/machine/ownership/ownership.py",
        "(self.end_offset(partition) or 0) if self._partitions[partition].end_reached else 0",
        "self.end_offset(partition) or 0",
        tests=(TESTS,),
    ),
    Mutant(
        "a checkpoint of more of the control topic than there is, is passed over",
        "nodes/runtime/control_topic.py",
        "if newest is not None and newest.offset > (end := log.end_offset(self.name, 0)):",
        "end = log.end_offset(self.name, 0)\n        if False:",
        tests=(TESTS,),
    ),
    Mutant(
        "a place on the broadcast that is gone is tried for ever",
        "nodes/streams/driver.py",
        "if self.truncation.broadcast_lost(partition, offset, error):",
        "if False:",
        tests=(TESTS,),
    ),
)

HALVES = "tests/laws/test_halves.py"
SPLITTING = "tests/unit/nodes/transactions/layouts/test_splitting.py"
HALVES_FILE = "nodes/transactions/layouts/halves.py"
HEAT_FILE = "nodes/transactions/layouts/heat.py"

ELASTIC = (
    Mutant(
        "a split takes a sum of heat that is beyond the half",
        HALVES_FILE,
        "half = sum(parts.values()) // 2",
        "half = sum(parts.values()) * 3 // 5",
        tests=(HALVES,),
    ),
    Mutant(
        "a bucket with the number of one that moves goes along, of other operators",
        HALVES_FILE,
        "target if Bucket(place, number) in moving else home",
        "target if any(each.number == number for each in moving) else home",
        tests=(HALVES,),
    ),
    Mutant(
        "the heavier side goes to a partition that has heat",
        HALVES_FILE,
        "return max(sum(heats.values()) - moved, other + moved), len(side)",
        "return sum(heats.values()) - moved, len(side)",
        tests=(HALVES,),
    ),
    Mutant(
        "the coldest partition gets a half that makes it hotter than the split one was",
        HALVES_FILE,
        "return other if 2 * coldest <= heats[partition] else len(heats)",
        "return other if coldest <= heats[partition] else len(heats)",
        tests=(HALVES,),
    ),
    Mutant(
        "partitions are compared over other epochs",
        HEAT_FILE,
        "first = max([complete_from, *(each.from_epoch for each in read)])",
        "first = complete_from",
        tests=(SPLITTING,),
    ),
    Mutant(
        "the second commit of an epoch is heat too",
        HEAT_FILE,
        "slots.setdefault(each.slot, each)",
        "slots[len(slots),] = each",
        tests=(SPLITTING,),
    ),
    Mutant(
        "epochs count that were trimmed in another partition",
        "nodes/transactions/layouts/repartitioning.py",
        "complete_from = max([complete_from, *(each.offset + 1 for each in kept[-1:])])",
        "complete_from += len(kept) * 0",
        tests=(SPLITTING,),
    ),
    Mutant(
        "results of calls are heat of the caller's partition",
        HEAT_FILE,
        "if isinstance(each, WireCall):",
        "if each.call_chain is not None:",
        tests=(SPLITTING,),
    ),
)

FULL_DISKS = tuple(
    Mutant(name, "nodes/log/patient.py", old, new, tests=("tests/unit/nodes/log/test_patient.py",))
    for name, old, new in (
        (
            "an append that waited for room is there twice",
            "                return found\n",
            "                return append()\n",
        ),
        (
            "an append for which there is no room is passed over",
            "                    error = full\n                    continue\n",
            "                    return None\n",
        ),
    )
)

CPU = (
    Mutant(
        "what a node spent before the first heartbeat counts as recent",
        "nodes/transactions/layouts/cpu.py",
        "(seconds - first[node, partition])",
        "seconds",
        tests=("tests/unit/nodes/transactions/layouts/test_cpu.py",),
    ),
    Mutant(
        "CPU of a standby counts as its owner's",
        "transactional/node.py",
        "            if cpu is not None and standby is None:\n                cpu.add(",
        "            if cpu is not None:\n                cpu.add(",
        tests=("tests/unit/transactional/test_sampled_cpu.py",),
    ),
    *(
        Mutant(name, file, old, new, tests=(tests,))
        for name, file, old, new, tests in (
            (
                "a costly bucket that has left is work of its old partition",
                "nodes/transactions/layouts/cpu.py",
                " and layout.groups[place].homes[number : number + 1] == (partition,):",
                ":",
                "tests/unit/nodes/transactions/layouts/test_cpu.py",
            ),
            (
                "CPU of the homes before the newest layout counts",
                "nodes/transactions/layouts/cpu.py",
                "        if at_ms >= since_ms\n",
                "        if at_ms >= 0\n",
                "tests/unit/nodes/transactions/layouts/test_cpu.py",
            ),
            (
                "a partition is split by heat though CPU is known",
                "nodes/transactions/layouts/splitting.py",
                "is not None and cpu.compares(layout.partitions):",
                "is None and cpu.compares(layout.partitions):",
                SPLITTING,
            ),
            (
                "the autoscaler compares partitions by CPU of other homes",
                "nodes/transactions/autoscaling/sampling.py",
                "            self._reported.clear()  # of other homes\n",
                "            pass\n",
                "tests/unit/nodes/transactions/autoscaling/test_autoscaler.py",
            ),
            (
                "a bucket that was hot once stays hot",
                "transactional/sampled_cpu.py",
                "where: (ns - (ns >> _FADE), calls - (calls >> _FADE))",
                "where: (ns, calls)",
                "tests/unit/transactional/test_sampled_cpu.py",
            ),
        )
    ),
)

COPIED = ("tests/unit/transactional/test_copying.py",)

PARTED = (
    *(
        Mutant(name, "transactional/layout.py", old, new, tests=tests)
        for name, old, new, tests in (
            (
                "parted operators move from where those that stayed are",
                "return self.group_of(group.apart[0], group.declared) if group.apart else group",
                "return group.declared",
                ("tests/unit/nodes/transactions/layouts/test_alone.py",),
            ),
            (
                "parted operators come together again",
                "        if not {name for each in before.groups for name in each.group.apart} <= set(named):\n",
                "        if False:\n",
                ("tests/laws/test_layouts.py",),
            ),
            (
                "operators that are not named leave their homes too",
                "            stay = tuple(sorted(mine - leaving)) if group.apart else ()\n",
                "            stay = ()\n",
                ("tests/laws/test_layouts.py",),
            ),
        )
    ),
)

COPIES = (
    *(
        Mutant(name, file, old, new, tests=COPIED)
        for name, file, old, new in (
            (
                "writes after a copy are not noted",
                "transactional/state/copying.py",
                "                self.written[item_of_key(to, key)] = epoch\n",
                "                pass\n",
            ),
            (
                "a copy covers the epoch after it",
                "transactional/state/copying.py",
                "return as_of is not None and as_of >= epoch",
                "return as_of is not None and as_of + 1 >= epoch",
            ),
            (
                "a deleted key stays where it was copied to",
                "transactional/state/moving.py",
                "            del rows[key]  # it was deleted after its copy\n",
                "            rows[key] = b''\n",
            ),
            (
                "a key that was deleted after its copy is not sent again",
                "transactional/state/moving.py",
                "            if is_key(item) and copies.as_of(item) is not None:\n",
                "            if is_key(item) and self._store.read((operator, name)) is not None:\n",
            ),
            (
                "a batch counts before it has arrived",
                "transactional/epochs/copies.py",
                "        if batch.sends:\n",
                "        if False:\n",
            ),
            (
                "a batch of any index counts",
                "transactional/epochs/copies.py",
                "return batch.index == len(self.batches) and is_behind",
                "return is_behind",
            ),
            (
                "a batch may be of an epoch before the last one's",
                "transactional/epochs/copies.py",
                "and not (self.batches and as_of < self.batches[-1].as_of)",
                "",
            ),
            (
                "a batch of an epoch before the plan counts",
                "transactional/epochs/copies.py",
                "if batch.as_of < plan.since or not",
                "if not",
            ),
            (
                "another layout than the planned one may follow",
                "transactional/layout_history.py",
                "is not None and plan.layout != layout:",
                "is not None and False:",
            ),
            (
                "a snapshot forgets what was written since the plan",
                "transactional/state/partition.py",
                "all_replies, self._moves.copying.kept(self.epoch - 1),",
                "all_replies, [],",
            ),
            (
                "a checkpoint forgets copies",
                "transactional/epochs/ledger.py",
                "            copies=self.copies.state(self.done),\n",
                "",
            ),
            (
                "copies are let go when they have moved, and not an epoch later",
                "transactional/state/moving.py",
                "        received.copies_moved(epoch, change.after.number)\n",
                "        received.forget_copies(change.after.number)\n",
            ),
            (
                "a new owner keeps copies to homes that hold",
                "transactional/state/partition.py",
                "self.received.forget_copies(self._moves.copying.restore(state.ledger, state.written))",
                "self._moves.copying.restore(state.ledger, state.written)",
            ),
            (
                "nobody makes again a batch of another owner",
                "transactional/state/copying.py",
                "if self._waited <= PATIENCE:",
                "if True:",
            ),
            (
                "a target acknowledges the first batch of a source alone",
                "transactional/state/copying.py",
                "if batch is not each:",
                "if batch is None:",
            ),
            (
                "a target without an owner holds up all sources of a node",
                "transactional/state/copying.py",
                "return not self._waited and self._unanswered <= PATIENCE",
                "return not self._waited",
            ),
            (
                "no sweep follows while others copy",
                "transactional/state/copying.py",
                "if copies.is_ready and len(self.written)",
                "if copies.is_ready or len(self.written)",
            ),
        )
    ),
)
RELEASES = (
    Mutant(
        "nodes that know no parted operators go on",
        "nodes/machine/ownership/layouts.py",
        "m.COPIES_VERSION if self.online or self.parted else",
        "m.COPIES_VERSION if self.online else",
        tests=(
            "tests/unit/nodes/machine/ownership/test_layouts.py",
            "tests/unit/nodes/transactions/layouts/test_alone.py",
        ),
    ),
    Mutant(
        "a checkpoint of the control topic is read by releases that look for keys elsewhere",
        "nodes/machine/control_state.py",
        "formats.append(first_format(checkpoint.state.layouts))",
        "formats.append(m.LAYOUTS_VERSION)",
        tests=("tests/unit/nodes/machine/ownership/test_layouts.py",),
    ),
    Mutant(
        "a checkpoint of a newer release counts as damaged",
        "transactional/state/snapshots.py",
        "kind = NewerSnapshot if isinstance(version, int) and version > FORMAT_VERSION else BadValue",
        "kind = BadValue",
        tests=("tests/unit/nodes/transactions/checkpoints/test_broken_chains.py",),
    ),
    Mutant(
        "a newer release's checkpoint of the control topic counts as deleted",
        "nodes/runtime/control_topic.py",
        "                    if unread is not None:\n",
        "                    if False:\n",
        tests=("tests/unit/nodes/transactions/test_control_history.py",),
    ),
)
