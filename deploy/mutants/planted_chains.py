"""Bugs in jobs in a row, in jobs of several topics, in parts of checkpoints, and in contributions that wait."""

from __future__ import annotations

from deploy.mutants.model import Mutant

DUPLICATES = "tests/unit/holon/tracks/test_upstream_duplicates.py"
UPSTREAM = "tests/unit/nodes/streams/test_upstream.py"
CONTINUING = "tests/unit/nodes/streams/test_continuing.py"
PARTS = "tests/unit/nodes/machine/test_checkpoint_parts.py::"
SHARD_REPLICA = ("tests/laws/test_shard_replica.py",)
WAITING = "tests/unit/nodes/machine/test_waiting_contributions.py::"
AT_AN_END = WAITING + "test_contributions_wait_until_a_window_ends_that_they_add_to"
LOST = WAITING + "test_what_waits_is_not_requested_and_what_was_lost_before_is"
PROMOTED = WAITING + "test_a_standby_that_is_promoted_sends_what_its_owner_let_wait"
COPIES = "tests/unit/nodes/checkpoints/test_copies.py"
TRACKS = "tests/laws/test_parts.py::test_a_whole_checkpoint_and_its_parts_are_the_track"
FEEDING = "tests/unit/nodes/transactions/test_bound_streams.py"
LAYOUT = ("tests/unit/holon/test_input_layout.py",)
SOURCES = ("tests/unit/holon/dataflow/test_sources.py",)
IDLE = ("tests/unit/nodes/machine/test_idle_partitions.py",)
STARTS = ("tests/unit/nodes/streams/test_sources.py",)

CHAINS = (
    Mutant(
        "the last output of another job counts again when it is repeated",
        "holon/tracks/upstream_duplicates.py",
        "        if place <= track.last:\n",
        "        if place < track.last:\n",
        tests=(DUPLICATES,),
    ),
    Mutant(
        "outputs of an older incarnation count",
        "holon/tracks/upstream_duplicates.py",
        "        if identity.incarnation < current:\n",
        "        if identity.incarnation < 0:\n",
        tests=(DUPLICATES,),
    ),
    Mutant(
        "a checkpoint forgets which outputs were seen",
        "holon/tracks/task.py",
        "            self.records.duplicates.seen(),\n",
        "            type(self.records.duplicates.seen())(),\n",
        tests=(DUPLICATES,),
    ),
    Mutant(
        "a run of outputs that overlaps what was seen is taken for new as a whole",
        "holon/tracks/upstream_duplicates.py",
        "        if (int(at[0]), int(n[0])) <= track.last:\n",
        "        if (int(at[-1]), int(n[-1])) <= track.last:\n",
        tests=(DUPLICATES,),
    ),
    Mutant(
        "duplicates are no part of the prefix",
        "holon/formats/input_run.py",
        "            passed=self.last,\n",
        "            passed=-1,\n",
        tests=(DUPLICATES,),
    ),
    Mutant(
        "the newest incarnation counts as soon as its topics are there",
        "nodes/streams/upstream.py",
        "found[job] = 0 if started is None else origin_of(started)",
        "assert started is not None",
        tests=(UPSTREAM,),
    ),
    Mutant(
        "a feed forgets what it has fed of another job",
        "nodes/transactions/bound_streams.py",
        "            self._seen = self._requested_seen\n",
        "",
        tests=(FEEDING,),
    ),
    Mutant(
        "a continued job answers a window again",
        "holon/tracks/snapshot.py",
        "max(watermark_ms, closed_ms + lateness_ms)",
        "closed_ms",
        tests=(CONTINUING,),
    ),
    Mutant(
        "what a later stage has answered is forgotten when a job is continued",
        "holon/tracks/snapshot.py",
        "max([self.record.closing[1], self.window.emitted_end_ms, *ends])",
        "self.record.closing[1]",
        tests=(CONTINUING,),
    ),
    Mutant(
        "a continued job gives its outputs identities of their own",
        "nodes/machine/workload.py",
        "            run.origin,\n",
        "            run.incarnation,\n",
        tests=(CONTINUING,),
    ),
    Mutant(
        "a takeover in a continued job does not see what is written",
        "nodes/streams/io/output_identities.py",
        "        for (partition_of, track), runs in ascents(chunk.headers, run.job.name, run.origin).items():\n",
        "        for (partition_of, track), runs in ascents(chunk.headers, run.job.name, run.incarnation).items():\n",
        tests=(CONTINUING,),
    ),
)

