"""Bugs in hot standbys."""

from __future__ import annotations

from deploy.mutants.model import Mutant

COPIES_TESTS = "tests/unit/test_node_copies.py"

COPIES = (
    Mutant(
        "a standby never publishes",
        "nodes/machine/standby.py",
        "self._left_ms(made_ms, patience_ms, now_ms) <= 0",
        "False",
        tests=(COPIES_TESTS,),
    ),
    Mutant(
        "a standby publishes at once",
        "nodes/machine/standby.py",
        "self._left_ms(made_ms, patience_ms, now_ms) <= 0",
        "True",
        tests=(COPIES_TESTS,),
    ),
    Mutant(
        "a standby forgets one result that it holds",
        "nodes/machine/holding.py",
        "            for held in runs:\n",
        "            for held in list(runs)[1:] or list(runs):\n",
        tests=(COPIES_TESTS,),
    ),
    Mutant(
        "a standby drops a delta that it has not seen",
        "nodes/machine/holding.py",
        "while self._held and _is_on(self._held[0].delta, logged):",
        "while self._held:",
        tests=(COPIES_TESTS,),
    ),
    Mutant(
        "a standby drops results that are behind the last one seen",
        "nodes/machine/holding.py",
        "cut = bisect_right(held.places, through)",
        "cut = len(held.places)",
        tests=(COPIES_TESTS,),
    ),
    Mutant(
        "a promoted standby forgets what it holds",
        "nodes/machine/copies.py",
        "        work.effects += runner.write(outputs.take())\n",
        "",
        tests=(COPIES_TESTS,),
        case="",
    ),
    Mutant(
        "a standby's own work stands for all that is missing",
        "nodes/machine/filling.py",
        "                self.work.copies.heal(runner)\n            return False\n",
        "                self.work.copies.heal(runner)\n                return True\n            return False\n",
        tests=(COPIES_TESTS,),
    ),
    Mutant(
        "a standby crosses punctuations that may come",
        "nodes/machine/copies.py",
        "own = logged.record[0] if runner.idle_allowed else",
        "own =",
        tests=(COPIES_TESTS,),
    ),
    Mutant(
        "a standby keeps the lead for ever",
        "nodes/machine/lead.py",
        "        self.active = False\n        self._published.clear()\n",
        "        self._published.clear()\n",
        tests=(COPIES_TESTS,),
    ),
)
