"""Planted bugs in commands that wait for room on the log."""

from __future__ import annotations

from deploy.mutants.model import Mutant

_PATIENCE = "nodes/transactions/clients/patience.py"
_PROPOSING = "nodes/transactions/upgrades/proposing.py"
_TESTS = ("tests/unit/nodes/transactions/upgrades/test_upgrading.py",)

PATIENCE = (
    Mutant(
        "an upgrade takes nodes that wait for room for nodes that do not run",
        _PROPOSING,
        "if may_wait and self._patience.awaited_heartbeats(self._log, self._topics):",
        "if False:",
        tests=_TESTS,
    ),
    Mutant(
        "a dry run waits for room",
        _PROPOSING,
        "not living and not dry_run and bool(ownership.members)",
        "not living and bool(ownership.members)",
        tests=_TESTS,
    ),
    Mutant(
        "an upgrade for which there is no room ends the command",
        _PROPOSING,
        "self._patience.append(self._log, self._topics.control, record)",
        "self._log.append(self._topics.control, 0, [record])",
        tests=_TESTS,
    ),
    Mutant(
        "a command waits though no time makes its address space larger",
        _PATIENCE,
        " or isinstance(error, AddressSpaceFull)",
        "",
        tests=_TESTS,
    ),
    Mutant(
        "a command waits a whole moment with less patience left",
        _PATIENCE,
        "min(_AGAIN_S, self.left_s)",
        "_AGAIN_S",
        tests=_TESTS,
    ),
    Mutant(
        "each attempt is told",
        _PATIENCE,
        "            self._told = what\n",
        "",
        tests=_TESTS,
    ),
)