CHECKPOINT_PARTS = (
    Mutant(
        "parts that are joined lose the older changes",
        "wcrdt/replica/changes.py",
        "                    made.changes.setdefault(key, []).extend(wires)\n",
        "                    made.changes[key] = wires\n",
        tests=(PARTS + "test_each_part_with_what_it_rests_on_is_the_state",),
    ),
    Mutant(
        "a part forgets which windows of the whole checkpoint are gone",
        "wcrdt/replica/changes.py",
        "        self.dropped_through_ms = max(self.dropped_through_ms, end_ms)\n",
        "",
        tests=(TRACKS + "[gcounter-OwnTrack]",),
    ),
    Mutant(
        "a part lacks what was sent before",
        "wcrdt/replica/slots.py",
        "self._collected.add({key: value for key, value in self._changed.items() if key not in waiting})",
        "pass",
        tests=(PARTS + "test_each_part_with_what_it_rests_on_is_the_state",),
    ),
    Mutant(
        "a part holds what a private track has taken back",
        "wcrdt/replica/slots.py",
        "            super()._change_anew(state, window, value)\n",
        "            pass\n",
        tests=(PARTS + "test_a_part_has_no_inserts_that_were_taken_back",),
    ),
    Mutant(
        "a part is joined with a checkpoint that it does not go on from",
        "holon/tracks/parts.py",
        "    if new.since != below.to or new.full:\n",
        "    if new.full:\n",
        tests=(PARTS + "test_a_part_without_what_it_rests_on_is_refused",),
    ),
    Mutant(
        "what parts rest on has one file",
        "nodes/machine/checkpoints/parts.py",
        "            copies = KEPT_CHECKPOINTS if joined else 1",
        "            copies = 1",
        tests=(PARTS + "test_a_part_rests_on_few_others_and_what_is_rested_on_has_copies",),
    ),
    Mutant(
        "an owner that was none goes on with its old parts",
        "nodes/machine/checkpoints/parts.py",
        "        self._below = []\n        task.stop_collecting()\n",
        "        pass\n",
        tests=(PARTS + "test_a_standby_collects_nothing",),
    ),
    Mutant(
        "a state of which all changes goes on with parts",
        "nodes/machine/checkpoints/parts.py",
        "                self._wholes = self._config.pause + 1\n",
        "                pass\n",
        tests=(PARTS + "test_where_all_changes_many_whole_checkpoints_follow_and_nothing_is_collected",),
    ),
    Mutant(
        "the copies of a checkpoint are never read",
        "nodes/checkpoints/store.py",
        "            if other != name and file_names.parse_name(other).checkpoint == parsed.checkpoint:\n",
        "            if other == name:\n",
        tests=(COPIES,),
    ),
    Mutant(
        "what others rest on is deleted",
        "nodes/checkpoints/store.py",
        " or name in keep or parsed.checkpoint in needed:\n",
        " or name in keep:\n",
        tests=(COPIES,),
    ),
    Mutant(
        "a checkpoint behind those in use is deleted before a part rests on it",
        "nodes/streams/io/partition_checkpoints.py",
        "in_use, {name, *below})\n",
        "in_use, below)\n",
        tests=(COPIES,),
    ),
    Mutant(
        "a part of an owner that was replaced counts",
        "nodes/machine/ownership/ownership.py",
        " or (not owned and (self._owners_save or rests_on(saved))):\n",
        " or (not owned and self._owners_save):\n",
        tests=(PARTS + "test_a_part_counts_under_the_newest_claim_alone",),
    ),
    Mutant(
        "older releases read a control checkpoint that has parts",
        "nodes/machine/control_state.py",
        "    formats += [m.PARTS_VERSION for",
        "    formats += [m.FIRST_VERSION for",
        tests=(PARTS + "test_older_releases_stop_at_a_part_and_read_whole_ones",),
    ),
)

