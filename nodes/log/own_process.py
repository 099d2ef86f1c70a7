"""The id of this process, known without a system call: logs check at each use that they went through no fork."""

from __future__ import annotations

import os


class OwnProcess:
    """``id`` is right in children of a fork as well."""

    def __init__(self) -> None:
        self.id = os.getpid()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.id = os.getpid()


OWN = OwnProcess()
