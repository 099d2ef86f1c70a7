"""Large buffers come back when nobody views them, and idle ones go back to the system."""

from __future__ import annotations

from nodes.log.buffer_pool import BufferPool


def test_a_buffer_comes_back_with_its_last_view() -> None:
    pool = BufferPool(1 << 16, most=1)
    first, second = pool.acquire(), pool.acquire()
    view = first[10:20]
    del first, second
    assert pool.held == 2, "a view keeps its buffer, and one is spare"
    del view
    assert pool.held == 1


def test_buffers_that_a_backlog_needs_are_kept_until_nobody_does() -> None:
    pool = BufferPool(1 << 16, most=6, at_rest=2)
    for needed in (6, 5):
        busy = [pool.acquire() for _ in range(needed)]
        del busy
        assert pool.held == 6
        pool.release_idle()
        assert pool.held == 6, "one that was needed since the last time stays"
    pool.release_idle()
    assert pool.held == 2
    assert len({id(buffer) for buffer in [pool.acquire(), pool.acquire()]}) == 2