SEVERAL_TOPICS = (
    Mutant(
        "a partition's number in its topic is the job's",
        "holon/input_layout.py",
        "InputPlace(source.topic, partition - self._firsts[number])",
        "InputPlace(source.topic, partition)",
        tests=LAYOUT,
    ),
    Mutant(
        "all partitions have the first source",
        "holon/input_layout.py",
        "source = self.sources[number]",
        "source = self.sources[0]",
        tests=LAYOUT,
    ),
    Mutant(
        "windows are said to wait for the longest timeout though a partition has none",
        "holon/input_layout.py",
        "return None if len(known) < len(timeouts) else max(known, default=None)",
        "return max(known, default=None)",
        tests=LAYOUT,
    ),
    Mutant(
        "the order of sources is no part of the declaration",
        "holon/job.py",
        'return [f"{number}. {source.describe()}" for number, source in enumerate(sources, 1)]',
        "return sorted(source.describe() for source in sources)",
        tests=LAYOUT,
    ),
    Mutant(
        "letters name the job's partition",
        "holon/tracks/side_outputs.py",
        "self._place = input.place",
        "self._place = input.place.topic, outbox.partition",
        tests=SOURCES,
    ),
    Mutant(
        "records are admitted by the first source",
        "holon/tracks/record_track.py",
        "Admission(input.source, record_states",
        "Admission(job.sources[0], record_states",
        tests=SOURCES,
    ),
    Mutant(
        "rows of all topics take the steps of the first source",
        "holon/dataflow/compiling.py",
        "_process_batch(entries[ctx.topic], outputs, states, batch, ctx)",
        "_process_batch(next(iter(entries.values())), outputs, states, batch, ctx)",
        tests=SOURCES,
    ),
    Mutant(
        "a partition is idle by another source's timeout",
        "nodes/machine/idle_partitions.py",
        "timeout_ms is not None and self._running_ms[timeout_ms] - since_ms >= timeout_ms",
        "timeout_ms is not None and self._running_ms[timeout_ms] - since_ms >= min(self._running_ms)",
        tests=IDLE,
    ),
    Mutant(
        "a partition whose source has no idle timeout is idle",
        "nodes/machine/idle_partitions.py",
        "if timeouts[runner.partition] is not None and (runner.standby is None or runner.standby.level)",
        "if runner.standby is None or runner.standby.level",
        tests=IDLE,
    ),
    Mutant(
        "another order of topics is taken for topics that have grown",
        "nodes/streams/jobs.py",
        "    if _declared_topics(described.job) == job.topics:",
        "    if len(was) == len(job.topics):",
        tests=STARTS,
    ),
    Mutant(
        "all sources start where the first one does",
        "nodes/streams/jobs.py",
        "ends[partition.source.start](*partition.place)",
        "ends[job.sources[0].start](*partition.place)",
        tests=STARTS,
    ),
    Mutant(
        "letters go back into the first topic",
        "nodes/results/dead_letters.py",
        "        if source.topic == letter.topic:\n            return source",
        "        return source",
        tests=STARTS,
    ),
)

