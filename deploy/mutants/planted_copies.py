"""Bugs in hot standbys."""

from __future__ import annotations

from deploy.mutants.model import Mutant

STANDBY = "tests/unit/test_standby.py::"
LATE = STANDBY + "test_owner_is_late_at_the_end_of_the_patience_and_not_before"
FORGOTTEN = STANDBY + "test_results_are_forgotten_up_to_what_the_log_shows_and_no_further"

COPIES = (
    Mutant(
        "a standby never steps in",
        "nodes/machine/standby.py",
        "if awaited or self._is_late(self.outputs.made_ms(), self.patience.results, now_ms):",
        "if False:",
        tests=(LATE,),
    ),
    Mutant(
        "a standby steps in at once",
        "nodes/machine/standby.py",
        "return now_ms - max(made_ms, self._free_since_ms) >= patience_ms",
        "return True",
        tests=(LATE,),
    ),
    Mutant(
        "a standby keeps the lead for ever",
        "nodes/machine/lead.py",
        "        self.active = False\n        self._published.clear()\n",
        "        self._published.clear()\n",
        tests=(STANDBY + "test_lead_goes_back_to_an_owner_that_keeps_pace",),
    ),
    Mutant(
        "one held result is forgotten before the log shows it",
        "nodes/machine/holding.py",
        "cut = bisect_right(held.places, through)",
        "cut = min(bisect_right(held.places, through) + 1, len(held.places))",
        tests=(FORGOTTEN,),
    ),
    Mutant(
        "what the log shows is held all the same",
        "nodes/machine/holding.py",
        "if place <= seen.get(track, NOTHING_SEEN):",
        "if False:",
        tests=(STANDBY + "test_result_that_the_log_shows_already_is_not_held",),
    ),
    Mutant(
        "a held delta is dropped when one of its tracks is on the log",
        "nodes/machine/holding.py",
        "return record <= logged.record and window <= logged.window",
        "return record <= logged.record or window <= logged.window",
        tests=(STANDBY + "test_delta_is_held_until_both_of_its_tracks_are_on_the_log",),
    ),
    Mutant(
        "a promoted standby drops what it holds",
        "nodes/machine/copies.py",
        "work.effects += runner.write(outputs.take(self.running_ms))",
        "outputs.take(self.running_ms)",
        tests=(STANDBY + "test_standby_writes_nothing_and_publishes_what_it_holds_when_it_is_promoted",),
    ),
)
