"""moto's server, in which one conditional write is decided after the other, as S3 does it.

moto asks whether the name is taken, and stores the value later. Of two writers at once, both may be the first there.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from moto.server import DomainDispatcherApplication, main

deciding = threading.Lock()
answer = DomainDispatcherApplication.__call__


def answer_in_turn(self: DomainDispatcherApplication, environ: dict[str, Any], start_response: Any) -> Any:
    """As moto does; writes with a condition wait for each other."""
    if "HTTP_IF_NONE_MATCH" not in environ and "HTTP_IF_MATCH" not in environ:
        return answer(self, environ, start_response)
    with deciding:
        return answer(self, environ, start_response)


if __name__ == "__main__":
    DomainDispatcherApplication.__call__ = answer_in_turn  # type: ignore[method-assign]
    main(sys.argv[1:])
