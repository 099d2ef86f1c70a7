"""`python -m tests.tidy`: print every violation in the tree; exit 1 if there is one."""

import sys

from tests.tidy import check, tracked_sources

if __name__ == "__main__":
    violations = [violation for source in tracked_sources() for violation in check(source)]
    for violation in violations:
        print(violation)
    sys.exit(bool(violations))
