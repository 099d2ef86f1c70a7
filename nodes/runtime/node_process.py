"""The process of a node, of either kind of job: how it is stopped, watched, and named in its errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from holon.tracks.job_code import FunctionCall
from nodes.checkpoints.errors import CheckpointError
from nodes.log.contract import Log, LogError, LogInterrupted, UnknownTopic
from nodes.runtime.heartbeat_topics import deaf_after_ms
from nodes.runtime.interpreter_lock_watch import LockWatch
from nodes.runtime.stop_signals import INTERRUPTED_EXIT, StopEvent
from nodes.runtime.watchdog import Watchdog, WatchdogOptions
from nodes.settings.settings import NodeSettings


class NodeShell:
    """The process around a node's loop. ``stop`` is set once it has been requested to leave."""

    def __init__(self) -> None:
        self.stop = StopEvent()

    def request_stop(self, signum: int = 0, frame: FrameType | None = None) -> None:
        """Leave in order after this turn; a second time at once."""
        if self.stop.is_set():
            os._exit(INTERRUPTED_EXIT)
        self.stop.set()

    def new_watchdog(
        self,
        log: Log,
        topic: str,
        heartbeat: Callable[[], bytes],
        node: NodeSettings,
        *,
        function_timeout_ms: int,
        hung: Callable[[FunctionCall, str], None] | None = None,
        parent: int | None = None,
        check: Callable[[], bool] | None = None,
    ) -> Watchdog:
        """The watchdog of the loop: arguments as in ``WatchdogOptions``, the other figures by the settings."""
        return Watchdog(
            WatchdogOptions(
                log,
                topic,
                heartbeat,
                node.heartbeat_interval_ms,
                function_timeout_ms,
                deaf_after_ms(node.failure_timeout_ms),
                hung,
                self.stop.set,
                parent,
                check=check,
                lock=LockWatch(2 * node.function_timeout_ms),
            )
        )


@contextmanager
def named_errors(
    node: str, position: Callable[[], str] | None = None, *, but: tuple[type[LogError], ...] = ()
) -> Iterator[None]:
    """Errors of the log and of the checkpoint store name the node, and its position; ``but``: these do so already.

    A topic that is unknown is an interruption: it was there when the node began, so a broker loads, or it is missed
    when the node begins anew.
    """
    try:
        yield
    except but:
        raise
    except UnknownTopic as error:
        raise LogInterrupted(f"node {node}: {error}{_in_brackets(position)}") from error
    except (LogError, CheckpointError) as error:
        error.args = (f"node {node}: {error}{_in_brackets(position)}",)
        raise


def _in_brackets(position: Callable[[], str] | None) -> str:
    return "" if position is None else f" ({position()})"
