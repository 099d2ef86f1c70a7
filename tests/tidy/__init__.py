"""The house rules that no other linter knows, as a checker of source files.

Each rule is a function from a `Source` to its `Violation`s; `python -m tests.tidy` prints them all. The rules have
tests of their own, which plant a violation for each (tests/unit/test_tidy_rules.py).
"""

from tests.tidy.report import RULES, check
from tests.tidy.source import Source, Violation, tracked_sources

__all__ = ["RULES", "Source", "Violation", "check", "tracked_sources"]
