"""Records sent in small pieces are checked in a short way, which must not accept those that the long one refuses."""

from __future__ import annotations

import pytest

from nodes.log.checks import are_small, check_batch
from nodes.log.contract import RecordTooLarge


@pytest.mark.parametrize(
    "values", [[b"12345678"], [b"", b"1"], [b"123456789"], [b"1", b"123456789"], ["text"], [b"1", None], [b"1"] * 100]
)
def test_what_passes_the_short_check_passes_the_long_one(values: list[bytes]) -> None:
    try:
        check_batch(values, None, None, 8, "here")
    except (RecordTooLarge, TypeError):
        assert not are_small(values, 8)
    else:
        assert are_small(values, 8) or len(values) == 100
