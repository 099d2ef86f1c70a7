"""`python -m tests.tidy [--changed]`: print every violation in the tree; exit 1 if there is one.

With ``--changed`` files that had no violation before, and have not changed since, are not read again by the rules that
look at one file. The rules of the whole tree look at all.
"""

import argparse
import gc
import sys

from tests.tidy import check, check_tree, tracked_sources
from tests.tidy.house import empty_places
from tests.tidy.passed import Passed, digest


def main(changed: bool) -> int:
    """Check the tree; the exit code."""
    sources = list(tracked_sources())
    rules = digest(*(source.text for source in sources if source.within(("tests/tidy",))))
    digests = {source.path: digest(rules, source.text) for source in sources}
    passed = Passed("tidy")
    looked_at = set(passed.changed(digests) if changed else digests)
    violations = [violation for source in sources if source.path in looked_at for violation in check(source)]
    passed.keep(digests, [violation.path for violation in violations])
    violations += [*check_tree(sources), *empty_places(sources)]
    for violation in violations:
        print(violation)
    return bool(violations)


if __name__ == "__main__":
    gc.disable()  # the trees of a thousand files are kept, and hold nothing that is garbage
    parser = argparse.ArgumentParser(prog="python -m tests.tidy")
    parser.add_argument("--changed", action="store_true", help="only files that have changed since they passed")
    sys.exit(main(parser.parse_args().changed))