WAITING_CONTRIBUTIONS = (
    Mutant(
        "a window ends without the contributions that wait",
        "holon/tracks/contributions.py",
        "if first_end(self._panes.get(state), held, BEFORE_TIME_MS) <= through_ms:",
        "if False:",
        tests=(*SHARD_REPLICA, AT_AN_END),
    ),
    Mutant(
        "contributions leave when the watermark comes to a window, lateness or not",
        "holon/tracks/task.py",
        "self.watermark_ms - self.job.allowed_lateness_ms, most_bytes)",
        "self.watermark_ms, most_bytes)",
        tests=(WAITING + "test_lateness_keeps_contributions_as_it_keeps_windows_open",),
    ),
    Mutant(
        "contributions wait beyond the end of input",
        "holon/tracks/task.py",
        "if not most_bytes or self.records.ended:",
        "if not most_bytes:",
        tests=(WAITING + "test_all_leave_at_the_end_of_input",),
    ),
    Mutant(
        "a checkpoint is saved while contributions wait",
        "nodes/machine/workload.py",
        "limits = (0, 0) if always",
        "limits = (0, 1 << 30) if always",
        tests=(WAITING + "test_all_leave_before_a_checkpoint_and_the_checkpoint_waits_for_them",),
    ),
    Mutant(
        "any number of bytes may wait",
        "holon/tracks/contributions.py",
        "return 0 < keys * self._key_bytes <= most_bytes",
        "return keys > 0",
        tests=(WAITING + "test_so_many_bytes_may_wait_for_each_shard",),
    ),
    Mutant(
        "contributions to a pane wait until the last of its windows ends",
        "holon/tracks/contributions.py",
        "if first_end(self._panes.get(state), held, BEFORE_TIME_MS) <= through_ms:",
        "if held.end_ms <= through_ms:",
        tests=(WAITING + "test_contributions_to_a_pane_leave_when_the_first_of_its_windows_ends",),
    ),
    Mutant(
        "contributions wait where there are none",
        "holon/tracks/contributions.py",
        "return 0 < keys",
        "return 0 <= keys",
        tests=(WAITING + "test_a_next_owner_begins_where_others_know_that_all_was_sent",),
    ),
    Mutant(
        "a contribution that waits counts as empty",
        "wcrdt/replica/shards.py",
        "(self.waits if waits else self.passed)(",
        "self.passed(",
        tests=(*SHARD_REPLICA, WAITING + "test_no_window_is_answered_before_what_waited_for_it_has_come"),
    ),
    Mutant(
        "a shard takes a watermark though it lacks what was sent before",
        "wcrdt/replica/shards.py",
        "                if since <= have < to:",
        "                if have < to:",
        tests=(*SHARD_REPLICA, LOST),
    ),
    Mutant(
        "contributions that wait give others no watermark",
        "wcrdt/replica/shards.py",
        "                    self.replica.reach(partition, watermark_ms)\n",
        "",
        tests=(*SHARD_REPLICA, WAITING + "test_others_answer_windows_to_which_nothing_waits"),
    ),
    Mutant(
        "a delta says that all was sent before it",
        "nodes/machine/broadcast/deltas_to_send.py",
        "return m.ShardedSent(incarnation, plain, shards, delta.sent_through)",
        "return m.ShardedSent(incarnation, plain, shards)",
        tests=(AT_AN_END,),
    ),
    Mutant(
        "what waits is requested",
        "nodes/machine/broadcast/shards.py",
        "if shard.covered(partition) < slot.record.position",
        "if shard.position(partition) < slot.record.position",
        tests=(LOST,),
    ),
    Mutant(
        "a standby forgets contributions that its owner let wait",
        "nodes/machine/standby/held_results.py",
        "            self._contributing.append(self._held.popleft())\n",
        "            self._held.popleft()\n",
        tests=(PROMOTED,),
    ),
    Mutant(
        "a standby takes all contributions for sent that its owner's deltas reach",
        "nodes/machine/broadcast/deltas_to_send.py",
        "return through if message.shards is None else record.to",
        "return record.to",
        tests=(PROMOTED,),
    ),
    Mutant(
        "a part of a checkpoint has the last change alone of a window that was sent whole",
        "wcrdt/replica/changes.py",
        "if delta is None or self._open.get(key, ()) is None:",
        "if delta is None:",
        tests=(PARTS + "test_a_part_has_all_of_a_window_that_was_sent_whole_and_changed_again",),
    ),
    Mutant(
        "a change that waits leaves nothing behind",
        "wcrdt/replica/slots.py",
        "        self._changed.update(waiting)\n",
        "",
        tests=(*SHARD_REPLICA, AT_AN_END),
    ),
)
