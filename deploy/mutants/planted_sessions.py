"""Bugs in sessions: combined states, slices, and which session takes which."""

from __future__ import annotations

from deploy.mutants.model import Mutant

SESSIONS = (
    Mutant(
        "counts of two windows are combined without those of the second",
        "wcrdt/lattices/tallies.py",
        "        self.absorb(theirs, 0)\n",
        "",
        tests=("tests/unit/wcrdt/test_lattices_collections.py",),
    ),
    Mutant(
        "a type with a merge of its own inherits that it combines",
        "wcrdt/lattice.py",
        "            cls.combines = False\n",
        "            pass\n",
        tests=("tests/unit/wcrdt/test_lattices_laws.py",),
    ),
)
