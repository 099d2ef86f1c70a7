"""States of few keys in either of their forms: as objects, as they are, and as columns, as those of many keys are."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest


def in_both_forms(*limits: tuple[ModuleType, str]) -> Any:
    """A fixture by which each test of a module runs twice.

    ``limits``: from how many keys on each state is columns, as attributes of modules.
    """

    @pytest.fixture(autouse=True, scope="module", params=["few keys are objects", "few keys are columns"])
    def form(request: pytest.FixtureRequest) -> Iterator[None]:
        patch = pytest.MonkeyPatch()
        if request.param == "few keys are columns":
            for module, limit in limits:
                patch.setattr(module, limit, 1)
        yield
        patch.undo()

    return form
