"""Bugs in how transactional jobs trim their control topic, in nodes that find it trimmed, and in checkpoints."""

from __future__ import annotations

from deploy.mutants.model import Mutant

CONTROL = "tests/unit/nodes/transactions/test_control_history.py::"
SHARING = "tests/unit/nodes/machine/ownership/test_sharing.py::"
CLAIMING = "tests/unit/nodes/machine/ownership/test_claims.py::"
CHAINS = "tests/unit/nodes/transactions/checkpoints/test_broken_chains.py"
CHAIN_LIFE = "tests/unit/nodes/transactions/checkpoints/test_chain_life.py"
UNITS = "tests/unit/nodes/transactions/test_units.py"
LEDGER_LOAD = "tests/unit/nodes/transactions/test_ledger_load.py"
PROMOTION = "tests/sim/transactions/test_promotion.py"
PACE = "tests/unit/nodes/machine/membership/test_pace.py::"
PROCESSES = "tests/integration/log/test_embedded_processes.py::"
BACKLOG = "tests/sim/transactions/test_backlog.py::"
IDS = "tests/unit/nodes/transactions/clients/test_request_ids.py::"
CRASHING = "tests/unit/transactional/test_crashing.py::"
VALUES = "tests/unit/nodes/transactions/clients/test_values.py::"
CALLS = "tests/unit/transactional/test_calls.py::"

