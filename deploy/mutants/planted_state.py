"""Bugs in what is pure: merge, slots, frontier, tracks, time, identities."""

from __future__ import annotations

from deploy.mutants.model import Mutant

SLOTS = "tests/laws/test_slots.py::"
PREFIX = SLOTS + "test_a_slot_is_always_exactly_the_prefix_at_its_position"
GATHERING = ("tests/laws/test_gathered_inserts.py",)
COMPLETE = SLOTS + "test_a_window_is_complete_when_the_last_partition_has_passed_end_and_lateness"
ADMISSION = "tests/unit/holon/time/test_admission.py::"
READER = "tests/integration/results/test_reader.py::"

BY_KEY = tuple(
    f"tests/laws/test_keyed_columns.py::test_columns_hold_what_objects_hold[{name}]"
    for name in ("bag", "bag of ints around 32 bits", "quantiles")
)
SKETCHES = ("tests/unit/wcrdt/test_keyed_sketches.py",)
JSON_COLUMNS = ("tests/unit/holon/formats/test_json_columns.py", "tests/laws/test_drawn_columns.py")
JSON_LISTS = ("tests/unit/holon/columnar/structs/test_columns.py",)

STATE = (
    # --- records as columns ---
    Mutant(
        "repeated names of a record are read as if the first one counted",
        "holon/columnar/structs/kernel.py",
        "    if number_at(seen, chosen) == row + 1:\n",
        "    if number_at(seen, chosen) == row + 1 and row < 0:\n",
        tests=JSON_COLUMNS,
    ),
    Mutant(
        "a record that lacks a required field is taken",
        "holon/columnar/structs/kernel.py",
        "if byte != 125 or number_at(frame, 1) != number_at(struct, 2):",
        "if byte != 125:",
        tests=JSON_COLUMNS,
    ),
    Mutant(
        "an item that breaks its type's bounds leaves its record as it is",
        "holon/columnar/structs/reader.py",
        "self.good[parent][self._rows_of(items, number)] = False",
        "pass",
        tests=JSON_LISTS,
    ),
    Mutant(
        "a list of a record begins where the last one ended",
        "holon/columnar/structs/kernel.py",
        "        put_number(cell, 0, number_at(table, 2))\n",
        "        put_number(cell, 0, max(number_at(table, 2) - 1, 0))\n",
        tests=JSON_LISTS,
    ),
    Mutant(
        "of lists one behind the other only the last one's items are good",
        "holon/columnar/structs/reader.py",
        "        changes[ends] -= 1\n",
        "        changes[ends] = -1\n",
        tests=JSON_LISTS,
    ),
    Mutant(
        "cells that a record leaves alone hold what was in memory",
        "holon/columnar/structs/reader.py",
        "            cells[columns] = 0\n",
        "            cells[columns] = 1\n",
        tests=JSON_COLUMNS,
    ),
    Mutant(
        "the first of eight digits is not read",
        "holon/columnar/structs/values_kernel.py",
        "        digits = digits * np.uint64(100_000_000) + _number_of(eight)\n",
        "        digits = digits * np.uint64(100_000_000) + _number_of(eight) % np.uint64(10_000_000)\n",
        tests=JSON_COLUMNS,
    ),
    Mutant(
        "a comma may end a list",
        "holon/columnar/structs/kernel.py",
        "byte_at(buffer + at) == 34 if struct else byte_at(buffer + at) != 93)",
        "byte_at(buffer + at) == 34 if struct else True)",
        tests=JSON_LISTS,
    ),
    Mutant(
        "records whose items find no room are left to msgspec for good",
        "holon/columnar/structs/reader.py",
        "if not any(heights[number] < most[number] for number in full):",
        "if True:",
        tests=JSON_LISTS,
    ),
    Mutant(
        "ties between floats are decided by 128 bits",
        "holon/columnar/structs/floats_kernel.py",
        "(mantissa & np.uint64(3)) == np.uint64(1):",
        "(mantissa & np.uint64(3)) == np.uint64(1) and exponent > 400:",
        tests=JSON_COLUMNS,
    ),
    Mutant(
        "bounds of a field's type are not checked behind the loop",
        "holon/columnar/structs/reader.py",
        "good &= kept if marks is None else kept | (marks != PRESENT)",
        "good &= True",
        tests=JSON_COLUMNS,
    ),
    # --- counted members of each key as columns ---
    Mutant(
        "members that several keys count share one count",
        "wcrdt/lattices/keyed/members/counted.py",
        "positions[new] = np.arange(self._pairs.count, self._pairs.count + len(new))",
        "positions[new] = self._pairs.count",
        tests=BY_KEY,
    ),
    Mutant(
        "a joined map of bags has new members, but counts of old ones alone",
        "wcrdt/lattices/keyed/members/counted.py",
        "return Prepared(known, pairs, positions, pairs[new], counts), changed or len(new) > 0",
        "return Prepared(known, pairs, positions, pairs[new], [] if len(new) else counts), changed or len(new) > 0",
        tests=BY_KEY,
    ),
    Mutant(
        "ints keep their places in another index when members are numbered",
        "wcrdt/lattices/keyed/members/pairs.py",
        "self._pairs = IntIndex(pairs >> PLACE_BITS << PLACE_BITS | places)",
        "self._pairs = IntIndex(pairs)",
        tests=BY_KEY,
    ),
    # --- sketches of each key as columns ---
    Mutant(
        "a hash that waits is never compared with those that are sorted",
        "wcrdt/lattices/keyed/members/sketches.py",
        "return given.take(~there) if there.any() else given",
        "return given",
        tests=SKETCHES,
    ),
    Mutant(
        "a join takes no bound of a full sketch",
        "wcrdt/lattices/keyed/members/sketches.py",
        "return Prepared(new, lower, bounds, height), len(new.owners) > 0 or len(lower) > 0",
        "return Prepared(new, NOTHING, NOTHING, height), len(new.owners) > 0",
        tests=SKETCHES,
    ),
    Mutant(
        "a bound that a join has lowered leaves hashes above it",
        "wcrdt/lattices/keyed/members/sketches.py",
        "            self._lowered = True\n",
        "",
        tests=SKETCHES,
    ),
    Mutant(
        "hashes of a row are in the order of their first bits alone",
        "wcrdt/lattices/keyed/members/sketches.py",
        "    if falls.any():",
        "    if False:",
        tests=SKETCHES,
    ),
    Mutant(
        "the bound of a full sketch is the last hash that it holds",
        "wcrdt/lattices/keyed/members/sketches.py",
        "together.numbers[starts[over] + self._k]",
        "together.numbers[starts[over] + self._k - 1]",
        tests=SKETCHES,
    ),
    # --- merge and slots ---
    Mutant(
        "counts are added where they should be joined",
        "wcrdt/lattices/tallies.py",
        "joined = tuple(map(max, mine, theirs))",
        "joined = tuple(a + b for a, b in zip(mine, theirs))",
        tests=("tests/unit/wcrdt/test_lattices_laws.py",),
    ),
    Mutant(
        "sums of slices of floats are rounded",
        "wcrdt/lattices/exact_sums/float_sums.py",
        "room_bits = len(rest).bit_length() + 1",
        "room_bits = 1",
        tests=("tests/unit/wcrdt/test_float_sums.py",),
    ),
    Mutant(
        "what the last slice of floats leaves is dropped",
        "wcrdt/lattices/exact_sums/float_sums.py",
        "np.flatnonzero(rest).tolist() if largest else ()",
        "()",
        tests=("tests/unit/wcrdt/test_float_sums.py",),
    ),
    Mutant(
        "what rounding takes from products of floats is dropped",
        "wcrdt/lattices/exact_sums/products.py",
        "sizes, signed = float_sums.exact_totals(np.abs(product), weights, groups.starts)",
        "sizes, signed = float_sums.exact_totals(np.abs(product), weights, groups.starts); lost *= 0",
        tests=("tests/unit/wcrdt/test_moments.py",),
    ),
    Mutant(
        "counts are added when slots are merged",
        "wcrdt/replica/slots.py",
        "            have.merge(value)\n",
        "            [have.insert(n) for n in [1] if have.tag == 'gcounter']\n            have.merge(value)\n",
        tests=(PREFIX,),
        case="",
    ),
    Mutant(
        "a delta is joined whatever it begins at",
        "wcrdt/replica/slots.py",
        "if delta.since > self.position and not delta.full:",
        "if False:",
        tests=(PREFIX,),
    ),
    Mutant(
        "old deltas are applied",
        "wcrdt/replica/slots.py",
        "        if delta.to <= self.position:\n            return Applied.OLD\n",
        "",
        tests=(PREFIX,),
    ),
    Mutant(
        "windows that were dropped come back",
        "wcrdt/replica/slots.py",
        "            if window.end_ms > dropped_through_ms:\n                self.take(state, window, value)\n",
        "            self.take(state, window, value)\n",
        tests=(SLOTS + "test_dropped_windows_do_not_come_back",),
    ),
    Mutant(
        "punctuation does not void the deltas that cross it",
        "wcrdt/replica/replica.py",
        "if delta.punctuations < slot.punctuation_count:",
        "if False:",
        tests=(SLOTS + "test_a_delta_that_missed_a_punctuation_is_void",),
    ),
    Mutant(
        "a punctuation counts wherever it is",
        "wcrdt/replica/replica.py",
        "if punctuation.after != slot.record.position or punctuation.watermark_ms < slot.record.watermark_ms:",
        "if punctuation.watermark_ms < slot.record.watermark_ms:",
        tests=(SLOTS + "test_a_punctuation_that_comes_after_more_records_is_void",),
    ),
    # --- frontier and time ---
    Mutant(
        "frontier is the maximum",
        "wcrdt/replica/replica.py",
        "return self._frontier.of(slot.record.watermark_ms for slot in self.slots)",
        "return max(slot.record.watermark_ms for slot in self.slots)",
        tests=(COMPLETE,),
    ),
    Mutant(
        "windows answered one ms early",
        "wcrdt/replica/replica.py",
        "return window.end_ms <= self.complete_through_ms",
        "return window.end_ms <= self.complete_through_ms + 1",
        tests=(COMPLETE,),
    ),
    Mutant(
        "allowed lateness forgotten at completion",
        "wcrdt/replica/replica.py",
        "return frontier if frontier >= END_OF_TIME_MS else frontier - self.lateness_ms",
        "return frontier",
        tests=(COMPLETE,),
    ),
    Mutant(
        "watermark one too high",
        "holon/source.py",
        "return ts_ms - self.delay_ms",
        "return ts_ms - self.delay_ms + 1",
        tests=(ADMISSION + "test_bounded_out_of_orderness_delays_the_watermark",),
    ),
    Mutant(
        "a boundary record is late",
        "holon/tracks/admission.py",
        "return any(w.end_ms + self.lateness_ms > watermark_ms for w in assigner.windows_for(ts_ms))",
        "return any(w.end_ms + self.lateness_ms > watermark_ms + 1 for w in assigner.windows_for(ts_ms))",
        tests=(
            ADMISSION + "test_allowed_lateness_keeps_a_window_open_for_exactly_so_long",
            ADMISSION + "test_a_record_is_accepted_while_any_state_still_takes_it",
        ),
        case="late",
    ),
    # --- tracks ---
    Mutant(
        "late records are counted twice",
        "holon/tracks/record_track.py",
        "self.counts.late += len(admitted.late) +",
        "self.counts.late += 2 * len(admitted.late) +",
        tests=(ADMISSION + "test_lateness_begins_exactly_at_the_end_of_the_window",),
        case="late",
    ),
    Mutant(
        "a peek does not see what is gathered",
        "holon/program/scope.py",
        """            self.apply(name)
            readable""",
        """            readable""",
        tests=GATHERING,
    ),
    Mutant(
        "what a record inserted before it failed stays",
        "holon/tracks/undo.py",
        "rows.cut_back(count)",
        "rows.cut_back(count + 1)",
        tests=GATHERING,
    ),
    Mutant(
        "a record that moved event time is taken back as if it had not",
        "holon/tracks/record_loop.py",
        "if admitted.next_watermarks_ms[row] > admitted.watermarks_ms[row]:",
        "if False:",
        tests=GATHERING,
    ),
    Mutant(
        "private windows are answered before they are replayed",
        "holon/tracks/window_track.py",
        "if not self._has_private:",
        "if True:",
        case="query1",
    ),
    Mutant(
        "a stage goes by what an earlier incarnation of its partition has answered",
        "holon/tracks/window_track.py",
        "return min(self.replica.answered_ms(stage - 1), self.scope.answers[stage - 1].position[0])",
        "return self.replica.answered_ms(stage - 1)",
        tests=("tests/laws/test_recut_stages.py",),
    ),
    Mutant(
        "results of a stage do not wait for those of earlier windows",
        "holon/outputs/outbox.py",
        "self._into, counts = held.runs, held.counts",
        "self._into, counts = self.runs, held.counts",
        tests=("tests/unit/holon/tracks/test_stages.py",),
    ),
    Mutant(
        "results that wait for later stages are not in the snapshot",
        "holon/tracks/task.py",
        "self.outbox.held_parts(),",
        "[],",
        tests=("tests/unit/holon/tracks/test_stages.py",),
    ),
    Mutant(
        "the window track's Locals are not in the snapshot",
        "holon/tracks/task.py",
        'self.scope.encode_locals("window")',
        "{}",
        tests=("tests/laws/test_recut.py",),
        case="running",
    ),
    # --- identities ---
    Mutant(
        "the reader hands duplicates out",
        "holon/outputs/deduplicator.py",
        "if seen <= self._last.get(key, NOTHING_SEEN):",
        "if False:",
        tests=(READER + "test_what_a_zombie_writes_between_the_new_owners_outputs_is_dropped",),
    ),
    Mutant(
        "the reader takes the next result for a duplicate of the last",
        "holon/outputs/deduplicator.py",
        "if seen <= self._last.get(key, NOTHING_SEEN):",
        "if (identity.position, identity.n - 1) <= self._last.get(key, NOTHING_SEEN):",
        tests=(
            READER + "test_each_output_is_handed_out_once_with_its_place_and_identity",
            READER + "test_any_interleaving_of_overlapping_owners_reads_as_one_run",
        ),
    ),
    Mutant(
        "what one incarnation wrote hides the next one's results",
        "holon/outputs/deduplicator.py",
        "            for key in [key for key in self._last if key[1] == identity.job]:\n"
        "                del self._last[key]\n",
        "",
        tests=(
            READER + "test_only_the_newest_incarnation_is_read_although_it_shows_in_a_later_partition",
            READER + "test_following_goes_over_to_the_next_incarnation",
        ),
    ),
    # --- event times ---
    Mutant(
        "who takes a partition over does not know the skew guard",
        "nodes/machine/workload.py",
        "            run.live_guard_ms,\n",
        "",
        tests=("tests/unit/holon/time/test_skew_guard.py::test_a_node_that_replays_decides_as_the_one_before_it",),
    ),
    Mutant(
        "a job that was begun live loses its skew guard when it is drained",
        "nodes/streams/jobs.py",
        "None if described.live_guard_ms is msgspec.UNSET else described.live_guard_ms,",
        "None,",
        tests=("tests/unit/holon/time/test_skew_guard.py::test_an_incarnation_keeps_what_its_start_has_recorded",),
    ),
    Mutant(
        "a quiet topic is reported to hold the frontier",
        "nodes/streams/held_frontier.py",
        "if end_ms <= reached_ms), default=None)",
        "if end_ms > 0), default=None)",
        tests=(
            "tests/unit/nodes/fleet/test_held_frontier.py::test_windows_that_go_on_and_topics_that_are_quiet_are_no_reason_to_say_anything",
        ),
    ),
)
