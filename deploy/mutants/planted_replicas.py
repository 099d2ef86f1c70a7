"""Bugs in hot standbys, in deltas that stay where they were made, in layouts, and in fleets whose nodes differ."""

from __future__ import annotations

from deploy.mutants.model import Mutant

REPLICAS_TESTS = "tests/unit/nodes/machine/test_standby_dialogues.py"
IDLE_TESTS = "tests/unit/nodes/machine/standby/test_idle_standbys.py"

WAITING = "tests/unit/nodes/machine/test_waiting_contributions.py::"
WAITING += "test_what_waits_is_not_requested_and_what_was_lost_before_is"
CARRIED = "tests/laws/test_carried_deltas.py"

REPLICAS = (
    Mutant(
        "a shard of a continued job awaits what was added before",
        "nodes/machine/config.py",
        "        if self.continued is not None:\n            return [parse_name",
        "        if self.continued is None:\n            return [parse_name",
        tests=("tests/unit/nodes/machine/test_shards.py::test_what_an_incarnation_goes_on_behind_is_not_missing",),
    ),
    Mutant(
        "a log is read again before it can have been read",
        "nodes/machine/broadcast/shards.py",
        "(not reading.rereads or now - reading.reread_ms >= pause_ms)",
        "(pause_ms >= 0)",
        tests=("tests/unit/nodes/machine/test_shards.py",),
    ),
    Mutant(
        "a full slot brings no watermark to a shard",
        "wcrdt/replica/shards.py",
        "            self.replica.reach(delta.partition, record.watermark_ms)\n",
        "            pass\n",
        tests=("tests/laws/test_shard_replica.py",),
    ),
    Mutant(
        "a piece that is missing discards those before it",
        "nodes/machine/broadcast/pieces.py",
        "        if found is None or piece.index > len(found.parts):  # the rest stays, for the next reading\n",
        "        if found is None or (piece.index > len(found.parts) and waiting.pop(piece.whole)):\n",
        tests=("tests/unit/nodes/machine/test_pieces.py",),
    ),
    Mutant(
        "a standby never publishes",
        "nodes/machine/standby/standby.py",
        "self._left_ms(made_ms, patience_ms, now_ms) <= 0",
        "False",
        tests=(REPLICAS_TESTS,),
    ),
    Mutant(
        "a standby publishes at once",
        "nodes/machine/standby/standby.py",
        "self._left_ms(made_ms, patience_ms, now_ms) <= 0",
        "True",
        tests=(REPLICAS_TESTS,),
    ),
    Mutant(
        "a standby forgets one result that it holds",
        "nodes/machine/standby/held_results.py",
        "            for held in runs:\n",
        "            for held in list(runs)[1:] or list(runs):\n",
        tests=(REPLICAS_TESTS,),
    ),
    Mutant(
        "a standby drops a delta that it has not seen",
        "nodes/machine/standby/held_results.py",
        "while self._held and _is_on(self._held[0].delta, logged):",
        "while self._held:",
        tests=(REPLICAS_TESTS,),
    ),
    Mutant(
        "a standby drops results that are behind the last one seen",
        "nodes/machine/standby/held_results.py",
        "cut = bisect_right(held.places, through)",
        "cut = len(held.places)",
        tests=(REPLICAS_TESTS,),
    ),
    Mutant(
        "a promoted standby forgets what it holds",
        "nodes/machine/standby/replicas.py",
        "        self.promotions += 1\n        work.effects += runner.write(standby.outputs.take())\n",
        "        self.promotions += 1\n",
        tests=(REPLICAS_TESTS,),
        case="",
    ),
    Mutant(
        "a standby's own work counts for all that is missing",
        "nodes/machine/broadcast/slot_recovery.py",
        "                self.work.replicas.heal(runner)\n            return False\n",
        "                self.work.replicas.heal(runner)\n                return True\n            return False\n",
        tests=(REPLICAS_TESTS,),
    ),
    Mutant(
        "a standby crosses punctuations that are on the log",
        "nodes/machine/standby/replicas.py",
        "stays = runner.idle_allowed and (",
        "stays = False and (",
        tests=(IDLE_TESTS,),
    ),
    Mutant(
        "a standby takes the first record behind a punctuation at once",
        "nodes/machine/standby/replicas.py",
        "return not (may_come and",
        "return not (False and",
        tests=(IDLE_TESTS,),
    ),
    Mutant(
        "a standby uses what a punctuation may make void",
        "nodes/machine/standby/replicas.py",
        "        elif delta is not None:  # its contribution",
        "        if delta is not None:  # its contribution",
        tests=(IDLE_TESTS,),
    ),
    Mutant(
        "a standby's delta that is on the log is written again",
        "nodes/machine/standby/replicas.py",
        "            standby.deltas.are_on(self._log_of(runner), now)\n",
        "            pass\n",
        tests=(IDLE_TESTS,),
    ),
    Mutant(
        "a standby never punctuates",
        "nodes/machine/idle_partitions.py",
        "        if runner.standby is None or runner.standby.deltas.active_standby.active:\n            return True\n",
        "        if runner.standby is None:\n            return True\n        return False\n",
        tests=(IDLE_TESTS,),
    ),
    Mutant(
        "a standby punctuates beside an owner that is not late",
        "nodes/machine/idle_partitions.py",
        "        due = self._due.get(runner.partition)\n        if due is None",
        "        due = self._due.get(runner.partition)\n        return True\n        if due is None",
        tests=(IDLE_TESTS,),
    ),
    Mutant(
        "a standby punctuates for ever, though its owner keeps pace",
        "nodes/machine/standby/replicas.py",
        "            runner.standby.deltas.receive_punctuation(punctuation, self.running_ms)\n",
        "            pass\n",
        tests=(IDLE_TESTS,),
    ),
    Mutant(
        "an owner takes records while its punctuation is on its way",
        "nodes/machine/workload.py",
        " and not self.idleness.is_on_its_way(runner):",
        ":",
        tests=(IDLE_TESTS,),
    ),
    Mutant(
        "a punctuation that is lost holds its partition for ever",
        "nodes/machine/idle_partitions.py",
        "sent[1] < self.work.config.failure_timeout_ms",
        "sent[1] < 10**9",
        tests=(IDLE_TESTS,),
    ),
    Mutant(
        "a standby stays active for ever",
        "nodes/machine/standby/active_standby.py",
        "        self.active = False\n        self._published.clear()\n",
        "        self._published.clear()\n",
        tests=(REPLICAS_TESTS,),
    ),
    Mutant(
        "a standby that is none any more goes at once",
        "nodes/machine/ownership/succession.py",
        "if running_ms - since < LINGER_MS}",
        "if running_ms < since}",
        tests=("tests/unit/nodes/machine/ownership/test_succession.py",),
    ),
    Mutant(
        "a standby stays one for ever where it is none any more",
        "nodes/machine/ownership/succession.py",
        "if running_ms - since < LINGER_MS}",
        "if running_ms >= since}",
        tests=("tests/unit/nodes/machine/ownership/test_succession.py",),
    ),
    Mutant(
        "a carried delta is changed by those that are collected behind it",
        "wcrdt/replica/slots.py",
        "            made.carry(value if self._collected is None else value.copy())\n",
        "            made.carry(value)\n",
        tests=(CARRIED,),
    ),
    Mutant(
        "a carried delta of a user's type is taken over",
        "wcrdt/lattice.py",
        'lattice.hands_over and type(lattice).__module__.startswith("wcrdt.")',
        "lattice.hands_over",
        tests=(CARRIED,),
    ),
    Mutant(
        "a carried delta is used twice",
        "wcrdt/replica/slots.py",
        'vars(self).pop("_value", None)',
        'vars(self).get("_value", None)',
        tests=(CARRIED,),
    ),
    Mutant(
        "keys that a carried delta has too early are taken for the next of the index",
        "wcrdt/lattices/keyed/columns.py",
        "            if int(places[-1]) < self.height + new:",
        "            if int(places[-1]) < self.height + 2 * new:",
        tests=(CARRIED,),
    ),
    Mutant(
        "keys of a delta are written in the order of its rows",
        "wcrdt/lattices/keyed/columns.py",
        "delta._in_order = keys, ranks",
        "delta._in_order = keys, order",
        tests=(CARRIED,),
    ),
    Mutant(
        "a delta that took in another one is written with the keys that it had",
        "wcrdt/lattices/keyed/columns.py",
        "        self._in_order = None\n        if self.index is other.index:",
        "        if self.index is other.index:",
        tests=(CARRIED,),
    ),
    Mutant(
        "a window that ends at the last watermark of a batch is open for all rows",
        "holon/program/insert_arguments.py",
        "end_ms + lateness_ms > last_ms",
        "end_ms + lateness_ms >= last_ms",
        tests=("tests/unit/holon/program/test_row_watermarks.py",),
    ),
)

