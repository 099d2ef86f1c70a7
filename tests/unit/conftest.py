"""What several unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holon.columnar.loops import install
from nodes import compiled
from nodes.compiled import Compiled


@pytest.fixture(scope="module")
def loops() -> Iterator[Compiled]:
    """The compiled loops; no others of this process have them."""
    assert compiled.ensure(), "numba is part of the development environment"
    found = compiled.loops()
    install(None)
    assert found is not None
    yield found
