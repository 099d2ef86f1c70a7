"""`python -m tests.tidy`: print every violation in the tree; exit 1 if there is one."""

import gc
import sys

from tests.tidy import check, check_tree, tracked_sources
from tests.tidy.house import empty_places

if __name__ == "__main__":
    gc.disable()  # the trees of a thousand files are kept, and hold nothing that is garbage
    sources = list(tracked_sources())
    violations = [violation for source in sources for violation in check(source)]
    violations += [*check_tree(sources), *empty_places(sources)]
    for violation in violations:
        print(violation)
    sys.exit(bool(violations))
