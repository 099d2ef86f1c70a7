"""The house rules that no other linter knows, as a checker of source files.

Each rule is a function from a `Source`, or from all of them, to `Violation`s; `python -m tests.tidy` prints them all.
The rules have tests of their own, which plant a violation for each (tests/unit/house/test_tidy_rules.py).
"""

from tests.tidy.house import TREE_RULES, check_tree
from tests.tidy.report import RULES, check
from tests.tidy.source import Source, Violation, tracked_sources

__all__ = ["RULES", "TREE_RULES", "Source", "Violation", "check", "check_tree", "tracked_sources"]
