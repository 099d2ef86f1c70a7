"""Deltas of many bytes: those that no reader takes, and those that readers of older releases do not take."""

from __future__ import annotations

import pytest

from nodes.machine import effects as x
from nodes.machine import messages as m
from tests.unit.node_dialogue import Dialogue, running


def written(dialogue: Dialogue) -> list[bytes]:
    """Broadcast records in answer to the last event."""
    return [effect.value for effect in dialogue.effects if isinstance(effect, x.WriteBroadcast)]


def test_a_delta_that_no_reader_takes_fails_the_job_by_name_and_not_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    node = running()
    node.records(0, 1, 0, {"ts": 3})
    monkeypatch.setattr(m, "MAX_BROADCAST_BYTES", 40)
    effects = node.records(0, 1, 1, {"ts": 4}, {"ts": 12})
    (failed,) = [m.decode_control(effect.value) for effect in effects if isinstance(effect, x.WriteControl)]
    assert isinstance(failed, m.Failed) and (failed.partition, failed.offset) == (0, 3)
    assert "the delta of partition 0 up to offset 3 is too large" in failed.error
    assert "limit 40" in failed.error and "count" in failed.error and "2 windows" in failed.error
    assert not written(node) and node.node.left is None
    node.control(failed)
    assert node.node.left is not None and node.node.left.reason == failed.error


def test_older_releases_stop_before_a_delta_that_they_would_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    node = running()
    small = node.records(0, 1, 0, {"ts": 3})
    monkeypatch.setattr(m, "FORMER_BROADCAST_BYTES", len(written(node)[0]))
    large = node.records(0, 1, 1, {"ts": 4}, {"ts": 12}, {"ts": 22})
    assert not [effect for effect in small if isinstance(effect, x.WriteControl)]
    (record,) = [effect.value for effect in large if isinstance(effect, x.WriteControl)]
    assert m.decode_control(record) == m.LargeDelta(0, "a", 0) and record[0] == m.LARGE_VERSION
    control, delta = (next(i for i, each in enumerate(large) if isinstance(each, kind))
                      for kind in (x.WriteControl, x.WriteBroadcast))  # fmt: skip
    assert control < delta
