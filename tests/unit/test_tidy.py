"""The tree keeps the house rules."""

from __future__ import annotations

from tests.tidy import check, tracked_sources
from tests.tidy.source import PURE, ROOMS


def test_tree_keeps_the_house_rules() -> None:
    violations = [str(violation) for source in tracked_sources() for violation in check(source)]
    assert not violations, "\n".join(["the tree breaks house rules:", *violations])


def test_every_room_is_seen() -> None:
    paths = [source.path for source in tracked_sources() if source.is_python]
    for place in (*ROOMS, *PURE):
        assert any(path == f"{place}.py" or path.startswith(f"{place}/") for path in paths), place