TRANSACTIONS = (
    Mutant(
        "the epochs that one record ends are compared with the first of them",
        "nodes/transactions/replay/log_run.py",
        "        self._made = later\n",
        "        self._made = []\n",
        tests=("tests/integration/transactions/test_replay_logs.py",),
    ),
    Mutant(
        "a promotion requests its snapshot beside the life of the chain",
        "nodes/transactions/units/following.py",
        "            self._checkpoints.promoted(number - self._job.sequencers)\n",
        "            self._checkpoints.begins(number - self._job.sequencers, None)\n"
        "            self._steps.node.partitions[number - self._job.sequencers].want_snapshot(whole=True)\n",
        tests=(PROMOTION,),
    ),
    Mutant(
        "a unit that its former owner still works on is claimed before it is loaded",
        "nodes/machine/ownership/claims.py",
        "now_ms, released.difference(abreast, self._late(suspects)))",
        "now_ms)",
        tests=(UNITS, f"{CLAIMING}test_the_former_owner_works_on_until_the_next_one_is_abreast"),
    ),
    Mutant(
        "a partition that another process has added is unknown",
        "nodes/log/embedded/log.py",
        "            meta = self._meta(topic, fresh=True)\n        if not",
        "            meta = self._meta(topic)\n        if not",
        tests=(f"{PROCESSES}test_threads_that_enlarge_a_topic_at_once_leave_the_largest_one",),
    ),
    Mutant(
        "a node leaves before others have what it had",
        "nodes/transactions/driver.py",
        "or self.claiming.has_handed_over(now_ms)",
        "or True",
        tests=(f"{UNITS}::test_a_node_that_leaves_works_on_until_others_have_loaded_its_partitions",),
    ),
    Mutant(
        "a node that leaves and was taken for dead joins again",
        "nodes/machine/ownership/claims.py",
        "        if self.leaving and not self.joined:\n",
        "        if False:\n",
        tests=(f"{CLAIMING}test_one_that_leaves_and_was_said_to_have_left_does_not_join_again",),
    ),
    Mutant(
        "a unit is claimed unloaded although its former owner works on",
        "nodes/machine/ownership/claims.py",
        "HELD_BY_LIVING_TIMES if self._released_by.get(unit) in living else HELD_TIMES",
        "HELD_TIMES",
        tests=(f"{CLAIMING}test_one_that_is_not_abreast_for_long_goes_on_while_the_former_owner_lives",),
    ),
    Mutant(
        "a request partition is claimed before its ids are known",
        "nodes/transactions/units/following.py",
        "return self._steps.node.sequencers[number].position >= first_needed(ledger, number)",
        "return True",
        tests=(f"{UNITS}::test_a_request_partition_is_claimed_by_a_node_that_has_read_the_ids_that_count",),
    ),
    Mutant(
        "the ledger's checkpoint is read in the node's loop",
        "nodes/transactions/composition.py",
        '        ledger_loader=around.new_saver("ledger-loader"),\n',
        "",
        tests=(LEDGER_LOAD,),
    ),
    Mutant(
        "a node joins before it knows a ledger",
        "nodes/transactions/driver.py",
        "self.claiming.control(list(read.values), False, now_ms)  # it",
        "self.log.send(*self.control.where, self.claiming.control(list(read.values), read.at_end, now_ms))  # it",
        tests=(LEDGER_LOAD,),
    ),
    Mutant(
        "epochs are forgotten that a partition needs once it is loaded",
        "nodes/transactions/units/following.py",
        "1 + min((steps.begun, *(unit.since for unit in self.loading)))",
        "1 + steps.begun",
        tests=(UNITS,),
    ),
    Mutant(
        "checkpoints that were replaced during a load are searched no further",
        "nodes/transactions/units/following.py",
        "        if begin is None and unit.names != tuple(saved.name for saved in self._kept(unit)):\n",
        "        if False:\n",
        tests=(UNITS,),
    ),
    Mutant(
        "a snapshot is handed over upon any chain",
        "nodes/transactions/checkpoints/chain_life.py",
        "event = CheckpointEvent.STRAY if since != self._end else CheckpointEvent.CONTINUES",
        "event = CheckpointEvent.CONTINUES",
        tests=(CHAIN_LIFE,),
    ),
    Mutant(
        "a snapshot is requested while a checkpoint is being saved",
        "nodes/transactions/checkpoints/chain_life.py",
        "(SAVING, CheckpointEvent.DUE): (SAVING, Effect.NOTHING)",
        "(SAVING, CheckpointEvent.DUE): (WANTED, Effect.REQUEST)",
        tests=(CHAIN_LIFE,),
    ),
    Mutant(
        "a checkpoint that rests upon nothing and is not whole is begun with",
        "transactional/state/snapshot_chain.py",
        "if self._whole and state.since not in (None, UNSAID):",
        "if False:",
        tests=(CHAINS,),
    ),
    Mutant(
        "a chain with a gap is begun with",
        "transactional/state/snapshot_chain.py",
        "elif state.since != self._end:",
        "elif False:",
        tests=(CHAINS,),
    ),
    Mutant(
        "a chain of the version before is begun with, however much of it is missing",
        "transactional/state/snapshot_chain.py",
        "if found < count:",
        "if False:",
        tests=(CHAINS,),
    ),
    Mutant(
        "a function is blamed for a checkpoint that is older than its epoch",
        "nodes/transactions/checkpoints/state_check.py",
        "        if why is not None:\n",
        "        if False:\n",
        tests=("tests/unit/nodes/transactions/checkpoints/test_state_check.py",),
    ),
    Mutant(
        "a merged file does not name the others that it continues",
        "nodes/transactions/checkpoints/chains.py",
        "since=last.ledger.done if made else seen[0][0].since",
        "since=None",
        tests=("tests/sim/transactions/test_checkpoints.py",),
    ),
    Mutant(
        "a checkpoint of the control topic names one record more than it holds",
        "nodes/transactions/trimming.py",
        "return ControlCheckpoint(control_at, ownership.snapshot())",
        "return ControlCheckpoint(control_at + 1, ownership.snapshot())",
        tests=("tests/sim/transactions/test_control.py",),
    ),
    Mutant(
        "the control topic goes up to its newest checkpoint",
        "nodes/transactions/control_history.py",
        "log.delete_before(topics.control, 0, min(",
        "log.delete_before(topics.control, 0, max(",
        tests=(CONTROL + "test_what_the_oldest_of_three_checkpoints_needs_stays_and_the_rest_goes",),
    ),
    Mutant(
        "who was the last to write a checkpoint of the control topic knows most",
        "nodes/transactions/control_history.py",
        "key=lambda each: (each[1].offset, each[0])",
        "key=lambda each: each[0]",
        tests=(CONTROL + "test_one_that_stood_still_for_long_and_writes_what_it_knew_moves_nothing_back",),
    ),
    Mutant(
        "a node keeps what others have claimed while it was stopped",
        "nodes/machine/ownership/claims.py",
        "        self._owned = set(self.ownership.owned_by(self.node))\n",
        "",
        tests=(CLAIMING + "test_one_that_stood_still_gives_up_what_others_have_claimed_meanwhile",),
    ),
    Mutant(
        "a node that was recorded as gone while it was stopped believes that it is a member",
        "nodes/machine/membership/member.py",
        "        self.joined, self.greeted_ms = self.node in self.ownership.members, None\n",
        "",
        tests=(CLAIMING + "test_one_that_was_said_to_have_left_while_it_stood_still_joins_again",),
    ),
    Mutant(
        "what a suspect would inherit is claimed although its own units may not be taken yet",
        "nodes/machine/ownership/sharing.py",
        "owner not in waiting and inherited[unit] == self.node",
        "owner not in waiting and wanted[unit] == self.node",
        tests=(SHARING + "test_what_a_suspect_would_inherit_is_not_claimed_while_its_own_units_may_not_be_taken",),
    ),
    Mutant(
        "a unit is claimed though its owner is not silent for long enough",
        "nodes/machine/ownership/sharing.py",
        "owner not in alive and owner not in waiting and",
        "owner not in alive and",
        tests=(SHARING + "test_balance_takes_nothing_from_a_suspect_that_may_not_be_taken_from_yet",),
    ),
    Mutant(
        "long silences that have ended do not predict the next one",
        "nodes/machine/membership/failure_detector.py",
        "        if silence_ms > self.failure_timeout_ms:\n",
        "        if False:\n",
        tests=(PACE + "test_a_node_that_is_silent_for_long_again_and_again_is_missed_only_after_longer_silences",),
    ),
    Mutant(
        "a node that was taken for dead and lives is given work at once",
        "nodes/machine/membership/pace.py",
        "        return frozenset(node for node, case in self._cases.items() if not case.proven)\n",
        "        return frozenset()\n",
        tests=(PACE + "test_a_node_that_was_taken_from_and_lives_gets_nothing_until_it_was_heard_in_time_for_long",),
    ),
    Mutant(
        "an observer that is late itself believes what it has read late",
        "nodes/machine/membership/pace.py",
        "        for case in self._cases.values():\n            case.in_time_since_ms = now_ms\n",
        "",
        tests=(PACE + "test_what_an_observer_hears_that_is_late_itself_proves_nothing",),
    ),
    Mutant(
        "nodes that are to get nothing are given what nobody has",
        "nodes/machine/ownership/assignment.py",
        "    names = tuple(name for name in names if name not in keeping) or names\n",
        "",
        tests=(
            "tests/unit/nodes/machine/ownership/test_assignment.py::test_nodes_that_are_keeping_have_what_they_have_and_others_share_the_rest",
        ),
    ),
    Mutant(
        "a sequencer reads all of a backlog",
        "transactional/epochs/sequencer.py",
        "return behind or self.pending < READ_AHEAD_CUTS * self.config.max_requests",
        "return True",
        tests=(BACKLOG + "test_what_is_read_ahead_of_a_backlog_is_bounded_and_all_of_it_is_answered",),
    ),
    Mutant(
        "old heartbeats count for a transactional node that starts",
        "nodes/runtime/heartbeat_topics.py",
        "self._at[where] = self._log.end_offset(*where)",
        "self._at[where] = self._log.start_offset(*where)",
        tests=(BACKLOG + "test_what_nodes_said_before_this_one_began_is_no_heartbeat",),
    ),
    Mutant(
        "a request runs in whatever request partition it is in",
        "transactional/requests/requests.py",
        "        if place != self.sequencer:  # where it is not remembered\n",
        "        if place != self.sequencer and not self.sequencers:\n",
        tests=(IDS + "test_a_request_in_a_partition_that_is_not_its_ids_is_refused_whoever_reads_it",),
    ),
    Mutant(
        "ids of a long list take the partitions of the ids before them",
        "transactional/requests/requests.py",
        'b"" for name in names]\n',
        'b"" for name in names[:1] + names[:-1]]\n',
        tests=(IDS + "test_each_id_of_a_list_is_in_its_partition_or_refused",),
    ),
    Mutant(
        "the offset in an id is not checked",
        "transactional/requests/requests.py",
        "    made_at = since_of(wire.id)\n    return wire.since if made_at is None",
        "    made_at = since_of(wire.id)\n    return wire.since if made_at is None or wire.since is None",
        tests=(IDS + "test_a_retry_after_the_window_is_refused_and_runs_nothing",),
    ),
    Mutant(
        "a request is never too old",
        "transactional/requests/requests.py",
        "        is_too_old = since is not None and self._is_too_old(offset, since)\n",
        "        is_too_old = since is not None and self._is_too_old(offset, since) and offset < since\n",
        tests=(IDS + "test_since_does_the_same_for_an_id_of_ones_own",),
    ),
    Mutant(
        "what was too old is not remembered",
        "transactional/requests/requests.py",
        "        if not is_first:\n            self._again.setdefault",
        "        if is_too_old:\n            self._order.pop()\n"
        "            if is_first:\n                del self._seen[name]\n"
        "        elif not is_first:\n            self._again.setdefault",
        tests=(BACKLOG + "test_an_admission_that_begins_late_decides_as_one_that_has_read_all",),
    ),
    Mutant(
        "a unit that nobody owns is nobody's for ever",
        "nodes/machine/ownership/unowned_units.py",
        "return since_ms is not None and now_ms - since_ms >= self._patience_ms",
        "return False",
        tests=("tests/unit/nodes/machine/ownership/test_unowned_units.py",),
    ),
    Mutant(
        "an id expires by offsets alone, and not by the requests of a list",
        "transactional/requests/requests.py",
        "        return offset - since > self._id_window or (len(order) >= self._id_window and order[0][0] >= since)\n",
        "        return offset - since > self._id_window or not order\n",
        tests=(IDS + "test_an_id_that_a_client_made_expires_by_the_number_of_requests_too",),
    ),
    Mutant(
        "whoever writes requests answers external calls",
        "transactional/requests/requests.py",
        "    if not answer_key:\n        return True\n",
        "    return True\n",
        tests=("tests/attack/test_forged_answers.py",),
    ),
    Mutant(
        "how deep a request may be nested depends on the node",
        "transactional/requests/requests.py",
        "            if _is_too_deep(value):\n                raise BadValue(TOO_DEEP)\n",
        "",
        tests=("tests/attack/test_request_limits.py",),
    ),
    Mutant(
        "arguments that would arrive as others are sent",
        "transactional/requests/requests.py",
        "sent = sendable(request) if isinstance(request, WireRequest) else",
        "sent = request if isinstance(request, WireRequest) else",
        tests=(VALUES + "test_what_json_keeps_is_json_on_the_log_and_the_rest_is_packed",),
    ),
    Mutant(
        "a result that would arrive as another is given",
        "transactional/execution/execution.py",
        "            if len(data) <= self._site.max_value_bytes and is_plain(value):\n",
        "            if len(data) <= self._site.max_value_bytes:\n",
        tests=("tests/integration/transactions/test_asyncio_values.py::test_functions_are_told_what_cannot_travel",),
    ),
    Mutant(
        "a function may end without its calls",
        "transactional/execution/execution.py",
        "        if ctx.issued:\n",
        "        if ctx.issued is not None and ctx.tid < 0:\n",
        tests=(CALLS + "test_a_call_that_is_not_awaited_is_an_error_by_name",),
    ),
    Mutant(
        "a declared exception loses its fields",
        "transactional/errors.py",
        "        if fields:\n            return Aborted(_text(kind), (*plain, fields))\n",
        "",
        tests=(CALLS + "test_a_declared_exception_comes_back_with_its_type_and_fields",),
    ),
    Mutant(
        "a window that is not awaited goes unnoticed behind one that is",
        "holon/tracks/record_loop.py",
        "if outcome is not None or scope.touched:",
        "if (outcome is not None or scope.touched) and not scope.awaits:",
        tests=("tests/unit/holon/program/test_forgotten_awaits.py",),
    ),
    Mutant(
        "a node that takes requests over reads a record for each id that is known",
        "nodes/transactions/orphaned_work.py",
        "    at, known, step = needed, 0, BACK_RECORDS\n",
        "    at, known, step = first, 0, BACK_RECORDS\n",
        tests=(BACKLOG + "test_a_sequencer_that_is_taken_over_reads_few_records_where_each_holds_many_requests",),
    ),
    Mutant(
        "a node that takes requests over knows half of the ids",
        "nodes/transactions/orphaned_work.py",
        "    while at > first and known < id_window:\n",
        "    while at > first and 2 * known < id_window:\n",
        tests=(BACKLOG + "test_an_admission_that_begins_late_decides_as_one_that_has_read_all",),
    ),
    Mutant(
        "a barrier of an owner that knows nothing of a verdict counts",
        "transactional/epochs/ledger.py",
        " or barrier.without != known:\n",
        ":\n",
        tests=(CRASHING + "test_the_first_verdict_before_the_partitions_barrier_counts_and_older_barriers_do_not",),
    ),
    Mutant(
        "a verdict counts behind the barrier of its round",
        "transactional/epochs/ledger.py",
        " or any((number, round_, partition) not in self._own for round_ in later):\n",
        ":\n",
        tests=(CRASHING + "test_a_verdict_behind_the_barrier_of_its_round_or_a_later_one_is_void",),
    ),
    Mutant(
        "an incarnation logs that it tries one epoch, and runs the next one without a record",
        "transactional/execution/crashing.py",
        "            self._until = coming.cut\n",
        "            self._until = epoch\n",
        tests=(CRASHING + "test_who_has_not_just_taken_over_says_nothing",),
    ),
    Mutant(
        "an owner goes past a record before its verdict has come back",
        "nodes/machine/crashing_records.py",
        "        self._accused[partition] = offset\n",
        "",
        tests=(
            "tests/unit/nodes/machine/test_crashing_records.py::test_whose_record_ends_the_process_waits_for_the_verdict_and_sets_it_aside",
        ),
    ),
)
