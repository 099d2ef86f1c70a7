"""Bugs in the node: claims, checkpoints, what is sent and what is kept, suspicion, bytes from outside."""

from __future__ import annotations

from deploy.mutants.model import Mutant

WORK = "tests/unit/nodes/machine/test_work_dialogues.py::"
GAPS = "tests/unit/nodes/machine/test_gaps.py::"
NODE = "tests/unit/nodes/machine/test_ownership_dialogues.py::"
PACE = "tests/unit/nodes/machine/test_partition_drift.py::"
IDLE = "tests/unit/nodes/machine/test_idle_partitions.py::"
OWNERSHIP = "tests/unit/nodes/machine/ownership/test_ownership.py::"

MACHINE = (
    # --- claims ---
    Mutant(
        "a node that reads nothing takes the work of others",
        "nodes/machine/membership/failure_detector.py",
        "if 2 * read_meanwhile_ms < self.failure_timeout_ms:",
        "if read_meanwhile_ms < 0:",
        tests=("tests/unit/nodes/machine/ownership/test_sharing.py",),
    ),
    Mutant(
        "a node that reads nothing is believed to work",
        "nodes/runtime/heartbeat_topics.py",
        "self._uncounted if self.is_deaf(now_ms) else value",
        "value",
        tests=("tests/unit/nodes/runtime/test_heartbeat_topics.py",),
    ),
    Mutant(
        "the older claim wins",
        "nodes/machine/ownership/ownership.py",
        "if claim.version != state.version + 1:",
        "if claim.version > state.version + 1:",
        tests=(
            OWNERSHIP + "test_the_first_of_two_claims_of_a_version_wins",
            OWNERSHIP + "test_only_the_next_version_is_valid",
        ),
    ),
    Mutant(
        "anybody may release a partition",
        "nodes/machine/ownership/ownership.py",
        "if state.owner != release.node or state.version != release.version:",
        "if False:",
        tests=(OWNERSHIP + "test_only_the_owner_can_release_and_only_with_the_current_version",),
    ),
    Mutant(
        "a Hello that is read twice begins two incarnations",
        "nodes/machine/ownership/ownership.py",
        "        if 0 < hello.node_incarnation <= known:\n            return []",
        "        if False:\n            return []",
        tests=(
            "tests/laws/test_control_agreement.py::"
            "test_a_record_that_is_read_twice_or_late_or_from_a_node_that_is_gone_counts_once",
        ),
    ),
    Mutant(
        "a checkpoint is recorded under any name",
        "nodes/machine/durable.py",
        "if not is_name_of(saved.name, saved.incarnation, saved.partition, saved.record_position, saved.answered):",
        "if False:",
        tests=("tests/attack/test_control_records.py::test_forged_names_of_checkpoints_have_no_effect",),
    ),
    Mutant(
        "a checkpoint that is behind is recorded as the newest",
        "nodes/machine/ownership/ownership.py",
        "if kept and (not reaches(saved, kept[-1]) or any(saved.name == each.name for each in kept)):",
        "if any(saved.name == each.name for each in kept):",
        tests=(OWNERSHIP + "test_a_checkpoint_that_is_behind_in_anything_is_not_recorded",),
    ),
    Mutant(
        "the last declared end of the input wins",
        "nodes/machine/ownership/ownership.py",
        "        if state.end_offset is not None:\n            return []\n",
        "",
        tests=(OWNERSHIP + "test_the_first_end_of_a_partition_wins",),
    ),
    Mutant(
        "an old stop counts for a new incarnation",
        "nodes/machine/node.py",
        "                if self.member.joined:  # else of an earlier incarnation under this name\n",
        "                if True:\n",
        tests=(NODE + "test_what_an_earlier_incarnation_under_the_same_name_did_is_not_this_incarnation",),
        case="",
    ),
    # --- checkpoints and acknowledgements ---
    Mutant(
        "a checkpoint does not wait for acknowledgements",
        "nodes/machine/runner.py",
        "if pending is None or pending.sent or self.acknowledged < pending.ticket or not self._confirmed(pending):",
        "if pending is None or pending.sent or not self._confirmed(pending):",
        tests=(WORK + "test_a_checkpoint_waits_until_all_before_it_is_acknowledged",),
    ),
    Mutant(
        "a checkpoint is made before its outputs are sent",
        "nodes/machine/workload.py",
        "            self._flush(runner, always=True)\n            runner.begin_checkpoint(self.now_ms)\n"
        "        save = ",
        "            runner.begin_checkpoint(self.now_ms)\n            runner.acknowledged = 10**9\n        save = ",
        tests=(WORK + "test_a_checkpoint_waits_until_all_before_it_is_acknowledged",),
        case="",
    ),
    Mutant(
        "a ticket counts before those ahead of it",
        "nodes/streams/io/in_flight.py",
        "        while claim.tickets and claim.tickets[0] in claim.arrived:\n"
        "            claim.through = claim.tickets.popleft()\n            claim.arrived.discard(claim.through)\n",
        "        claim.tickets.remove(write.ticket)\n        claim.through = max(claim.through, write.ticket)\n"
        "        if True:\n",
        tests=("tests/unit/nodes/streams/test_in_flight.py",),
    ),
    Mutant(
        "one claim's acknowledgements count for the next",
        "nodes/machine/workload.py",
        "        return runner if runner is not None and runner.key == key else None\n",
        "        return runner\n",
        tests=(WORK + "test_acknowledgements_of_an_earlier_claim_do_not_count",),
    ),
    Mutant(
        "results are counted as made before they are sent",
        "nodes/machine/workload.py",
        "        self.effects += runner.outputs()\n        limits",
        "        made = runner.outputs\n        limits",
        tests=(WORK + "test_results_leave_before_the_delta_that_says_that_they_are_made",),
    ),
    Mutant(
        "a checkpoint does not wait for results that waited for their delta",
        "nodes/machine/runner.py",
        "                pending.ticket = self.ticket",
        "                pass",
        tests=("tests/unit/nodes/machine/test_standby_dialogues.py",),
    ),
    # --- what is written, and written again ---
    Mutant(
        "the result behind the last written one is taken for written",
        "nodes/machine/runner.py",
        "if (identity.position, identity.n) <= last.get(track, NOTHING_SEEN):",
        "if (identity.position - 10, identity.n) <= last.get(track, NOTHING_SEEN):",
        tests=(WORK + "test_what_the_last_owner_has_written_is_not_written_again_and_the_next_result_is",),
    ),
    Mutant(
        "what is on the log is written again",
        "nodes/machine/runner.py",
        "if (identity.position, identity.n) <= last.get(track, NOTHING_SEEN):",
        "if False:",
        tests=(WORK + "test_what_the_last_owner_has_written_is_not_written_again_and_the_next_result_is",),
    ),
    Mutant(
        "every second delta is not sent",
        "nodes/machine/workload.py",
        "        self.shards.send(runner, delta)\n        if not runner.idle_allowed",
        "        if runner.ticket % 2 == 0:\n            self.shards.send(runner, delta)\n"
        "        else:\n            runner.ticket += 1\n        if not runner.idle_allowed",
        case="",
    ),
    Mutant(
        "results leave before their delta is read back",
        "nodes/machine/runner.py",
        "        if not self.idle_allowed:\n            return new\n",
        "        if True:\n            return new\n",
        tests=("tests/unit/nodes/machine/test_runner_results.py",),
    ),
    # --- what is kept and what is requested ---
    Mutant(
        "no full slot for a node that requests it",
        "nodes/machine/workload.py",
        "            case f.SlotRequested(partition, by) if by != me:\n"
        "                self._slot_requested(partition)\n",
        "",
        tests=(WORK + "test_a_gap_is_filled_from_a_full_slot",),
        case="",
    ),
    Mutant(
        "a gap is closed where the delta that did not fit begins",
        "nodes/machine/broadcast/gaps.py",
        "    return to, [track.to[0] for track in delta.stages]",
        "    to = RECORD_START if delta.record is None else delta.record.since\n"
        "    return to, [track.since[0] for track in delta.stages]",
        tests=(GAPS + "test_what_a_delta_held_that_did_not_fit_is_asked_for_until_the_slot_reaches_its_end",),
    ),
    Mutant(
        "a damaged record behind a known gap is forgotten",
        "nodes/machine/broadcast/gaps.py",
        "gap.unknown, gap.requested = True, False",
        "gap.unknown, gap.requested = gap.target == (RECORD_START, []), False",
        tests=(GAPS + "test_a_damaged_record_behind_what_was_asked_for_is_asked_for_too",),
    ),
    Mutant(
        "crashes count although the log has found the record of them",
        "nodes/fleet/supervisor.py",
        "            self._times.clear()\n",
        "",
        tests=(
            "tests/unit/nodes/fleet/test_supervisor.py::test_crashes_that_the_log_has_found_the_record_of_do_not_count",
        ),
    ),
    Mutant(
        "a node that lacks the same is sent requests as often as ever",
        "nodes/machine/broadcast/gaps.py",
        "        gap.vain += not gap.moved(self._place(partition))\n",
        "",
        tests=(GAPS + "test_whose_maker_is_not_there_yet_is_asked_ever_more_rarely_and_at_once_when_there_is_news",),
    ),
    Mutant(
        "windows dropped on the newest checkpoint alone",
        "nodes/machine/broadcast/window_retention.py",
        "    answered = ownership.durable_answered(KEPT_CHECKPOINTS)\n"
        "    return job.droppable_through(answered, ownership.durable_watermark(KEPT_CHECKPOINTS))",
        "    return job.droppable_through(ownership.durable_answered(1), ownership.durable_watermark(1)) + 10**6",
        tests=(WORK + "test_windows_are_dropped_when_three_checkpoints_of_every_partition_have_answered_them",),
    ),
    Mutant(
        "own runners do not keep windows",
        "nodes/machine/broadcast/slot_recovery.py",
        "through = min(recorded, keeping.unread_after_ms(self.job, self.work.runners.values()))",
        "through = recorded",
        tests=(WORK + "test_a_window_that_an_own_runner_still_reads_is_kept",),
    ),
    Mutant(
        "no rewind where history is lacking",
        "nodes/machine/workload.py",
        "if keeping.lacks_history(self.job, self.replica, runner):",
        "if False:",
        tests=(WORK + "test_a_partition_without_any_checkpoint_left_makes_the_node_read_the_whole_broadcast_again",),
    ),
    Mutant(
        "a full slot with holes is taken",
        "nodes/machine/broadcast/window_retention.py",
        "    if lacks and not replica.is_closed(delta.partition, delta.dropped_through_ms):\n        return False\n",
        "",
        tests=(WORK + "test_a_full_slot_without_windows_that_an_own_runner_reads_is_not_taken",),
    ),
    Mutant(
        "idle partitions hold each other",
        "nodes/machine/idle_partitions.py",
        "for slot in others if not slot.idle]",
        "for slot in others]",
        tests=(IDLE + "test_an_idle_partition_does_not_wait_for_one_that_is_idle_too",),
    ),
    Mutant(
        "a silence of the reader is taken for idleness",
        "nodes/machine/idle_partitions.py",
        "        if answer.end == answer.offset:\n",
        "        if True:\n",
        tests=(
            IDLE + "test_records_that_were_not_read_are_no_silence",
            IDLE + "test_ordered_backlogs_lose_nothing_however_long_a_turn_is",
        ),
        case="idle-backlog",
    ),
    Mutant(
        "a node takes its own pause for silence",
        "nodes/machine/idle_partitions.py",
        "self._running_ms[timeout_ms] += min(passed_ms, max(1, timeout_ms // STEPS))",
        "self._running_ms[timeout_ms] += passed_ms",
        tests=(IDLE + "test_a_node_that_did_not_run_does_not_take_that_for_silence",),
    ),
    Mutant(
        "a partition does not report that it is idle where that moves nothing",
        "nodes/machine/idle_partitions.py",
        "        if slot.idle and watermark_ms == task.watermark_ms:\n",
        "        if watermark_ms == task.watermark_ms:\n",
        tests=(IDLE + "test_partitions_that_are_idle_together_say_so_and_then_come_to_the_furthest",),
        case="idle",
    ),
    Mutant(
        "inserts into closed windows are not counted",
        "holon/program/late_inserts.py",
        "            self.refusals += refusals\n",
        "            pass\n",
        tests=("tests/unit/holon/tracks/test_late_inserts.py::test_they_are_counted_wherever_a_batch_is_cut",),
    ),
    Mutant(
        "a fast partition waits for nobody",
        "nodes/machine/workload.py",
        "return runner.task.watermark_ms - last_ms > self.config.max_watermark_drift_ms",
        "return False",
        tests=(PACE + "test_a_partition_far_ahead_of_another_waits_for_it",),
    ),
    Mutant(
        "a next owner waits behind what its former one has read",
        "nodes/machine/workload.py",
        "                limit = read if limit is None else min(limit, read)\n",
        "                continue\n",
        tests=(PACE + "test_a_partition_far_ahead_reads_again_what_its_former_owner_has_read_and_no_further",),
    ),
    Mutant(
        "a next owner reads on behind what its former one has read",
        "nodes/machine/workload.py",
        "                limit = read if limit is None else min(limit, read)\n",
        "                pass\n",
        tests=(PACE + "test_a_partition_far_ahead_reads_again_what_its_former_owner_has_read_and_no_further",),
    ),
    # --- suspicion and clocks ---
    Mutant(
        "nobody is suspected",
        "nodes/machine/membership/failure_detector.py",
        "if due_ms <= self._running_ms:",
        "if False:",
        tests=("tests/unit/nodes/machine/membership/test_failure_detector.py",),
    ),
    Mutant(
        "a stalled observer accuses the others",
        "nodes/machine/membership/failure_detector.py",
        "return [] if self._blind else list(self._suspects or [])",
        "return list(self._suspects or [])",
        tests=("tests/unit/nodes/machine/membership/test_failure_detector.py",),
    ),
    Mutant(
        "a clock that jumps back stops the node",
        "nodes/machine/node.py",
        "passed_ms = 0 if self._clock_ms is None else max(0, now_ms - self._clock_ms)",
        "passed_ms = 0 if self._clock_ms is None else now_ms - self._clock_ms",
        tests=(NODE + "test_a_clock_that_is_set_back_costs_nothing",),
    ),
    # --- bytes from outside ---
    Mutant(
        "nodes of older releases are not stopped before a delta that they refuse",
        "nodes/machine/broadcast/deltas_to_send.py",
        "len(effect.value) > m.FORMER_BROADCAST_BYTES",
        "len(effect.value) > m.MAX_BROADCAST_BYTES",
        tests=("tests/unit/nodes/machine/test_large_deltas.py",),
    ),
    Mutant(
        "damage is not noticed",
        "nodes/machine/envelope.py",
        "if zlib.crc32(payload, _CRC_SEED[version]) != crc:",
        "if False:",
        tests=(
            "tests/unit/nodes/machine/test_messages.py::test_any_flipped_bit_is_found_and_never_taken_for_a_newer_version",
        ),
    ),
    Mutant(
        "a control record of a newer release is passed over",
        "nodes/machine/membership/member.py",
        "if newer_matters and error.reason is m.BadReason.NEWER_VERSION:",
        "if False:",
        tests=(NODE + "test_a_control_record_of_a_newer_release_stops_the_node",),
    ),
    # --- outages ---
    Mutant(
        "a writer that has lost its place is an error for good",
        "nodes/log/kafka/retry_policy.py",
        "        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,\n",
        "",
        tests=("tests/unit/nodes/log/kafka/test_retry_policy.py",),
    ),
    Mutant(
        "units are offered to members without a heartbeat",
        "nodes/machine/ownership/sharing.py",
        "if self.detector.has_heartbeat(node, now_ms):",
        "if node in alive:",
        tests=("tests/unit/nodes/machine/ownership/test_sharing.py",),
    ),
    Mutant(
        "a producer that the broker may not know has several batches on their way",
        "nodes/log/kafka/direct/in_flight_batches.py",
        "if self.again or (self._known_s is None and self.in_flight):",
        "if self.again:",
        tests=("tests/unit/nodes/log/kafka/direct/test_in_flight_batches.py",),
    ),
    Mutant(
        "heartbeats have a place at the broker",
        "nodes/log/kafka/unordered_producer.py",
        '{"enable.idempotence": False, "acks": "1"}',
        '{"enable.idempotence": True, "acks": "all"}',
        tests=("tests/unit/nodes/log/kafka/test_retry_policy.py",),
    ),
    Mutant(
        "nodes without their log use up their restarts",
        "nodes/fleet/supervisor.py",
        "elif code == ENVIRONMENT:",
        "elif code < 0:",
        tests=("tests/unit/nodes/fleet/test_supervisor.py",),
    ),
)