LAYOUT_LAWS = "tests/laws/test_layouts.py"
LAYOUTS_ON_EPOCHS = "tests/unit/transactional/test_layouts.py"
MOVING = "tests/unit/transactional/test_moving.py"

LAYOUTS = (
    Mutant(
        "there are as many buckets for every number of partitions",
        "transactional/layout.py",
        "return self.partitions * -(-MIN_BUCKETS // self.partitions)",
        "return MIN_BUCKETS",
        tests=(LAYOUT_LAWS,),
    ),
    Mutant(
        "partitions with the fewest buckets have one more",
        "transactional/layout.py",
        "key=lambda partition: (-counts[partition], partition)",
        "key=lambda partition: (counts[partition], partition)",
        tests=(LAYOUT_LAWS,),
    ),
    Mutant(
        "a cut under another layout counts",
        "transactional/epochs/ledger.py",
        "return (cut.layout, cut.program) == (self.layouts.placement(cut.epoch).number, ",
        "return (0, cut.program) == (0, ",
        tests=(LAYOUTS_ON_EPOCHS,),
    ),
    Mutant(
        "a void cut is not made again",
        "transactional/epochs/sequencer.py",
        "if (sent := self._sent_cut) is not None and not self.ledger.fits(sent):",
        "if False:",
        tests=(LAYOUTS_ON_EPOCHS,),
    ),
    Mutant(
        "a layout holds in an epoch of which a cut stands before it",
        "transactional/epochs/ledger.py",
        "take_layout(message, self.layouts, self.copies, self.last_cut + 1)",
        "take_layout(message, self.layouts, self.copies, self.last_cut)",
        tests=(LAYOUTS_ON_EPOCHS,),
    ),
    Mutant(
        "calls go where keys were in the first layout",
        "transactional/state/partition.py",
        "running.site.use(program, placement.places)",
        "running.site.use(program, program.operators)",
        tests=(LAYOUTS_ON_EPOCHS,),
    ),
    Mutant(
        "a write of a rerun goes where its key was in the first layout",
        "transactional/epochs/ledger.py",
        ", self.raised, place=place)",
        ", self.raised)",
        tests=(LAYOUTS_ON_EPOCHS,),
    ),
    Mutant(
        "a checkpoint forgets the layout",
        "transactional/epochs/ledger.py",
        "            layouts=self.layouts.since(self.done),\n",
        "",
        tests=(LAYOUTS_ON_EPOCHS,),
    ),
    Mutant(
        "a layout is forgotten an epoch too early",
        "transactional/layout_history.py",
        "layouts[1][0] < before:",
        "layouts[1][0] <= before:",
        tests=(LAYOUT_LAWS,),
    ),
    Mutant(
        "the second layout of a number counts too",
        "transactional/layout_history.py",
        "return layout.number == self.newest.number + 1 and",
        "return layout.number in (self.newest.number, self.newest.number + 1) and",
        tests=(LAYOUT_LAWS,),
    ),
    *(
        Mutant(name, file, old, new, tests=(MOVING,))
        for name, file, old, new in (
            (
                "keys that have moved away stay where they were, and no tombstone says so",
                "transactional/state/moving.py",
                "            self._store.apply(dict.fromkeys(gone[start : start + self._slice_rows]))\n",
                "            pass\n",
            ),
            (
                "a reply is left behind when its key moves",
                "transactional/state/moving.py",
                "            self._replies.take(states, order)\n",
                "            pass\n",
            ),
            (
                "a snapshot is made between a move and its epoch",
                "transactional/state/partition.py",
                "self.epoch == self.ledger.done + 1 != self._moves.done_before:",
                "self.epoch == self.ledger.done + 1:",
            ),
            (
                "a snapshot does not say that it holds all replies",
                "transactional/state/partition.py",
                "remembered, order, since, all_replies,",
                "remembered, order, since, False,",
            ),
            (
                "the next owner does not send again what may be missing",
                "transactional/state/moving.py",
                "if known is None or self._ledger.epoch(self._epoch).barrier(1, to) is None:",
                "if known is None:",
            ),
            (
                "a checkpoint forgets handovers",
                "transactional/epochs/ledger.py",
                "            handovers=self.handovers.records(self.done),\n",
                "",
            ),
            (
                "a checkpoint forgets the layout before a move",
                "transactional/epochs/ledger.py",
                "layouts=self.layouts.since(self.done),",
                "layouts=self.layouts.since(self.done + 1),",
            ),
            (
                "keys are handed over before the log has the epoch before",
                "transactional/state/moving.py",
                "if ledger.logged < epoch - 1:",
                "if False:",
            ),
            (
                "an epoch begins when one partition has handed over",
                "transactional/epochs/handovers.py",
                "if len(found) == len(change.sources) else None",
                "if found else None",
            ),
            (
                "an emptied partition is waited for",
                "transactional/epochs/ledger.py",
                "        partitions = self.partitions(barrier.epoch) if barrier.epoch > self.done else 0\n",
                "        partitions = self.program.partitions if barrier.epoch > self.done else 0\n",
            ),
        )
    ),
    Mutant(
        "a handover of another layout counts",
        "transactional/epochs/handovers.py",
        "handover.layout != change.after.number or ",
        "",
        tests=(LAYOUTS_ON_EPOCHS,),
    ),
)

MIXED_FLEETS = (
    Mutant(
        "a node that lets nothing wait itself believes that others have sent all before what waits",
        "nodes/machine/broadcast/shards.py",
        '(message.shards, message.sent_through) if isinstance(message, m.ShardedSent) else (b"", None)',
        '(message.shards, message.sent_through) if isinstance(message, m.ShardedSent) else (b"", None)\n'
        "        if named is None and not self.work.config.waiting_bytes:\n"
        "            through = (0, 0)",
        tests=(WAITING,),
    ),
    Mutant(
        "a delta of the release before says that nothing was added since the start",
        "wcrdt/replica/shards.py",
        "since = record.since if sent_through is None else sent_through",
        "since = RECORD_START if sent_through is None else sent_through",
        tests=("tests/unit/nodes/machine/test_shards.py",),
    ),
)
